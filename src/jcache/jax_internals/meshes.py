"""The mesh of devices that a program itself names, by a constraint or a `shard_map` inside of it.

JAX runs a program whose arguments lie on no device in particular on the devices of this mesh, and expresses the
sharding of results by it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple


class Mesh(NamedTuple):
    """Devices arranged along axes.

    Attributes:
        names: names of the axes.
        sizes: sizes of the axes.
        devices: the numbers of the devices, in the order of the mesh's array with the last axis running fastest.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    devices: tuple[int, ...]


def mesh_of(shardings: Iterable[Any]) -> Mesh | None:
    """Return the mesh that a program itself names, None if there is none or `Mesh` cannot describe it."""
    import jax

    meshes = [each.mesh for each in shardings if isinstance(each, jax.sharding.NamedSharding)]
    mesh = next((each for each in meshes if isinstance(each, jax.sharding.Mesh)), None)
    if mesh is None or not all(isinstance(name, str) for name in mesh.axis_names):
        return None
    if not all(str(kind).endswith("Auto") for kind in getattr(mesh, "axis_types", None) or ()):
        return None
    return Mesh(tuple(mesh.axis_names), mesh.devices.shape, tuple(int(each.id) for each in mesh.devices.flat))


def needs_unreachable_mesh(shardings: Iterable[Any], arguments: Iterable[Any]) -> bool:
    """Return whether a program itself names a mesh that `mesh_of` cannot return, and no argument lies on a mesh."""
    import jax

    named = jax.sharding.NamedSharding
    requested = [each for each in shardings if isinstance(each, named) and isinstance(each.mesh, jax.sharding.Mesh)]
    return bool(requested) and mesh_of(requested) is None and not any(isinstance(each, named) for each in arguments)


def constrain_to_mesh(values: list[Any], mesh: Mesh | None) -> list[Any]:
    """Constrain one of the values to the mesh of the real program.

    Raises:
        KeyError: a device of the mesh is not here.
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
