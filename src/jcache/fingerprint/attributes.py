"""Which attributes of an object count: those whose names the code that is reached can use.

Where code can reach attributes without their names, all of them count.
"""

# ruff: noqa: ANN401 - programs hold anything

import copyreg
import functools
import types
from collections.abc import Iterator
from typing import Any, Final

from jcache.fingerprint.code import meaning
from jcache.fingerprint.describe import vars_of
from jcache.jax_internals.registry import registry

ALL: Final = "*"
NEUTRAL: Final = frozenset({"builtins", "abc", "typing", "collections.abc"})  # whose classes read no attributes
_GIVES_ANY: Final = ("__getattr__", "__getattribute__")
_INNER: Final[dict[type, tuple[str, ...]]] = {
    staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel"),
    functools.cached_property: ("func",),
}  # fmt: skip
READ_ALL: Final = frozenset(
    {"builtins.vars", "builtins.dir", "copy.copy", "copy.deepcopy", "dataclasses.asdict", "dataclasses.astuple",
     "dataclasses.replace", "dataclasses.fields", "_pickle.dumps", "_pickle.dump", "inspect.getmembers"}
)  # fmt: skip
"""Functions that reach all attributes of what they are given."""


def held(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object has in its ``__dict__`` and ``__slots__``; no code of its class runs."""
    for name, each in vars_of(value).items():
        yield str(name), each
    for name in slots(type(value)):
        try:
            yield name, object.__getattribute__(value, name)
        except AttributeError:
            continue


def slots(cls: type) -> list[str]:
    return list(copyreg._slotnames(cls))  # type: ignore[attr-defined]


def is_of_linen(cls: type) -> bool:
    """Return whether it is a module of flax's linen, each of which this process numbers as it is made."""
    return any((each.__module__, each.__name__) == ("flax.linen.module", "Module") for each in cls.__mro__)


def is_whole(cls: type) -> bool:
    """Return whether all attributes of the instances of a user's class count."""
    if cls in registry() or getattr(vars(cls).get("__dataclass_params__"), "frozen", False):
        return True
    return any(name in vars(each) for each in cls.__mro__[:-1] for name in _GIVES_ANY)


def is_kept(cls: type, name: str) -> bool:
    """Return whether an attribute is what a cached property has kept, which the object's other state decides."""
    return any(type(vars(each).get(name)) is functools.cached_property for each in cls.__mro__)


def names_in(cls: type) -> Iterator[frozenset[str]]:
    """Yield the names of the attributes that each method of a class takes."""
    for value in vars(cls).copy().values():
        for function in functions_of(value):
            yield meaning(function.__code__).attributes


def functions_of(value: Any) -> list[types.FunctionType]:
    if type(value) is types.FunctionType:
        return [value]
    inner = [getattr(value, name, None) for name in _INNER.get(type(value), ())]
    return [each for each in inner if type(each) is types.FunctionType]
