"""The types of what a traced function returns: told in plain values, and made of them in another process.

A type says more than shape and dtype where an argument lies on a mesh of devices: which mesh that is, and for axes of
the kind ``Explicit`` how the array is divided. JAX tells by it in which terms the sharding of a result is said. JAX is
imported by the functions, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - what is JAX's own has no types that last

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias

from jcache.errors import NotStorable

_KEY_PREFIX: Final = "key "
_UNTOLD: Final = "it returns arrays whose types say more than shape, dtype and mesh"


class Axes(NamedTuple):
    """A mesh as types have it, without its devices.

    Attributes:
        names, sizes, kinds: of its axes.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    kinds: tuple[str, ...]


Spec: TypeAlias = tuple[str | tuple[str, ...] | None, ...]


class Place(NamedTuple):
    """Where a type says that its array lies.

    Attributes:
        axes: of the mesh.
        spec: along which of them each dimension is divided.
    """

    axes: Axes
    spec: Spec


class Result(NamedTuple):
    """The type of a result.

    Attributes:
        shape, dtype: of the array.
        is_weak: whether its type is.
        place: on a mesh, None where it tells of none.
    """

    shape: tuple[int, ...]
    dtype: str
    is_weak: bool
    place: Place | None = None


def results_of(values: Iterable[Any], leaves: Iterable[Any]) -> tuple[Result, ...]:
    """The types of what a function returned that was traced with some leaves.

    Raises:
        NotStorable: they cannot be told.
    """
    from jax._src import core

    avals = [type_of(value) for value in values]
    told = tuple(_result(aval) for aval in avals)
    for made, aval in zip(abstract(told, leaves), avals, strict=True):
        if type(aval) is core.ShapedArray and made != aval:
            raise NotStorable(_UNTOLD)
    return told


def abstract(results: Sequence[Result], leaves: Iterable[Any]) -> list[Any]:
    """The abstract values of types that `results_of` told, for leaves of the same types as there.

    Raises:
        NotStorable: this JAX cannot make them.
    """
    meshes = {} if all(result.place is None for result in results) else _meshes_of(leaves)
    return [_abstract(result, meshes) for result in results]


def _result(aval: Any) -> Result:
    import jax

    is_a: Any = vars(jax.dtypes)["issubdtype"]
    dtype = getattr(aval, "dtype", None)
    if dtype is None or not all(isinstance(size, int) for size in aval.shape):
        raise NotStorable(f"it returns {type(aval).__name__}")
    is_key = is_a(dtype, jax.dtypes.prng_key)
    if not is_key and is_a(dtype, jax.dtypes.extended):
        raise NotStorable(f"it returns {dtype}")
    name = f"{_KEY_PREFIX}{dtype._impl.name}" if is_key else dtype.name
    return Result(tuple(aval.shape), name, bool(aval.weak_type), _place(aval))


def _place(aval: Any) -> Place | None:
    """Where a type says that its array lies, None where it does not."""
    mesh = _mesh_of(aval)
    if mesh is None:
        return None
    spec = tuple(aval.sharding.spec)
    if not all(isinstance(name, str) for name in named(spec)):
        raise NotStorable(_UNTOLD)
    return Place(_axes(mesh), spec)


def named(spec: Spec) -> list[Any]:
    """The axes that are in a spec."""
    parts = (part if isinstance(part, tuple) else (part,) for part in spec)
    return [name for part in parts for name in part if name is not None]


def _axes(mesh: Any) -> Axes:
    kinds = getattr(mesh, "_axis_types", None) or getattr(mesh, "axis_types", None)
    if not isinstance(kinds, tuple) or not all(isinstance(name, str) for name in mesh.axis_names):
        raise NotStorable(_UNTOLD)
    return Axes(tuple(mesh.axis_names), tuple(mesh.axis_sizes), tuple(str(kind.name) for kind in kinds))


def _mesh_of(aval: Any) -> Any:
    """The mesh that a type tells of, None if there is none."""
    mesh = getattr(getattr(aval, "sharding", None), "mesh", None)
    return None if mesh is None or mesh.empty else mesh


def _meshes_of(leaves: Iterable[Any]) -> dict[Axes, Any]:
    """The meshes on which arguments lie."""
    meshes = (_mesh_of(type_of(leaf)) for leaf in leaves)
    return {_axes(mesh): mesh for mesh in meshes if mesh is not None}


def _abstract(result: Result, meshes: dict[Axes, Any]) -> Any:
    import jax
    from jax._src import core

    name, place, more = result.dtype, result.place, {}
    try:
        dtype: Any = (
            _key_type(name.removeprefix(_KEY_PREFIX)) if name.startswith(_KEY_PREFIX) else jax.numpy.dtype(name)
        )
        if place is not None:
            if place.axes not in meshes:
                meshes[place.axes] = _mesh(place.axes)
            spec: Any = jax.sharding.PartitionSpec
            more["sharding"] = jax.sharding.NamedSharding(meshes[place.axes], spec(*place.spec))
        make: Any = core.ShapedArray
        return make(result.shape, dtype, weak_type=result.is_weak, **more)
    except Exception as error:  # which JAX may raise of what it does not know, or cannot place
        raise NotStorable(f"the type of a result cannot be made: {error!r}") from error


def _mesh(axes: Axes) -> Any:
    """A mesh that the function has by itself; its type tells of no device but the kind."""
    import jax
    import numpy as np

    devices = np.array(jax.devices()[: math.prod(axes.sizes)]).reshape(axes.sizes)
    kinds: Any = vars(jax.sharding)["AxisType"]
    make: Any = jax.sharding.Mesh
    return make(devices, axes.names, axis_types=tuple(kinds[kind] for kind in axes.kinds)).abstract_mesh


def type_of(value: Any) -> Any:
    """The type of what is or may be traced."""
    import jax
    from jax._src import core

    told: Any = getattr(jax, "typeof", None) or vars(core)["get_aval"]
    return told(value)


def _key_type(implementation: str) -> Any:
    try:
        prng = import_module("jax._src.random.prng")
    except ImportError:  # jax < 0.10
        prng = import_module("jax._src.prng")
    return prng.KeyTy(prng.prngs[implementation])
