"""The nodes of JAX's treedefs, and the names of values in them."""

# ruff: noqa: ANN401 - treedefs belong to JAX and have no stable types
from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from operator import methodcaller
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from jcache.errors import NotStorable, Unresolved
from jcache.fingerprint import digest_of
from jcache.fingerprint.describe import vars_of
from jcache.formats.pytrees.classes import lookup, slots_of
from jcache.jax_internals.registry import registry

Json = Any
Treedef = Any
LEAF: Final = "*"


class Node(NamedTuple):
    """A node of a treedef that is no leaf."""

    treedef: Treedef
    cls: type
    aux: Any  # its data beside the children
    children: int


def nodes_of(*treedefs: Treedef) -> Iterator[Node | None]:
    """Yield the nodes of treedefs, parents before children; None for a leaf."""
    waiting = list(reversed(treedefs))
    while waiting:
        at = waiting.pop()
        data = at.node_data()
        children = at.children()
        yield Node(at, data[0], data[1], len(children)) if data else None
        waiting.extend(reversed(children))


def name_in_module(value: Any) -> str | None:
    """Return the name of a class, a function, or an object with a function's name; no code of the program runs."""
    if isinstance(value, type | FunctionType | BuiltinFunctionType) or type(value).__name__ == "PjitFunction":
        names = value.__module__, value.__qualname__
    else:
        held = vars_of(value)
        names = held.get("__module__"), held.get("__qualname__")
    return ":".join(names) if all(type(name) is str for name in names) else None


def findable_name(value: Any) -> str | None:
    """Return the name by which `object_named` finds a class, a function, or what has taken over a function's name."""
    name = name_in_module(value)
    with suppress(Unresolved):
        return name if name is not None and lookup(name) is value else None
    return None


def object_named(name: str) -> Any:
    """Return what has a name in a module that is imported; raise `Unresolved` if it has another one, or is gone."""
    found = lookup(name)
    if name_in_module(found) != name:
        raise Unresolved(f"There is no function or class `{name}` any more.")
    return found


def is_sentinel(value: object) -> bool:
    """Return whether a value is an instance of a plain Python class and has no state."""
    cls = type(value)
    return cls.__base__ is object and "__dict__" in vars(cls) and not vars_of(value) and not slots_of(cls)


def is_error_of_checkify(cls: type) -> bool:
    """Return whether a class is the one of the errors that functions of `checkify` return."""
    return cls.__name__ == "Error" and cls.__module__ == "jax._src.checkify"


def parts_of(aux: Any) -> list[Any] | None:
    """Return the parts of a list, a tuple or a dict of str, in an order that does not depend on the dict's order."""
    if type(aux) is list or type(aux) is tuple:
        return list(aux)
    if type(aux) is dict and all(type(key) is str for key in aux):
        return [aux[key] for key in sorted(aux)]
    return None


_VERSIONED_PACKAGES: Final = {"builtins", "collections", "jax"}  # JAX's version is a part of every key


def registered_by(cls: type) -> list[str]:
    """Return a digest of the functions and fields that a class was registered with, none if it has only methods.

    Raises:
        NotStorable: the functions have no key.
    """
    functions = tuple(registry().get(cls, ()))
    is_versioned = cls.__module__.partition(".")[0] in _VERSIONED_PACKAGES
    if is_versioned or all(_is_method(function, cls) for function in functions):
        return []
    digest = digest_of(functions)
    if digest is None:
        raise NotStorable(f"{cls.__qualname__} is flattened by functions that have no key")
    return [digest.hex()]


def _is_method(function: Any, cls: type) -> bool:
    """Return whether a function calls a method of the class, by its name or bound."""
    return isinstance(function, methodcaller) or (isinstance(function, MethodType) and function.__self__ is cls)
