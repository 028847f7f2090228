"""Graphs of networkx: nodes, edges and their attributes, in their order."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from jcache.errors import Unresolved
from jcache.formats.pytrees.adapters import ClassAdapter
from jcache.formats.pytrees.grammar import Unsupported

# ruff: noqa: ANN401 - of a package that need not be installed

_CACHE: Final = "__networkx_cache__"


def _parts(cls: Any) -> frozenset[str]:
    """Return the names of the attributes that make up each graph of a class."""
    return frozenset(vars(cls())) - {_CACHE}


def _to_plain(graph: Any) -> object:
    held, parts, cls = vars(graph), _parts(type(graph)), type(graph)
    derived = {name for base in cls.__mro__ for name, each in vars(base).items() if isinstance(each, cached_property)}
    for name in held.keys() - parts - derived - {_CACHE}:
        raise Unsupported(f"has an attribute `{name}` that others of its class lack")
    if "_succ" in parts and held["_succ"] is not held["_adj"]:
        raise Unsupported("does not keep its edges as others of its class do")
    if any(node != node for node in held["_node"]):
        raise Unsupported("has a node that is not equal to itself")
    return {name: held[name] for name in sorted(parts)}


def _from_plain(cls: Any, state: Any) -> Any:
    graph = cls()
    if state.keys() != _parts(cls):
        raise Unresolved(f"The installed networkx has other attributes in a `{cls.__name__}` than the one before.")
    vars(graph).update(state)
    return graph


ADAPTERS: Final = {
    f"networkx:{name}": ClassAdapter(_to_plain, _from_plain)
    for name in ("Graph", "DiGraph", "MultiGraph", "MultiDiGraph")
}
