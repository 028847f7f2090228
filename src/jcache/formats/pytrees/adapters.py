"""Values of other packages, stored as plain ones: sparse matrices, search trees, networks, tables, dates, dtypes.

In a tree such a value is ``{"$registered": ["jcache:MODULE:CLASS", node]}``. A version of jcache that does not know one
of these names takes it for a class that the program has not registered, and has the graph built.

A value is known by its class, so that nothing is imported to find out. Before it is stored it is made again from what
is stored, and both are taken apart: where that differs in a bit, the value is refused. Those of the standard library
need no such check.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from jcache.errors import NotStorable, Unresolved
from jcache.formats.pytrees.grammar import CODEC_ADVICE, Unsupported

PREFIX: Final = "jcache:"
_HERE: Final = "jcache.formats.pytrees"
_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "scipy": ("sparse_matrices", "search_trees"),
    "pandas": ("tables",),
    "networkx": ("networks",),
    "numpy": ("array_types",),
    "jax": ("jax_arrays",),
    **dict.fromkeys(
        ("array", "builtins", "collections", "datetime", "decimal", "fractions", "pathlib", "re", "types", "uuid",
         "zoneinfo"), ("standard_values",)
    ),
}  # fmt: skip


class ClassAdapter(NamedTuple):
    """How the values of a class are stored.

    Attributes:
        to_plain: returns what a value consists of, as a value that can be stored; raises `Unsupported`.
        from_plain: makes a value of a class again; raises `Unresolved`.
        is_same: returns whether two values that consist of the same are the same in all else.
        is_exact: whether each value that `to_plain` takes comes back the same, so that none needs a check.
    """

    to_plain: Callable[[Any], object]
    from_plain: Callable[[Any, Any], Any]
    is_same: Callable[[Any, Any], bool] = lambda _one, _other: True
    is_exact: bool = False


def plain_of(value: object) -> tuple[str, object] | None:
    """Return the name of a value's class and what it consists of; None for a value of any other class.

    Raises:
        Unsupported: it cannot be stored.
    """
    found = _find(type(value))
    if found is None:
        return None
    name, adapter = found
    try:
        state = adapter.to_plain(value)
        if not (adapter.is_exact or _checking.now) and not _comes_back(value, state, adapter):
            raise Unsupported("would come back changed", CODEC_ADVICE)
    except Unsupported as error:
        raise Unsupported(str(error), error.advice or CODEC_ADVICE) from error
    except Exception as error:
        raise Unsupported(f"cannot be taken apart ({error!r})", CODEC_ADVICE) from error
    return PREFIX + name, state


def from_plain(name: str, state: Any) -> object:  # noqa: ANN401
    """Return the value of a class whose name begins with `PREFIX`; the package is imported.

    Raises:
        Unresolved: it cannot be made, such as where the package is not installed.
    """
    module, _, qualified = name.removeprefix(PREFIX).partition(":")
    adapters = _adapters_of(module.partition(".")[0])
    adapter = adapters.get(f"{module}:{qualified}")
    if adapter is None:
        raise Unresolved(f"This version of jcache does not know how `{module}:{qualified}` is stored.")
    try:
        return adapter.from_plain(getattr(import_module(module), qualified), state)
    except Unresolved:
        raise
    except Exception as error:
        raise Unresolved(f"A `{module}:{qualified}` of a graph cannot be made: {error!r}.") from error


def _find(cls: type) -> tuple[str, ClassAdapter] | None:
    for name, adapter in _adapters_of(str(cls.__module__).partition(".")[0]).items():
        module, _, qualified = name.partition(":")
        if qualified == cls.__name__ and getattr(sys.modules.get(module), qualified, None) is cls:
            return name, adapter
    return None


@lru_cache(64)
def _adapters_of(package: str) -> Mapping[str, ClassAdapter]:
    found: dict[str, ClassAdapter] = {}
    for module in _MODULES.get(package, ()):
        found |= import_module(f"{_HERE}.{module}").ADAPTERS
    return found


class _Checking(threading.local):
    """Whether a value is being checked in this thread; then the values in it need no check of their own."""

    now = False


_checking: Final = _Checking()


def _comes_back(value: object, state: object, adapter: ClassAdapter) -> bool:
    from jcache.formats.pytrees.decoding import load
    from jcache.formats.pytrees.encoding import dump

    _checking.now = True
    try:
        try:
            stored = b"".join(dump(state).pieces)
        except NotStorable:
            return True  # the caller finds the same part, and tells where it is
        again = adapter.from_plain(type(value), load(memoryview(bytearray(stored))))
        if type(again) is not type(value) or not adapter.is_same(value, again):
            return False
        return b"".join(dump(adapter.to_plain(again)).pieces) == stored
    finally:
        _checking.now = False
