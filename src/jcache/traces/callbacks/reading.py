"""Make callbacks from their recipes; the grammar is in the package's docstring."""

# ruff: noqa: ANN401 - callbacks are made of anything

from __future__ import annotations

import base64
import os
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, FrameType, FunctionType
from typing import Any, Final

from jcache.errors import DamagedEntry, Unresolved
from jcache.fingerprint.arguments import Call
from jcache.fingerprint.call import home_of
from jcache.formats import pytrees
from jcache.formats.pytrees import dtypes
from jcache.formats.pytrees.classes import find, flag_of, lookup
from jcache.jax_internals import avals, treedefs
from jcache.package import OWN_FILES
from jcache.traces import structures
from jcache.traces.callbacks.codes import code_at, digest_of
from jcache.traces.callbacks.frames import with_directories
from jcache.traces.callbacks.reach import follow

Json = Any


def read(recipes: Json, origin: Call) -> list[Callable[..., Any]]:
    """Return the callbacks of a traced function's program.

    Args:
        recipes: the recipes from `write`.
        origin: the function and its static arguments, in this process.

    Raises:
        Unresolved: a callback cannot be made in this process.
    """
    found = RecipeReader(recipes, origin).objects()
    if not all(map(callable, found)):
        raise Unresolved("a callback cannot be made again: it is no function")
    return found


def read_objects(recipes: Json, origin: Call) -> list[Any]:
    """Return the objects in a traced function's result; see `read`."""
    return RecipeReader(recipes, origin).objects()


class RecipeReader:
    """A reader of the recipes of one program."""

    def __init__(self, recipes: Json, origin: Call) -> None:
        self._recipes = recipes
        self._origin = origin
        self._home = home_of(origin.function)
        self._made: dict[int, Any] = {}
        self._unfilled: list[Callable[[], object]] = []

    def objects(self) -> list[Any]:
        """Return all callbacks, or other objects; raise `Unresolved` if one of them cannot be made."""
        try:
            found = [self.value(each) for each in self._recipes["callbacks"]]
            self._fill()
            return found
        except (Unresolved, DamagedEntry) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - a recipe may say anything
            reason = f"its recipe cannot be read: {error!r}"
        raise Unresolved(f"an object cannot be made again: {reason}")

    def value(self, written: Json) -> Any:
        """Return the object that a value of the grammar describes."""
        if type(written) is not list:
            return written
        tag, *rest = written
        return _VALUES[tag](self, *rest)

    def made(self, number: int) -> Any:
        """Return the thing with a number; its content may be filled in later, since things may refer to each other."""
        if number not in self._made:
            tag, *rest = self._recipes["made"][number]
            _THINGS[tag](self, number, *rest)
        return self._made[number]

    def _keep(self, number: int, value: Any, fill: Callable[[], object] | None = None) -> None:
        self._made[number] = value
        if fill is not None:
            self._unfilled.append(fill)

    def _fill(self) -> None:
        while self._unfilled:
            self._unfilled.pop()()

    def _cell(self, number: int, *content: Json) -> None:
        cell = CellType()
        self._keep(number, cell, (lambda: setattr(cell, "cell_contents", self.value(content[0]))) if content else None)

    def _list(self, number: int, *items: Json) -> None:
        made: list[Any] = []
        self._keep(number, made, lambda: made.extend(map(self.value, items)))

    def _deque(self, number: int, most: int | None, *items: Json) -> None:
        made: deque[Any] = deque(maxlen=most)
        self._keep(number, made, lambda: made.extend(map(self.value, items)))

    def _ordered(self, number: int, *pairs: Json) -> None:
        self._dict(number, *pairs, made=OrderedDict())

    def _dict(self, number: int, *pairs: Json, made: dict[Any, Any] | None = None) -> None:
        made = {} if made is None else made
        self._keep(number, made, lambda: made.update((self.value(key), self.value(value)) for key, value in pairs))

    def _instance(self, number: int, name: str, *pairs: Json) -> None:
        made: Any = object.__new__(find(self._whole(name)))

        def fill() -> None:
            for attribute, value in pairs:
                object.__setattr__(made, attribute, self.value(value))

        self._keep(number, made, fill)

    def _function(self, number: int, module: str, name: str, digest: str, at: int, cells: Json, *beside: Json) -> None:
        code, namespace = code_at(module or self._home, name, digest, at)
        made: Any = FunctionType(code, namespace, closure=tuple(map(self.value, cells)))
        self._made[number] = made
        *values, described = beside
        made.__defaults__, made.__kwdefaults__, attributes = map(self.value, values)
        self._fill()
        vars(made).update(attributes or {})
        for attribute, *given in described:
            if attribute == "__annotations__":
                made.__annotations__ = {name: self.value(each) for name, each in given}
            else:
                setattr(made, attribute, self.value(given[0]) if given else getattr(made.__wrapped__, attribute))
        made.__module__ = made.__module__ or self._home

    def _whole(self, name: str) -> str:
        """Return a name with its module; a name without one is of the traced function's module."""
        return f"{self._home}{name}" if name.startswith(":") else name

    def _member(self, cls: str, name: str) -> Any:
        return find(self._whole(cls))[name]  # type: ignore[index]

    def _partial(self, *parts: Json) -> Any:
        function, args, kwargs = map(self.value, parts)
        self._fill()
        return partial(function, *args, **kwargs)

    def _object(self, name: str, digest: str | None) -> Any:
        found = treedefs.object_named(self._whole(name))
        if digest != (digest_of(found.__code__) if isinstance(found, FunctionType) else None):
            raise Unresolved(f"`{name}` has changed")
        return found

    def _global(self, name: str, cls: str) -> Any:
        found = lookup(self._whole(name))
        if type(found) is not find(self._whole(cls)):
            raise Unresolved(f"there is no `{name}` any more")
        return found

    def _local(self, *place: Json) -> Any:
        for found, value in locals_of(lambda _: True):
            if found == list(place):
                return value
        raise Unresolved(f"`{place[1]}` is not running")

    def _type(self, shape: Json, dtype: str, is_weak: bool) -> Any:  # noqa: FBT001
        return avals.abstract([avals.Result(tuple(shape), dtype, is_weak)], ())[0]


def locals_of(is_sought: Callable[[Any], bool]) -> Iterator[tuple[list[Any], Any]]:
    """Yield local variables of the functions that run in this thread, outermost first, without jcache's own.

    Args:
        is_sought: returns whether to yield a variable with some value.

    Yields:
        The place of the variable (module, function, name, and the number of the call among calls of the same function),
        and its value.
    """
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    counts: dict[tuple[str, str], int] = {}
    for frame in reversed(frames):
        of = str(frame.f_globals.get("__name__")), frame.f_code.co_qualname
        counts[of] = counts.get(of, 0) + 1
        if frame.f_code.co_name != "<module>" and not frame.f_code.co_filename.startswith(OWN_FILES):
            yield from (([*of, name, counts[of]], each) for name, each in frame.f_locals.items() if is_sought(each))


def data_of(text: str) -> Any:
    """Return a value that `formats.pytrees` has stored, from base64."""
    return pytrees.load(memoryview(bytearray(base64.b64decode(text, validate=True))))


_VALUES: Final[dict[str, Callable[..., Any]]] = {
    "fields": lambda reader, cls, *items: tuple.__new__(find(reader._whole(cls)), map(reader.value, items)),
    "tuple": lambda reader, *items: tuple(map(reader.value, items)),
    "partial": RecipeReader._partial,
    "made": RecipeReader.made,
    "object": RecipeReader._object,
    "global": RecipeReader._global,
    "member": RecipeReader._member,
    "flags": lambda reader, cls, number: flag_of(reader._whole(cls), number),
    "ellipsis": lambda _: ...,
    "module": lambda _, name: sys.modules[name],
    "method": lambda reader, owner, name: getattr(reader.value(owner), name),
    "reached": lambda reader, *path: follow(list(path), reader._origin),
    "local": RecipeReader._local,
    "random": lambda _, length: os.urandom(length),
    "type": RecipeReader._type,
    "frames": lambda _, text: with_directories(text),
    "dtype": lambda _, description: dtypes.restore(description),
    "structure": lambda _, structure: structures.decode(structure, ()),
    "data": lambda _, text: data_of(text),
    "flax id": lambda _: lookup("flax.linen.module:uuid")(),  # type: ignore[operator]
}
_THINGS: Final[dict[str, Callable[..., None]]] = {
    "cell": RecipeReader._cell,
    "list": RecipeReader._list,
    "dict": RecipeReader._dict,
    "ordered": RecipeReader._ordered,
    "deque": RecipeReader._deque,
    "copy": lambda reader, number, text: reader._keep(number, data_of(text)),
    "instance": RecipeReader._instance,
    "function": RecipeReader._function,
}
