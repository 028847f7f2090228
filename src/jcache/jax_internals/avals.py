"""The types (avals) of a traced function's results: described in plain values, and made from these elsewhere.

If an argument lies on a mesh of devices, its type has more than shape and dtype: the mesh, and for axes of the kind
``Explicit`` how the array is divided. JAX expresses the sharding of a result accordingly. The functions import JAX,
so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple, TypeAlias

from jcache.errors import NotStorable

_KEY_PREFIX: Final = "key "
_NOT_DESCRIBABLE: Final = "it returns arrays whose types say more than shape, dtype and mesh"


class Axes(NamedTuple):
    """The mesh in a type, without its devices.

    Attributes:
        names, sizes, kinds: the names, sizes and kinds of its axes.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    kinds: tuple[str, ...]


Spec: TypeAlias = tuple[str | tuple[str, ...] | None, ...]


class Place(NamedTuple):
    """The placement of an array in its type.

    Attributes:
        axes: the axes of the mesh.
        spec: for each dimension, the axes along which it is divided.
    """

    axes: Axes
    spec: Spec


class Result(NamedTuple):
    """The type of a result.

    Attributes:
        shape, dtype: the shape and dtype of the array.
        is_weak: whether its type is weak.
        place: placement on a mesh, None where the type names no mesh.
    """

    shape: tuple[int, ...]
    dtype: str
    is_weak: bool
    place: Place | None = None


def results_of(values: Iterable[Any], leaves: Iterable[Any]) -> tuple[Result, ...]:
    """Return the types of the results of a function that was traced with some leaves.

    Raises:
        NotStorable: a type cannot be described.
    """
    from jax._src import core

    avals = [type_of(value) for value in values]
    told = tuple(_result(aval) for aval in avals)
    for made, aval in zip(abstract(told, leaves), avals, strict=True):
        if type(aval) is core.ShapedArray and made != aval:
            raise NotStorable(_NOT_DESCRIBABLE)
    return told


def abstract(results: Sequence[Result], leaves: Iterable[Any]) -> list[Any]:
    """Return the abstract values of types from `results_of`, for leaves of the types that it was given.

    Raises:
        NotStorable: this JAX cannot make them.
    """
    meshes = {} if all(result.place is None for result in results) else _meshes_of(leaves)
    return [_abstract(result, meshes) for result in results]


def described(aval: Any) -> Result:
    """Return the description of an abstract value; raise `NotStorable` where it is not all of that."""
    told = _result(aval)
    if told.place is not None or abstract((told,), ()) != [aval]:
        raise NotStorable(_NOT_DESCRIBABLE)
    return told


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
    """Return the placement in a type, None where it has none."""
    mesh = _mesh_of(aval)
    if mesh is None:
        return None
    spec = tuple(aval.sharding.spec)
    if not all(isinstance(name, str) for name in named(spec)):
        raise NotStorable(_NOT_DESCRIBABLE)
    return Place(_axes(mesh), spec)


def named(spec: Spec) -> list[Any]:
    """Return the names of the axes in a spec."""
    parts = (part if isinstance(part, tuple) else (part,) for part in spec)
    return [name for part in parts for name in part if name is not None]


def _axes(mesh: Any) -> Axes:
    kinds = getattr(mesh, "_axis_types", None) or getattr(mesh, "axis_types", None)
    if not isinstance(kinds, tuple) or not all(isinstance(name, str) for name in mesh.axis_names):
        raise NotStorable(_NOT_DESCRIBABLE)
    return Axes(tuple(mesh.axis_names), tuple(mesh.axis_sizes), tuple(str(kind.name) for kind in kinds))


def _mesh_of(aval: Any) -> Any:
    """Return the mesh in a type, None if there is none."""
    mesh = getattr(getattr(aval, "sharding", None), "mesh", None)
    return None if mesh is None or mesh.empty else mesh


def _meshes_of(leaves: Iterable[Any]) -> dict[Axes, Any]:
    """Return the meshes on which arguments lie, by their axes."""
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
    except Exception as error:  # JAX raises various errors for types and placements that it does not know
        raise NotStorable(f"the type of a result cannot be made: {error!r}") from error


def _mesh(axes: Axes) -> Any:
    """Return a mesh that no argument has; its type depends on the kind of the devices only."""
    import jax
    import numpy as np

    devices = np.array(jax.devices()[: math.prod(axes.sizes)]).reshape(axes.sizes)
    kinds: Any = vars(jax.sharding)["AxisType"]
    make: Any = jax.sharding.Mesh
    return make(devices, axes.names, axis_types=tuple(kinds[kind] for kind in axes.kinds)).abstract_mesh


def type_of(value: Any) -> Any:
    """Return the type of a tracer, or of a value that JAX can trace."""
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
