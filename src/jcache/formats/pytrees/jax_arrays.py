"""Conversion of jax arrays to numpy arrays and back; JAX is imported only for a graph that has some.

An array that JAX is free to place is stored as its numbers, and placed by JAX again. Any other comes back where it was:
on the same device, or spread over the same mesh. Where these are not there the graph cannot be made.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from jcache.errors import Unresolved
from jcache.formats.pytrees.adapters import ClassAdapter
from jcache.formats.pytrees.grammar import Unsupported

if TYPE_CHECKING:
    import numpy as np

# ruff: noqa: ANN401 - JAX's internals have no stable types

NAME: Final = "jcache:jax:Array"
_UNCONSTRAINED: Final = "unconstrained"


def to_numpy(array: Any) -> tuple[np.ndarray[Any, Any], dict[str, object] | None]:
    """Return an array's data, and the node of an array of random keys, None for an array of numbers.

    Raises:
        Unsupported: it cannot be stored.
    """
    import numpy as np

    jax = sys.modules["jax"]
    if isinstance(array, jax.core.Tracer):
        raise Unsupported("is a value that JAX is tracing and has no numbers yet", "call it outside of `jax.jit`")
    if array.is_deleted():
        raise Unsupported("was deleted or donated", "return one that was not")
    if not array.is_fully_addressable:
        raise Unsupported("lies on more than one device, some of other processes")
    if not jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return np.asarray(array), None
    spec = jax.random.key_impl(array)
    implementation = spec if isinstance(spec, str) else getattr(getattr(spec, "_impl", None), "name", None)
    with jax.ensure_compile_time_eval():  # also within a function that JAX is tracing
        data = jax.random.key_data(array)
    try:
        known = isinstance(implementation, str) and keys_of(data, implementation).dtype == array.dtype
    except Unresolved:
        known = False
    if not known:
        raise Unsupported("holds random keys of an implementation that JAX does not know by name")
    return np.asarray(data), {"$key": [implementation, list(data.shape)]}


def from_numpy(view: np.ndarray[Any, Any], *, weak: bool, placement: Any = None) -> Any:
    """Return a jax array of numbers.

    Raises:
        Unresolved: this JAX, in its configuration, has no such array.
    """
    import jax

    if jax.dtypes.canonicalize_dtype(view.dtype) != view.dtype:
        raise Unresolved(f"A jax array of {view.dtype} needs JAX's option `jax_enable_x64`.")
    with jax.ensure_compile_time_eval():
        array = _put(view, placement)  # `jax.numpy.asarray` may compile a program
        if weak:
            array = _weakened(array)
    if array.dtype != view.dtype or bool(array.weak_type) is not weak:
        raise Unresolved(f"This JAX makes no {'weakly typed ' if weak else ''}array of {view.dtype}.")
    return array


def _weakened(array: Any) -> Any:
    """Return the same array with a weak type, which JAX's public functions give to Python's numbers only."""
    try:
        return type(array)(array.aval.update(weak_type=True), array.sharding, [array], committed=_is_committed(array))
    except (AttributeError, TypeError):
        return array  # the caller refuses it


# -- where arrays lie


def _jax() -> Any:
    return import_module("jax")


def state_of(array: Any, host: np.ndarray[Any, Any], node: dict[str, Any] | None) -> dict[str, object] | None:
    """Return a plain value for an array that is to be placed as it is; None where JAX may place it anew.

    Args:
        array: the array.
        host: its numbers.
        node: the node of an array of random keys, None for an array of numbers.

    Raises:
        Unsupported: it is spread in a way that cannot be stored.
    """
    jax, devices = sys.modules["jax"], array.devices()
    default = jax.config.jax_default_device
    default = default if isinstance(default, jax.Device) else jax.local_devices()[0]
    if not _is_committed(array) and devices == {default} and _kind_of(array) == _default_kind(default):
        return None
    if len(devices) != 1 and (node is not None or array.weak_type):
        raise Unsupported("lies on more than one device and has random keys or a weak type")
    try:
        placement = _describe(array)
        known = placement is not None and _sharding(placement) == array.sharding
    except (Unresolved, AttributeError, TypeError):  # such as of an older JAX
        known = False
    if not known:
        raise Unsupported("lies on more than one device, or where JAX cannot be told to put it")
    weak = node is None and bool(array.weak_type)
    keys = None if node is None else node["$key"][0]
    return {"values": host.copy(), "weak": weak, "keys": keys, "placement": placement}


def _from_state(_cls: Any, state: Any) -> Any:
    if state["keys"] is not None:
        return keys_of(state["values"], state["keys"], state["placement"])
    return from_numpy(state["values"], weak=state["weak"], placement=state["placement"])


def _is_committed(array: Any) -> bool:
    return bool(getattr(array, "committed", getattr(array, "_committed", True)))


def _kind_of(array: Any) -> Any:
    return getattr(array.sharding, "memory_kind", None)


def _default_kind(device: Any) -> Any:
    return device.default_memory().kind


def _describe(array: Any) -> dict[str, object] | None:
    """Return the sharding of an array as a plain value; None for one of a class that is not known."""
    jax, sharding = sys.modules["jax"], array.sharding
    more = {"committed": _is_committed(array), "memory": _kind_of(array)}
    if type(sharding) is jax.sharding.SingleDeviceSharding:
        (device,) = sharding.device_set
        return {"devices": [_name_of(device)], **more}
    if type(sharding) is not jax.sharding.NamedSharding or not isinstance(sharding.mesh, jax.sharding.Mesh):
        return None
    mesh = sharding.mesh
    free = jax.sharding.PartitionSpec.UNCONSTRAINED
    types = getattr(mesh, "axis_types", None)
    return {
        "devices": [_name_of(device) for device in mesh.devices.flat], "shape": list(mesh.devices.shape),
        "axes": list(mesh.axis_names), "types": None if types is None else [str(each.name) for each in types],
        "spec": [_UNCONSTRAINED if each is free else [each] if isinstance(each, str) else each and list(each)
                 for each in sharding.spec], **more,
    }  # fmt: skip


def _name_of(device: Any) -> list[object]:
    return [device.platform, device.id]


def _sharding(placement: Any) -> Any:
    """Return the sharding of a plain value.

    Raises:
        Unresolved: a device of it is not there, or this JAX has no such sharding.
    """
    import numpy as np

    jax = _jax()
    there = {(each.platform, each.id): each for each in jax.local_devices()}
    try:
        devices = [there[platform, number] for platform, number in placement["devices"]]
    except KeyError as error:
        raise Unresolved(f"A jax array lay on the device {error}, which is not there.") from error
    try:
        if "axes" not in placement:
            return jax.sharding.SingleDeviceSharding(devices[0], memory_kind=placement["memory"])
        options = {}
        if placement["types"] is not None:
            options["axis_types"] = tuple(getattr(jax.sharding.AxisType, each) for each in placement["types"])
        grid = np.array(devices, object).reshape(placement["shape"])
        mesh = jax.sharding.Mesh(grid, tuple(placement["axes"]), **options)
        free = jax.sharding.PartitionSpec.UNCONSTRAINED
        spec = [free if each == _UNCONSTRAINED else each and _of_axes(each) for each in placement["spec"]]
        return jax.sharding.NamedSharding(
            mesh, jax.sharding.PartitionSpec(*spec), memory_kind=placement["memory"]
        )  # fmt: skip
    except (ValueError, TypeError, AttributeError) as error:
        raise Unresolved(f"This JAX has no sharding {placement}: {error}.") from error


def _of_axes(names: list[str]) -> str | tuple[str, ...]:
    return names[0] if len(names) == 1 else tuple(names)


def _put(view: Any, placement: Any) -> Any:
    """Return an array where a placement says, or where JAX puts it."""
    jax = _jax()
    if placement is None:
        return jax.device_put(view)
    sharding = _sharding(placement)
    if placement["committed"]:
        return jax.device_put(view, sharding)
    (device,) = sharding.device_set
    with jax.default_device(device) if device != jax.config.jax_default_device else nullcontext():
        array = jax.device_put(view)
    if array.sharding != sharding:
        raise Unresolved(f"This JAX does not put an array to {sharding} by itself.")
    return array


def keys_of(data: Any, implementation: str, placement: Any = None) -> Any:
    """Return an array of random keys.

    Raises:
        Unresolved: this JAX has no such keys.
    """
    import jax

    try:
        with jax.ensure_compile_time_eval():
            return jax.random.wrap_key_data(_put(data, placement), impl=implementation)
    except (ValueError, TypeError, AttributeError) as error:
        raise Unresolved(f"This JAX has no random keys of the implementation '{implementation}'.") from error


ADAPTERS: Final = {"jax:Array": ClassAdapter(lambda _array: None, _from_state)}  # `state_of` is for the encoder to call
