"""Objects of the program's classes, and what has a name, as parts of what a call sets.

An object is made again without its class's constructor: from its class and what its ``__dict__`` holds, as `copy` and
`pickle` do.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import sys
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from jcache.fingerprint import attributes, origins
from jcache.fingerprint.describe import vars_of

_HEAP: Final = 1 << 9  # flag of classes that Python code has made
_NAMED: Final = (type, FunctionType, BuiltinFunctionType)


def name_of(value: Any) -> str | None:
    """Return the name under which a process finds a module, class, function or member of an enumeration; None for any
    other value.
    """
    if type(value) is ModuleType:
        return f"{value.__name__}:" if sys.modules.get(value.__name__) is value else None
    kind = type(value)  # `isinstance` would ask an object for its class
    if issubclass(kind, Enum):
        name = f"{type(value).__module__}:{type(value).__qualname__}.{value.name}"
    elif issubclass(kind, _NAMED):
        name = f"{value.__module__}:{value.__qualname__}"
    else:
        return None
    try:
        return name if found(name) is value else None
    except (LookupError, AttributeError):
        return None


def found(name: str) -> Any:
    """Return what has a name of `name_of`; raise LookupError or AttributeError if there is nothing."""
    module, _, path = name.partition(":")
    value: Any = sys.modules[module]
    for each in filter(None, path.split(".")):
        value = vars(value)[each] if isinstance(value, type | ModuleType) else getattr(value, each)
    return value


def state_of(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the name of an object's class and what the object holds; None if it cannot be made again from these."""
    cls = type(value)
    base = next(each for each in cls.__mro__ if not each.__flags__ & _HEAP)
    if base is not object or attributes.slots(cls) or hasattr(cls, "__del__") or issubclass(cls, type | Enum):
        return None
    if origins.of_module_named(cls.__module__) != origins.USER or (name := name_of(cls)) is None:
        return None
    return name, dict(vars_of(value))


def made(name: str, state: dict[str, Any]) -> Any:
    """Return an object; raise LookupError or AttributeError if its class is not there."""
    value = object.__new__(found(name))
    object.__getattribute__(value, "__dict__").update(state)
    return value
