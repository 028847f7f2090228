"""How the program has JAX flatten its classes of pytrees, as a stored structure tells it."""

from __future__ import annotations

from operator import methodcaller
from types import MethodType
from typing import Any, Final

from jcache.errors import NotStorable
from jcache.fingerprint import digest_of
from jcache.fingerprint.registrations import registered

_KNOWN: Final = {"builtins", "collections", "jax"}  # JAX's version is a part of every key


def registered_by(cls: type) -> list[str]:
    """A digest of the functions and fields that a class was registered with; nothing if these are methods of its own.

    Raises:
        NotStorable: they have none.
    """
    functions = registered(cls)
    if cls.__module__.partition(".")[0] in _KNOWN or all(_is_method(function, cls) for function in functions):
        return []
    digest = digest_of(functions)
    if digest is None:
        raise NotStorable(f"{cls.__qualname__} is flattened by functions that have no key")
    return [digest.hex()]


def _is_method(function: Any, cls: type) -> bool:  # noqa: ANN401  a flattener is any callable
    """Whether it calls a method of the class, by its name or bound."""
    return isinstance(function, methodcaller) or (isinstance(function, MethodType) and function.__self__ is cls)
