"""Paths to the objects that a traced function reaches: closure, defaults, static arguments, globals and their parts.

A path is a list of steps. The first is ``["function"]``, ``["argument", number]``, ``["argument", name]`` or
``["global", module, name]``; the others are ``["cell", name]``, ``["closure", name]``, ``["default", number]``,
``["default", name]``, ``["attribute", name]`` and ``["item", key]``. The function's own module has an empty name,
because another module may have the same function and key.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from jcache.errors import Unresolved
from jcache.fingerprint import name_resolution, origins
from jcache.fingerprint.arguments import Call
from jcache.fingerprint.call import home_of
from jcache.fingerprint.code import meaning
from jcache.fingerprint.describe import vars_of
from jcache.fingerprint.encoding import SCALARS

Path = list[list[Any]]
_MAX_OBJECTS: Final = 50_000
_MAX_STEPS: Final = 12
_MAX_ITEMS: Final = 10_000


class Reach:
    """The shortest paths to the objects that a function reaches, found as far as they are needed.

    Args:
        origin: the function and its arguments, with None in place of those that are not static.
    """

    def __init__(self, origin: Call) -> None:
        self._paths: dict[int, Path] = {}
        self._alive: list[Any] = []
        self._home = home_of(origin.function)
        self._waiting: deque[tuple[Any, Path]] = deque([(origin.function, [["function"]])])
        self._waiting.extend((each, [["argument", number]]) for number, each in enumerate(origin.args))
        self._waiting.extend((each, [["argument", name]]) for name, each in origin.kwargs.items())

    def path_to(self, value: Any) -> Path | None:
        """Return the path to an object; None if the function does not reach it, or only by a long path."""
        while self._waiting and id(value) not in self._paths and len(self._alive) < _MAX_OBJECTS:
            found, path = self._waiting.popleft()
            if type(found) in SCALARS or id(found) in self._paths or len(path) > _MAX_STEPS:
                continue
            self._paths[id(found)] = path
            self._alive.append(found)
            for step, child in _below(found):
                if step[0] == "global":
                    self._waiting.append((child, [["global", "" if step[1] == self._home else step[1], step[2]]]))
                else:
                    self._waiting.append((child, [*path, step]))
        return self._paths.get(id(value))


def follow(path: Path, origin: Call) -> Any:
    """Return the object at a path; raise `Unresolved` if there is none."""
    try:
        (first, *names), *rest = path
        if first == "global":
            value = vars(sys.modules[names[0] or home_of(origin.function)])[names[1]]
        elif first == "argument":
            value = origin.args[names[0]] if type(names[0]) is int else origin.kwargs[names[0]]
        else:
            value = origin.function
        for kind, name in rest:
            value = _STEPS[kind](value, name)
    except Exception as error:
        raise Unresolved(f"there is nothing at {path!r} any more: {error!r}") from error
    return value


def _cell(function: Any, name: str) -> CellType:
    cell: CellType = function.__closure__[function.__code__.co_freevars.index(name)]
    return cell


_STEPS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "cell": _cell,
    "closure": lambda function, name: _cell(function, name).cell_contents,
    "default": lambda function, name: (
        function.__defaults__[name] if type(name) is int else function.__kwdefaults__[name]
    ),
    "attribute": getattr,
    "item": lambda container, key: container[key],
}


def _below(value: Any) -> Iterator[tuple[list[Any], Any]]:
    """Yield the parts of an object, each after the step to it."""
    if isinstance(value, FunctionType):
        yield from _of_function(value)
    elif type(value) in {list, tuple, dict} and len(value) <= _MAX_ITEMS:
        held = value.copy().items() if type(value) is dict else enumerate([*value])
        yield from ((["item", key], each) for key, each in held if type(key) in {str, int})
    elif isinstance(value, MethodType):
        yield ["attribute", "__self__"], value.__self__
        yield ["attribute", "__func__"], value.__func__
    elif isinstance(value, functools.partial):
        yield from ((["attribute", name], getattr(value, name)) for name in ("func", "args", "keywords"))
    elif isinstance(value, BuiltinFunctionType):
        yield ["attribute", "__self__"], value.__self__
    elif isinstance(value, type):
        if origins.of_module_named(value.__module__) == origins.USER:
            yield from ((["attribute", name], each) for name, each in vars(value).copy().items())
    elif not isinstance(value, ModuleType | CellType):
        yield from ((["attribute", name], each) for name, each in vars_of(value).items())
        yield ["attribute", "__class__"], type(value)


def _of_function(function: FunctionType) -> Iterator[tuple[list[Any], Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield ["cell", name], cell
        yield ["closure", name], name_resolution.content_of(cell)
    yield from ((["default", at], each) for at, each in enumerate(function.__defaults__ or ()))
    yield from ((["default", name], each) for name, each in (function.__kwdefaults__ or {}).items())
    yield from ((["attribute", name], each) for name, each in vars(function).copy().items())
    if name_resolution.of_function(function) == origins.USER:
        live: Any = function
        for lookup in meaning(function.__code__).lookups:
            found = name_resolution.find(lookup.chain, function.__globals__, live.__builtins__)
            if found.module in sys.modules and vars(sys.modules[found.module]).get(found.name) is found.value:
                yield ["global", found.module, found.name], found.value
