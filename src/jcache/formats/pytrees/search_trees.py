"""Search trees and triangulations of scipy, stored by their points and options, and built again of these."""

from __future__ import annotations

from importlib import import_module
from itertools import product
from typing import Any, Final

from jcache.formats.pytrees.adapters import ClassAdapter
from jcache.formats.pytrees.grammar import Unsupported

# ruff: noqa: ANN401 - of a package that need not be installed

_RESULTS: Final = (
    "simplices", "neighbors", "equations", "coplanar", "good", "paraboloid_scale", "paraboloid_shift", "nsimplex",
    "ndim", "npoints", "min_bound", "max_bound", "furthest_site",
)  # fmt: skip
_DERIVED: Final = frozenset({"_qhull", "_points", "_transform", "_vertex_to_simplex", "_vertex_neighbor_vertices"})


def _plain_tree(tree: Any) -> object:
    if getattr(tree, "__dict__", None):
        raise Unsupported("has attributes of the program's own")
    state = {"data": tree.data, "leafsize": tree.leafsize, "boxsize": tree.boxsize}
    for compact, balanced in product((True, False), repeat=2):
        options = {"compact_nodes": compact, "balanced_tree": balanced}
        if _is_same_tree(tree, _tree(type(tree), {**state, "options": options})):
            return {**state, "options": options}
    raise Unsupported("is not what its points and options give")


def _tree(cls: Any, state: Any) -> Any:
    options = state["options"]
    return cls(state["data"], leafsize=state["leafsize"], boxsize=state["boxsize"], copy_data=False, **options)


def _is_same_tree(one: Any, other: Any) -> bool:
    if one.n != other.n or not all(
        _is_same(getattr(one, name), getattr(other, name)) for name in ("indices", "mins", "maxes", "boxsize")
    ):
        return False
    pairs = [(_root(one), _root(other))]
    while pairs:
        left, right = pairs.pop()
        if left is None or right is None:
            if left is not right:
                return False
            continue
        if any(getattr(left, name) != getattr(right, name) for name in ("split_dim", "start_idx", "end_idx")):
            return False
        if left.split_dim != -1:
            if left.split != right.split:
                return False
            pairs += [(left.lesser, right.lesser), (left.greater, right.greater)]
    return True


def _root(tree: Any) -> Any:
    compiled: Any = vars(import_module("scipy.spatial"))["cKDTree"]
    return compiled.tree.__get__(tree) if tree.n else None  # that of a KDTree is another object


def _plain_triangulation(triangulation: Any) -> object:
    held = vars(triangulation)
    if held.get("_qhull") is not None:
        raise Unsupported("may still get more points")
    for name in held.keys() - _DERIVED - set(_RESULTS):
        raise Unsupported(f"has an attribute `{name}` that others of its class lack")
    return {"points": triangulation.points, "furthest_site": triangulation.furthest_site}


def _triangulation(cls: Any, state: Any) -> Any:
    return cls(state["points"], furthest_site=state["furthest_site"])


def _is_same_triangulation(one: Any, other: Any) -> bool:
    return all(_is_same(getattr(one, name), getattr(other, name)) for name in _RESULTS)


def _is_same(one: Any, other: Any) -> bool:
    import numpy as np

    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return type(one) is type(other) and bool(one == other)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


ADAPTERS: Final = {
    **{
        f"scipy.spatial:{name}": ClassAdapter(_plain_tree, _tree, _is_same_tree) for name in ("KDTree", "cKDTree")
    },
    "scipy.spatial:Delaunay": ClassAdapter(_plain_triangulation, _triangulation, _is_same_triangulation),
}  # fmt: skip
