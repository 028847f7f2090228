"""The mesh of devices that a program asks for by itself, by a constraint or a `shard_map` inside of it.

It decides on which devices JAX runs what lies on none in particular, and in which terms results tell their sharding.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple


class Mesh(NamedTuple):
    """Devices that have places along axes.

    Attributes:
        names: of the axes.
        sizes: of the axes.
        devices: their numbers, place by place, along the last axis first.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    devices: tuple[int, ...]


def mesh_of(shardings: Iterable[Any]) -> Mesh | None:
    """The mesh that a program asks for by itself, None if there is none, or one that only JAX's own `Mesh` can say."""
    import jax

    meshes = [each.mesh for each in shardings if isinstance(each, jax.sharding.NamedSharding)]
    mesh = next((each for each in meshes if isinstance(each, jax.sharding.Mesh)), None)
    if mesh is None or not all(isinstance(name, str) for name in mesh.axis_names):
        return None
    if not all(str(kind).endswith("Auto") for kind in getattr(mesh, "axis_types", None) or ()):
        return None
    return Mesh(tuple(mesh.axis_names), mesh.devices.shape, tuple(int(each.id) for each in mesh.devices.flat))


def needs_unreachable_mesh(shardings: Iterable[Any], arguments: Iterable[Any]) -> bool:
    """Whether a program asks by itself for a mesh that nobody else can ask for, and no argument lies on any."""
    import jax

    named = jax.sharding.NamedSharding
    requested = [each for each in shardings if isinstance(each, named) and isinstance(each.mesh, jax.sharding.Mesh)]
    return bool(requested) and mesh_of(requested) is None and not any(isinstance(each, named) for each in arguments)


def constrain_to_mesh(values: list[Any], mesh: Mesh | None) -> list[Any]:
    """Values of which one asks for a mesh, as the function that is not traced would.

    Raises:
        KeyError: there is no such device.
    """
    if mesh is None:
        return values
    import jax
    import numpy as np

    is_a: Any = vars(jax.dtypes)["issubdtype"]
    at = next((i for i, value in enumerate(values) if not is_a(value.dtype, jax.dtypes.extended)), None)
    if at is None:
        return values
    known = {device.id: device for device in jax.devices()}
    devices = np.array([known[number] for number in mesh.devices]).reshape(mesh.sizes)
    constrained: Any = jax.lax.with_sharding_constraint
    anywhere: Any = jax.sharding.PartitionSpec
    asking = constrained(values[at], jax.sharding.NamedSharding(jax.sharding.Mesh(devices, mesh.names), anywhere()))
    return [*values[:at], asking, *values[at + 1 :]]
