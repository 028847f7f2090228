"""The recipes of callbacks; the grammar is in the package's docstring."""

# ruff: noqa: ANN401 - callbacks are made of anything

from __future__ import annotations

import base64
import enum
import math
import sys
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from jcache.errors import NotStorable, Unresolved
from jcache.formats import pytrees
from jcache.formats.pytrees.classes import find, held_by, is_namedtuple, name_of, slots_of
from jcache.formats.pytrees.grammar import is_text
from jcache.jax_internals import avals, treedefs
from jcache.traces import structures
from jcache.traces.callbacks.codes import digest_of, place_of
from jcache.traces.callbacks.frames import has_frames, without_directories
from jcache.traces.callbacks.reach import Origin, Reach
from jcache.traces.callbacks.reading import Reader, locals_of

Json = Any
_COPIED: Final = (set, bytearray)  # what holds nothing that changes
_CONSTANTS: Final = (int, float, complex, str, bytes, frozenset, range, slice)
_ANOTHER: Final = "it would be made again as another one"


def write(callbacks: Sequence[Any], origin: Origin) -> Json:
    """Return the recipes of the callbacks of a program that a function was traced to.

    Args:
        callbacks: the functions, as JAX gives them to the executable.
        origin: the traced function.

    Raises:
        NotStorable: a callback holds something that a later process would not find or make again.
    """
    try:
        written = Writer(origin).write(callbacks)
        again = Writer(origin, are_copies=True).write(Reader(written, origin).callbacks())
    except (NotStorable, Unresolved) as error:
        raise NotStorable(f"it calls back to the host, and {str(error).rstrip('.')}") from error
    except Exception as error:
        raise NotStorable(f"it calls back to the host, and that cannot be kept: {error!r}") from error
    if again != written:
        raise NotStorable(f"it calls back to the host, and {_ANOTHER}")
    return written


class Writer:
    """Writes the recipes of the callbacks of one program.

    Args:
        origin: as `write` has it.
        are_copies: whether these were made of recipes, so that nothing else refers to what they hold.
    """

    def __init__(self, origin: Origin, *, are_copies: bool = False) -> None:
        self._reach = Reach(origin)
        self._home = origin.home
        self._are_copies = are_copies
        self._things: list[Json] = []
        self._numbers: dict[int, int] = {}
        self._private: list[Any] = []  # what is copied: nothing else may refer to it
        self._owners: dict[int, int] = {}
        self._written: dict[int, Json] = {}
        self._alive: list[Any] = []

    def write(self, callbacks: Sequence[Any]) -> Json:
        """Return the recipes."""
        written = [self._value(each) for each in callbacks]
        self._alive.clear()
        if not self._are_copies:
            self._check_private()
        return {"made": self._things, "callbacks": written}

    def _check_private(self) -> None:
        """Raise `NotStorable` where something refers to a thing besides the callbacks."""
        probe: list[Any] = [[]]
        usual = next(sys.getrefcount(each) for each in probe)
        for each in self._private:
            if sys.getrefcount(each) != usual + self._owners[id(each)]:
                what = "a variable" if isinstance(each, CellType) else f"a {type(each).__qualname__}"
                raise NotStorable(
                    f"{what} of it is used elsewhere, too, where the function does not reach it by a name"
                )

    def _value(self, value: Any) -> Json:
        if value is None or type(value) is bool:
            return value
        if type(value) is str and is_text(value):
            return ["frames", without_directories(value)] if has_frames(value) else value
        if (type(value) is int and value.bit_length() <= 64) or (type(value) is float and math.isfinite(value)):
            return value
        if id(value) in self._numbers:
            self._owners[id(value)] += 1
            return ["made", self._numbers[id(value)]]
        if id(value) not in self._written:
            self._alive.append(value)  # so that no other object has its address
            self._written[id(value)] = self._other(value)
        return self._written[id(value)]

    def _other(self, value: Any) -> Json:
        written = self._named(value)
        if written is None and (path := self._reach.path_to(value)) is not None:
            written = ["reached", *path]
        return written or self._global(value) or self._plain(value) or self._thing(value)

    def _named(self, value: Any) -> Json:
        """Return how something is written that has a name in a module; None for anything else."""
        if isinstance(value, ModuleType):
            return ["module", value.__name__] if sys.modules.get(value.__name__) is value else None
        if (name := treedefs.findable_name(value)) is None:
            return None
        return ["object", self._short(name), digest_of(value.__code__) if isinstance(value, FunctionType) else None]

    def _global(self, value: Any) -> Json:
        """Return how an instance is written that the module of its class has under one name; None for others."""
        module = type(value).__module__
        names = [name for name, each in vars(sys.modules.get(module, object)).copy().items() if each is value]
        texts = f"{module}:{names[0]}" if names else "", name_of(type(value))
        return ["global", *map(self._short, texts)] if len(names) == 1 else None

    def _short(self, name: str) -> str:
        """Return a name without its module where that is the function's own."""
        return name.removeprefix(self._home) if name.startswith(f"{self._home}:") else name

    def _plain(self, value: Any) -> Json:
        """Return how a value is written that cannot change; None for anything else."""
        kind = type(value)
        if kind is tuple:
            return ["tuple", *map(self._value, value)]
        if is_namedtuple(kind) and find(name_of(kind)) is kind and not held_by(value, slots_of(kind)):
            return ["fields", self._short(name_of(kind)), *map(self._value, value)]
        if kind is partial and not vars(value):
            return ["partial", *map(self._value, (value.func, value.args, value.keywords))]
        if kind is MethodType or (kind is BuiltinFunctionType and not isinstance(value.__self__, ModuleType)):
            return self._method(value)
        if kind.__name__ == "PyTreeDef":
            return ["structure", structures.encode(value, ())]
        if kind.__name__ == "ShapedArray":
            told = avals.described(value)
            return ["type", list(told.shape), told.dtype, told.is_weak]
        if kind.__module__.partition(".")[0] == "numpy" and isinstance(getattr(value, "str", None), str):
            return ["dtype", value.name]
        if isinstance(value, enum.Enum) and type(value).__members__.get(str(value._name_)) is value:
            return ["member", self._short(name_of(kind)), value._name_]
        return self._data("data", value) if _is_constant(value) else None

    def _method(self, value: Any) -> Json:
        if getattr(value.__self__, value.__name__, None) != value:
            raise NotStorable(f"it holds a method that its object does not have as `{value.__name__}`")
        return ["method", self._value(value.__self__), value.__name__]

    def _data(self, tag: str, value: Any) -> Json:
        with suppress(NotStorable):
            data = b"".join(pytrees.dump(value).pieces)
            return None if f'"{self._home}:'.encode() in data else [tag, base64.b64encode(data).decode()]
        return None

    def _list(self, value: list[Any]) -> Json:
        """Return how a list is written; bytes between texts of frames are identifiers of calls, as equinox has them."""
        frames = any(type(each) is str and has_frames(each) for each in value)
        return ["list", *(_call(each) if frames and type(each) is bytes else self._value(each) for each in value)]

    def _thing(self, value: Any) -> Json:
        number = self._numbers[id(value)] = len(self._things)
        self._things.append(None)
        self._owners[id(value)] = 1
        kind = type(value)
        if kind is FunctionType:
            thing = self._function(value)
        elif kind is list:
            thing = self._list(value)
        elif kind is dict or (kind is OrderedDict and not vars(value)):
            pairs = ([self._value(key), self._value(each)] for key, each in value.items())
            thing = ["dict" if kind is dict else "ordered", *pairs]
        elif kind is deque:
            thing = ["deque", value.maxlen, *map(self._value, value)]
        else:
            thing = self._data("copy", value) if kind in _COPIED or hasattr(value, "strides") else None
            thing = thing or self._instance(value)
        if kind is not FunctionType and not _is_frozen(value):
            self._private.append(value)
        self._things[number] = thing
        return ["made", number]

    def _function(self, function: FunctionType) -> Json:
        cells = list(map(self._cell, function.__closure__ or ()))
        beside = function.__defaults__, function.__kwdefaults__, vars(function) or None
        module, *place = place_of(function)
        return ["function", "" if module == self._home else module, *place, cells, *map(self._value, beside)]

    def _cell(self, cell: CellType) -> Json:
        if id(cell) in self._numbers:
            self._owners[id(cell)] += 1
        elif (path := self._reach.path_to(cell)) is not None:
            return ["reached", *path]
        else:
            number = self._numbers[id(cell)] = len(self._things)
            self._things.append(["cell"])
            self._owners[id(cell)] = 1
            self._private.append(cell)
            with suppress(ValueError):
                self._things[number] = ["cell", self._value(cell.cell_contents)]
        return ["made", self._numbers[id(cell)]]

    def _instance(self, value: Any) -> Json:
        """Return how an instance of a class of Python's own kind is written."""
        cls = type(value)
        name = name_of(cls)
        try:
            plain = find(name) is cls and type(object.__new__(cls)) is cls
        except (TypeError, Unresolved):
            plain = False
        if not plain or isinstance(value, BaseException):
            raise NotStorable(f"it holds a {name.removeprefix('builtins:')}, which jcache cannot make again")
        slots = {each: getattr(value, each) for each in slots_of(cls) if hasattr(value, each)}
        held = treedefs.state_of(value) | {
            each: at for each, at in slots.items() if each not in {"__dict__", "__weakref__"}
        }
        return ["instance", self._short(name), *([each, self._value(at)] for each, at in sorted(held.items()))]


def _call(identifier: bytes) -> Json:
    """Return how the identifier of a call is written: of one that is running, or of one that will never be again."""
    for place, _ in locals_of(lambda each: each is identifier):
        return ["local", *place]
    return ["random", len(identifier)]


def _is_constant(value: Any) -> bool:
    """Return whether a value cannot change, nor anything in it."""
    numpy, jax = sys.modules.get("numpy"), sys.modules.get("jax")
    if type(value) in _CONSTANTS or isinstance(value, enum.Enum):
        return True
    if numpy is not None and isinstance(value, numpy.generic):
        return True
    return jax is not None and isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)


def _is_frozen(value: Any) -> bool:
    """Return whether an instance cannot change."""
    parameters: Any = getattr(type(value), "__dataclass_params__", None)
    return type(value).__name__ == "ShapeDtypeStruct" or (parameters is not None and bool(parameters.frozen))
