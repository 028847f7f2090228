"""The parts of a key that describe structures and leaves."""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from jcache.errors import NotStorable
from jcache.fingerprint.describe import in_short
from jcache.jax_internals.registry import registry
from jcache.jax_internals.treedefs import LEAF, Node, Treedef, nodes_of

_SETS: Final = ("unreduced", "reduced", "unreduced_kind")
_MAX_NODES_SHOWN: Final = 60  # of a structure that is described in words
_PLAIN: Final = (type(None), bool, int, float, str)


class Structure:
    """A structure as a part of a key."""

    __slots__ = ("treedef",)

    def __init__(self, treedef: Treedef) -> None:
        self.treedef = treedef

    def __cache_key__(self) -> object:
        """Return the value that `jcache.fingerprint` takes in its place."""
        nodes = nodes_of(self.treedef)
        return tuple(node and (node.cls, node.aux, node.children, *registry().get(node.cls, ())) for node in nodes)

    def in_words(self) -> str | None:
        """Return the structure for people, with a ``*`` for each leaf; None if it is large.

        Examples are ``{'w': *, 'layers': [*, *]}`` and ``State[2](*, *)``, with the auxiliary data in brackets.
        """
        if self.treedef.num_nodes > _MAX_NODES_SHOWN:
            return None
        return _told(nodes_of(self.treedef))


def _told(nodes: Iterator[Node | None]) -> str:
    """Return the next node with all nodes below it, for people."""
    node = next(nodes)
    if node is None:
        return LEAF
    below = [_told(nodes) for _ in range(node.children)]
    if node.cls in {list, tuple}:
        return ("[{}]" if node.cls is list else "({})").format(", ".join(below))
    if node.cls is dict:
        return "{" + ", ".join(f"{in_short(name)}: {each}" for name, each in zip(node.aux, below, strict=True)) + "}"
    aux = "" if node.aux is None else f"[{in_short(node.aux)}]"
    return f"{node.cls.__qualname__}{aux}({', '.join(below)})"


def aval_key(leaf: Any) -> tuple[object, ...]:
    """Return the type of a leaf, which is all that tracing sees of it, as plain values.

    Raises:
        NotStorable: the leaf is no array, or has a type that jcache does not know.
    """
    from jax import api_util

    try:
        return _aval_key(vars(api_util)["shaped_abstractify"](leaf))
    except NotStorable:
        raise
    except Exception as error:  # JAX, or code of the leaf's own class, may raise anything
        raise NotStorable(f"A leaf of type {type(leaf).__qualname__} is no array.") from error


@lru_cache(maxsize=4096)  # JAX's own caches of traces do not distinguish equal avals either
def _aval_key(aval: Any) -> tuple[object, ...]:
    import jax

    if type(aval) is not jax.core.ShapedArray:
        raise NotStorable(f"A leaf is known to JAX as {type(aval).__qualname__}, not as an array.")
    names = sorted(
        {"shape", "dtype", "weak_type"} | {name for name in type(aval).__slots__ if not name.startswith("_")}
    )
    return tuple((name, _attribute(name, getattr(aval, name))) for name in names)


def _attribute(name: str, value: Any) -> object:
    if name == "shape" and all(type(size) is int for size in value):
        return value
    if name == "dtype":
        return _dtype(value)
    if name == "sharding":
        return None if value is None or value.mesh.empty else (_mesh(value.mesh), _spec(value.spec), value.memory_kind)
    if name == "manual_axis_type":
        return tuple(
            (slot, _plain(slot, getattr(value, slot)))
            for slot in sorted(type(value).__slots__)
            if slot != "__weakref__"
        )
    if name == "layout" and type(value).__name__ == "AutoLayoutSingleton":
        return None
    return _plain(name, value)


def _plain(name: str, value: Any) -> object:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, tuple):
        return tuple(_plain(name, part) for part in value)
    if isinstance(value, set | frozenset) and all(type(part) is str for part in value):
        return tuple(sorted(value))
    raise NotStorable(f"An array has a `{name}` of a type that jcache does not know, {type(value).__qualname__}.")


def _dtype(dtype: Any) -> object:
    from jax import dtypes

    is_a: Any = vars(dtypes)["issubdtype"]
    if not is_a(dtype, dtypes.extended):
        return dtype.name
    if is_a(dtype, dtypes.prng_key):
        return "key", dtype._impl.name, dtype._impl.tag, tuple(dtype._impl.key_shape)
    raise NotStorable(f"An array has a dtype that jcache does not know, {dtype}.")


def _mesh(mesh: Any) -> object:
    device = getattr(mesh, "abstract_device", None)
    return (
        _plain("mesh", mesh.axis_names),
        tuple(mesh.axis_sizes),
        _plain("mesh", getattr(mesh, "_axis_types", None) or getattr(mesh, "axis_types", None)),
        device and tuple(getattr(device, name, None) for name in ("device_kind", "num_cores", "platform")),
    )


def _spec(spec: Any) -> object:
    sets = tuple((name, _plain(name, getattr(spec, name, None))) for name in _SETS)
    return tuple(
        "*" if type(part).__name__ == "UnconstrainedSingleton" else _plain("spec", part) for part in spec
    ), sets
