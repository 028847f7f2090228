"""How JAX flattens classes of libraries that the program has registered, as a part of what an entry depends on.

A function need not name a class whose instances it is given by a library, so its fingerprint cannot tell. While an
entry is made all such classes are written down; a later process compares those that it has imported. It leaves out
classes of a library that was not loaded when the entry was made, since no code that made the entry has used them.
"""

# ruff: noqa: ANN401 - a flattener is any callable

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from operator import methodcaller
from types import FunctionType, MethodType
from typing import Any, Final
from weakref import WeakKeyDictionary

from jcache.fingerprint.describe import shortened
from jcache.fingerprint.distributions import is_loaded_since
from jcache.fingerprint.origins import USER, of_module_named
from jcache.fingerprint.registrations import registered
from jcache.fingerprint.walk import digest_of
from jcache.jax_internals.registry import registry

_LABEL: Final = "pytrees registered"
_NONE: Final = "none"
_JAX: Final = "jax"
_by_others: Final[WeakKeyDictionary[type, bool]] = WeakKeyDictionary()
_dataclasses: Final[WeakKeyDictionary[type, str]] = WeakKeyDictionary()  # whose fields never change
_KEYLESS: Final = "?"  # of a class whose functions have no key: what was made with it is not served


def flattened() -> dict[str, str]:
    """The part that tells it, if JAX is imported."""
    if "jax" not in sys.modules:
        return {}
    return {_LABEL: _written({name: _words(cls) for name, cls in pytrees().items() if is_by_others(cls)})}


def flattened_now(then: Mapping[str, str]) -> dict[str, str]:
    """The same part today, in the same words if no class that is imported is flattened otherwise than then.

    Args:
        then: all parts of the entry, those of its key too: they name the libraries that were loaded.
    """
    words = then.get(_LABEL)
    if words is None:
        return {}
    pairs = [] if words == _NONE else words.split()
    known = dict(zip(pairs[::2], pairs[1::2], strict=False))
    counted = {
        name: cls
        for name, cls in pytrees().items()
        if name in known or (is_by_others(cls) and not is_loaded_since(of_module_named(str(cls.__module__)), then))
    }
    now = {name: _words(cls) for name, cls in counted.items()}
    same = all(known.get(name) == digest != _KEYLESS for name, digest in now.items())
    return {_LABEL: words if same else _written(known | now)}


def _words(cls: type) -> str:
    known = _dataclasses.get(cls)
    if known is None:
        functions = registered(cls)
        digest = digest_of(functions)
        known = _KEYLESS if digest is None else shortened(digest)
        if are_of_dataclass(functions):
            _dataclasses[cls] = known
    return known


def _written(classes: Mapping[str, str]) -> str:
    return " ".join(f"{name} {digest}" for name, digest in sorted(classes.items())) or _NONE


def pytrees() -> dict[str, type]:
    """The classes that are registered, by module and name."""
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in list(registry())}


def is_by_others(cls: type) -> bool:
    """Whether a library's class is flattened otherwise than its library, or a dataclass's declaration, says."""
    if of_module_named(str(cls.__module__)) == USER:
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
