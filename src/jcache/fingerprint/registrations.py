"""How JAX flattens the instances of a class: the functions, fields and their order that it was registered with.

JAX keeps a function that flattens and one that unflattens. Those of `register_dataclass` close over the names of the
fields, in order.
"""

# ruff: noqa: ANN401 - a flattener is any callable

import dataclasses
from collections.abc import Iterable
from functools import partial
from operator import methodcaller
from types import FunctionType, MethodType
from typing import Any, Final
from weakref import WeakKeyDictionary

from jcache.fingerprint import origins
from jcache.jax_internals.registry import registry

_JAX: Final = "jax"
_by_others: Final[WeakKeyDictionary[type, bool]] = WeakKeyDictionary()


def registered(cls: type) -> tuple[Any, ...]:
    """The functions that flatten and unflatten the instances of a class; none if JAX has none for it."""
    return tuple(registry().get(cls, ()))


def pytrees() -> dict[str, type]:
    """The classes that are registered, by module and name."""
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in list(registry())}


def is_by_others(cls: type) -> bool:
    """Whether a library's class is flattened otherwise than its library, or a dataclass's declaration, says."""
    if origins.of_module_named(str(cls.__module__)) == origins.USER:
        return False
    known = _by_others.get(cls)
    if known is None:
        known = not _is_own(cls, registered(cls))
        if cls in registry():  # for good: JAX registers a class once
            _by_others[cls] = known
    return known


def are_of_dataclass(functions: Iterable[Any]) -> bool:
    """Whether `register_dataclass` has made all of some functions, from nothing but the names of fields."""
    return all(
        isinstance(each, FunctionType) and _top(each) == _JAX and "data_fields" in each.__code__.co_freevars
        for each in functions
    )


def _is_own(cls: type, functions: Iterable[Any]) -> bool:
    """Whether the class's library or JAX has made some functions, and all that they close over."""
    library = _top(cls)
    waiting = list(functions)
    while waiting:
        function = waiting.pop()
        if isinstance(function, partial):
            waiting.append(function.func)
        elif isinstance(function, MethodType):
            waiting.append(function.__func__)
        elif isinstance(function, FunctionType) and _top(function) == _JAX != library:
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            around = {name: cell.cell_contents for name, cell in cells}
            waiting += [value for value in around.values() if callable(value) and value is not cls]
            fields = {name: value for name, value in around.items() if not callable(value)}
            if any(value != _declared(cls).get(name) for name, value in fields.items()):
                return False
        elif not isinstance(function, methodcaller) and _top(function) not in {library, _JAX}:
            return False
    return True


def _declared(cls: type) -> dict[str, tuple[str, ...]]:
    """The fields of a dataclass as `register_dataclass` takes them where it is not told others."""
    if not dataclasses.is_dataclass(cls):
        return {}
    fields = dataclasses.fields(cls)
    return {
        "data_fields": tuple(each.name for each in fields if not each.metadata.get("static", False)),
        "meta_fields": tuple(each.name for each in fields if each.metadata.get("static", False)),
    }


def _top(value: Any) -> str:
    """The package of a class or function, or of the class of anything else."""
    home = value if isinstance(value, type | FunctionType) else type(value)
    return str(home.__module__).partition(".")[0]
