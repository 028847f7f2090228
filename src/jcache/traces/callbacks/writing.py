"""Write the recipes of callbacks; the grammar is in the package's docstring."""

# ruff: noqa: ANN401 - callbacks are made of anything

from __future__ import annotations

import base64
import enum
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from jcache.errors import NotStorable, Unresolved
from jcache.fingerprint.arguments import Call
from jcache.fingerprint.call import home_of
from jcache.fingerprint.describe import vars_of
from jcache.formats import pytrees
from jcache.formats.pytrees import dtypes
from jcache.formats.pytrees.classes import find, held_by, is_flag, is_namedtuple, name_of, slots_of
from jcache.formats.pytrees.grammar import Unsupported
from jcache.jax_internals import avals, treedefs
from jcache.traces import structures
from jcache.traces.callbacks.changes import is_constant, is_frozen, is_tracer
from jcache.traces.callbacks.codes import digest_of, place_of
from jcache.traces.callbacks.frames import has_frames, without_directories
from jcache.traces.callbacks.reach import Reach
from jcache.traces.callbacks.reading import RecipeReader, locals_of

Json = Any
_COPIED: Final = (set, bytearray)  # mutable types whose items cannot change
_ANOTHER: Final = "it would be made again as another one"


def write(callbacks: Sequence[Any], origin: Call) -> Json:
    """Return the recipes of the callbacks of a traced function's program.

    The recipes are read and written once more, to check that they describe the same callbacks.

    Args:
        callbacks: the functions, as JAX gives them to the executable.
        origin: the traced function and its static arguments.

    Raises:
        NotStorable: a callback has a part that a later process would not find or could not make again.
    """
    try:
        return write_objects(callbacks, origin)
    except NotStorable as error:
        raise NotStorable(f"it calls back to the host, and {error}") from error


def write_objects(objects: Sequence[Any], origin: Call) -> Json:
    """Return the recipes of callbacks, or of objects in a traced function's result; see `write`."""
    try:
        written = Writer(origin).write(objects)
        again = Writer(origin, are_copies=True).write(RecipeReader(written, origin).objects())
    except (NotStorable, Unresolved) as error:
        raise NotStorable(str(error).rstrip(".")) from error
    except Exception as error:
        raise NotStorable(f"that cannot be kept: {error!r}") from error
    if again != written:
        raise NotStorable(_ANOTHER)
    return written


class Writer:
    """A writer of the recipes of one program.

    Args:
        origin: the traced function and its static arguments.
        are_copies: whether the callbacks were made from recipes; then nothing else refers to their parts.
    """

    def __init__(self, origin: Call, *, are_copies: bool = False) -> None:
        self._reach = Reach(origin)
        self._home = home_of(origin.function)
        self._are_copies = are_copies
        self._things: list[Json] = []
        self._numbers: dict[int, int] = {}
        self._private: list[Any] = []  # objects that are copied: nothing else may refer to them
        self._owners: dict[int, int] = {}
        self._written: dict[int, Json] = {}
        self._alive: list[Any] = []

    def write(self, callbacks: Sequence[Any]) -> Json:
        """Return the recipes of callbacks."""
        written = [self._value(each) for each in callbacks]
        self._alive.clear()
        if not self._are_copies:
            self._check_private()
        return {"made": self._things, "callbacks": written}

    def _check_private(self) -> None:
        """Raise `NotStorable` if something besides the callbacks refers to an object that is copied."""
        probe: list[Any] = [[]]
        usual = next(sys.getrefcount(each) for each in probe)
        for each in self._private:
            if sys.getrefcount(each) != usual + self._owners[id(each)]:
                what = "a variable" if isinstance(each, CellType) else f"a {type(each).__qualname__}"
                raise NotStorable(
                    f"{what} of it is used elsewhere, too, where the function does not reach it by a name"
                )

    def _value(self, value: Any) -> Json:
        if structures.is_plain(value):
            is_told = type(value) is str and has_frames(value)
            return ["frames", without_directories(value)] if is_told else value
        if id(value) in self._numbers:
            self._owners[id(value)] += 1
            return ["made", self._numbers[id(value)]]
        if id(value) not in self._written:
            self._alive.append(value)  # while it is referred to, no other object has its id
            self._written[id(value)] = self._other(value)
        return self._written[id(value)]

    def _other(self, value: Any) -> Json:
        written = ["ellipsis"] if value is ... else self._named(value) or self._member(value)
        if written is None and (path := self._reach.path_to(value)) is not None:
            written = ["reached", *path]
        return written or self._global(value) or self._plain(value) or self._thing(value)

    def _named(self, value: Any) -> Json:
        """Write a module, or a class or function that is found by its name; return None for anything else."""
        if isinstance(value, ModuleType):
            return ["module", value.__name__] if sys.modules.get(value.__name__) is value else None
        if (name := treedefs.findable_name(value)) is None:
            return None
        return ["object", self._short(name), digest_of(value.__code__) if isinstance(value, FunctionType) else None]

    def _member(self, value: Any) -> Json:
        """Write a member of an enum, or a union of flags; return None for anything else."""
        if isinstance(value, enum.Enum) and (name := treedefs.findable_name(type(value))) is not None:
            if type(value).__members__.get(str(value._name_)) is value:
                return ["member", self._short(name), value._name_]
            return ["flags", self._short(name), value._value_] if is_flag(type(value)) else None
        return None

    def _global(self, value: Any) -> Json:
        """Write an instance that is exactly one global of its class's module; return None for anything else."""
        module = type(value).__module__
        names = [name for name, each in vars(sys.modules.get(module, object)).copy().items() if each is value]
        texts = f"{module}:{names[0]}" if names else "", name_of(type(value))
        return ["global", *map(self._short, texts)] if len(names) == 1 else None

    def _short(self, name: str) -> str:
        """Return a name without its module if that is the module of the traced function."""
        return name.removeprefix(self._home) if name.startswith(f"{self._home}:") else name

    def _plain(self, value: Any) -> Json:
        """Write a value that cannot change itself, though its parts may; return None for anything else."""
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
        if name_of(kind) == "flax.ids:FlaxId":
            return ["flax id"]
        if kind.__name__ == "ShapedArray":
            told = avals.described(value)
            return ["type", list(told.shape), told.dtype, told.is_weak]
        if kind.__module__.partition(".")[0] == "numpy" and isinstance(getattr(value, "str", None), str):
            with suppress(Unsupported):
                return ["dtype", dtypes.describe(value)]
        return self._data("data", value) if is_constant(value) else None

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
        """Write a list; bytes in a list with texts of frames are identifiers of calls, as equinox keeps them."""
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
            if thing is not None and kind not in _COPIED and not self._are_copies:
                self._keep_memory(value)
            thing = thing or self._instance(value)
        if kind is not FunctionType and not is_frozen(value):
            self._private.append(value)
        self._things[number] = thing
        return ["made", number]

    def _keep_memory(self, array: Any) -> None:
        """Raise `NotStorable` if something else may have a part of the memory of an array that is copied."""
        base = array.base
        while base is not None and not is_constant(getattr(base, "obj", base)):
            if type(base) is not type(array) or id(base) in self._owners:
                raise NotStorable("it holds an array that shares its memory with another object")
            self._owners[id(base)] = 1
            self._private.append(base)
            base = base.base

    def _function(self, function: FunctionType) -> Json:
        cells = list(map(self._cell, function.__closure__ or ()))
        beside = function.__defaults__, function.__kwdefaults__, vars(function) or None
        module, *place = place_of(function)
        written = map(self._value, beside)
        return [
            "function",
            "" if module == self._home else module,
            *place,
            cells,
            *written,
            list(self._described(function)),
        ]

    def _described(self, function: FunctionType) -> Iterator[Json]:
        """Yield names, documentation and annotations (each a text or found by name) that its code does not give."""
        plain = FunctionType(function.__code__, function.__globals__, closure=function.__closure__)
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            value = getattr(function, name)
            if name == "__doc__" and "__wrapped__" in vars(function) and value == vars(function)["__wrapped__"].__doc__:
                yield [name]  # that function has it, since keys do not cover documentation
            elif value != getattr(plain, name):
                yield [name, "" if (name, value) == ("__module__", self._home) else self._value(value)]
        annotations = function.__annotations__.items()
        kept = [
            [name, each if each is None or type(each) is str else self._named(each) or []] for name, each in annotations
        ]
        if kept and all(each != [] for _, each in kept):
            yield ["__annotations__", *kept]

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
        """Write an instance of a class that ``object.__new__`` can make; raise `NotStorable` for others."""
        cls = type(value)
        name = name_of(cls)
        try:
            plain = find(name) is cls and type(object.__new__(cls)) is cls
        except (TypeError, Unresolved):
            plain = False
        if not plain or isinstance(value, BaseException) or is_tracer(value):
            raise NotStorable(f"it holds a {name.removeprefix('builtins:')}, which jcache cannot make again")
        slots = {each: getattr(value, each) for each in slots_of(cls) if hasattr(value, each)}
        held = vars_of(value) | {each: at for each, at in slots.items() if each not in {"__dict__", "__weakref__"}}
        return ["instance", self._short(name), *([each, self._value(at)] for each, at in sorted(held.items()))]


def _call(identifier: bytes) -> Json:
    """Write the identifier of a call: a local variable if the call is running, random bytes if it has ended."""
    for place, _ in locals_of(lambda each: each is identifier):
        return ["local", *place]
    return ["random", len(identifier)]
