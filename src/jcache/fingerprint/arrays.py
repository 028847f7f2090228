"""Encoding of the arrays of numpy and JAX, without importing them: whoever has an array has imported its library."""

# ruff: noqa: ANN401 - values of numpy and JAX

import hashlib
import sys
from collections.abc import Callable
from typing import Any, Final

from jcache.fingerprint.attributes import ALL
from jcache.fingerprint.encoding import constant, several, tagged, text
from jcache.fingerprint.generators import encode_bits, encode_generator, encode_random_state
from jcache.fingerprint.opaque import functions_in
from jcache.fingerprint.refusals import Refused

_LIBRARIES: Final = frozenset({"numpy", "jax", "jaxlib", "ml_dtypes"})
_OF_MEMMAP: Final = frozenset({"_mmap", "filename", "mode", "offset"})
_OF_VIEWS: Final = frozenset({"base", "flags", "resize", ALL})  # they tell a view from an array with its own memory
_OF_JITTED: Final = frozenset({"__wrapped__", "_fun", "_jit_info"})
_INSTEAD: Final = "pass in what it is made of"


def handler(value: Any) -> Callable[[Any, Any], bytes] | None:
    """Return the handler of a value of numpy or JAX; None for any other value.

    Raises:
        Refused: JAX is tracing the value.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    kind = type(value)
    if issubclass(kind, numpy.ndarray):
        return _array
    if not any(map(_is_of_library, kind.__mro__)):  # the table would import numpy.random
        return None
    found = next((each for classes, each in _TABLE if issubclass(kind, classes(numpy))), None)
    if found is not None:
        return found if _is_of_library(kind) else _derived(found)
    return _handler_of_jax(value, kind) if _is_of_library(kind) else None


def _handler_of_jax(value: Any, kind: type) -> Callable[[Any, Any], bytes] | None:
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    if issubclass(kind, jax.core.Tracer):
        raise Refused(value, "it is a value that JAX is tracing", "call it outside of jit, grad and vmap")
    if issubclass(kind, jax.Array):
        return _jax_array
    if issubclass(kind, jax.ShapeDtypeStruct):
        return _shape
    return _OF_JAX.get(kind.__name__)


def _is_of_library(kind: type) -> bool:
    return str(kind.__module__).partition(".")[0] in _LIBRARIES


def _derived(handler: Callable[[Any, Any], bytes]) -> Callable[[Any, Any], bytes]:
    """Return a handler of a user's class: it also encodes the class and the attributes."""
    return lambda encoder, value: several(
        b"derived", [encoder.class_(type(value)), handler(encoder, value), encoder.state(value)]
    )


def _dtype(encoder: Any, dtype: Any) -> bytes:
    """Encode a dtype, also one that its `str` does not describe in full: a structure, or one of ml_dtypes."""
    metadata = encoder.encode(dict(dtype.metadata) if dtype.metadata else None)
    return several(b"dtype", [metadata, _content_type(encoder, dtype)])


def _content_type(encoder: Any, dtype: Any) -> bytes:
    if dtype.names is not None:
        fields = [
            several(
                b"field", [text(name), _dtype(encoder, dtype.fields[name][0]), encoder.encode(dtype.fields[name][1:])]
            )
            for name in dtype.names
        ]
        return several(b"structure", [encoder.encode((dtype.itemsize, dtype.isalignedstruct)), *fields])
    if dtype.subdtype is not None:
        return several(b"subarray", [_dtype(encoder, dtype.subdtype[0]), encoder.encode(dtype.subdtype[1])])
    kind = dtype.type
    return constant((dtype.str, dtype.name, kind.__module__, kind.__qualname__, dtype.hasobject)) or b""


def _content(array: Any) -> bytes:
    numpy = sys.modules["numpy"]
    if array.size == 0:
        return b""
    plain = numpy.ascontiguousarray(array.view(numpy.ndarray))
    return hashlib.sha256(memoryview(plain.reshape(-1).view("u1"))).digest()


def _array(encoder: Any, array: Any) -> bytes:
    numpy = sys.modules["numpy"]
    encoder.library()
    kind, root = type(array), array
    while isinstance(root.base, numpy.ndarray):
        root = root.base
    encoder.note_shared(root)
    is_view = array.base is not None and not encoder.names.isdisjoint(_OF_VIEWS)
    if is_view or not array.flags.writeable:
        encoder.traits.append(f"writeable {array.flags.writeable}, base {is_view}")
    shape = [encoder.encode(tuple(array.shape)), encoder.encode(_layout(array))]
    if array.dtype.hasobject:
        elements = several(b"elements", encoder.items(array.view(numpy.ndarray).ravel().tolist()))
    else:
        elements = tagged(b"content", _content(array))
    encoded = several(b"ndarray", [_dtype(encoder, array.dtype), *shape, elements])
    if kind is numpy.ndarray:
        return encoded
    state = encoder.state(array, _OF_MEMMAP if kind is numpy.memmap else ())
    return several(b"derived", [encoder.class_(kind), encoded, state])


def _layout(array: Any) -> Any:
    """Return the order of an array's elements in memory, because the last digits of a sum depend on it."""
    if array.flags.c_contiguous:
        return "C"
    return "F" if array.flags.f_contiguous else tuple(array.strides)


def _scalar(encoder: Any, value: Any) -> bytes:
    encoder.library()
    if value.dtype.hasobject:  # its bytes are addresses
        return several(b"scalar", [_dtype(encoder, value.dtype), encoder.encode(value.item())])
    content, is_float = value.tobytes(), value.dtype.kind == "f" and value.dtype.name.startswith("float")
    if is_float and content == value.dtype.type("nan").tobytes():
        content = b"nan"
    return several(b"scalar", [_dtype(encoder, value.dtype), tagged(b"content", content)])


def _limits(encoder: Any, value: Any) -> bytes:  # which keep what is computed when it is asked for
    return several(b"limits", [encoder.class_(type(value)), _dtype(encoder, value.dtype)])


def _ufunc(encoder: Any, value: Any) -> bytes:
    name: str = value.__name__
    for home in ("numpy", "scipy.special", "ml_dtypes"):
        if vars(sys.modules.get(home, sys)).get(name) is value:
            return several(b"ufunc", [text(f"{home}.{name}")])
    return several(b"opaque", [text(name), *functions_in(encoder, value)])


def _jax_array(encoder: Any, array: Any) -> bytes:
    jax, numpy = sys.modules["jax"], sys.modules["numpy"]
    encoder.library()
    if array.is_deleted():
        raise Refused(array, "its buffer was donated or deleted", _INSTEAD)
    if not array.is_fully_addressable:
        raise Refused(array, "parts of it are in other processes", _INSTEAD)
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        with jax.ensure_compile_time_eval():  # while something is traced
            data = jax.random.key_data(array)
        return several(b"key", [text(str(jax.random.key_impl(array))), _jax_array(encoder, data)])
    encoder.note_shared(array)
    if not encoder.for_trace and getattr(array, "committed", False):
        encoder.traits.append(f"on {sorted(each.id for each in array.devices())}")
    weak = bool(getattr(array, "weak_type", False))
    place = _place(array) if encoder.for_trace else None
    return several(b"jax", [encoder.encode(weak), encoder.encode(tuple(array.shape)), _dtype(encoder, array.dtype),
                            tagged(b"content", _content(numpy.asarray(array))),
                            *([] if place is None else [encoder.encode(place)])])  # fmt: skip


def _place(array: Any) -> Any:
    """Return the sharding that tracing sees of an array on a mesh; None if the array is on no mesh."""
    sharding = getattr(getattr(array, "aval", None), "sharding", None)
    return None if getattr(getattr(sharding, "mesh", None), "empty", True) else sharding


def _shape(encoder: Any, value: Any) -> bytes:
    weak = bool(getattr(value, "weak_type", False))
    return several(b"shape", [encoder.encode((tuple(value.shape), weak, getattr(value, "sharding", None))),
                            text(str(value.dtype))])  # fmt: skip


def _jitted(encoder: Any, value: Any) -> bytes:
    named: bytes | None = encoder.named(value)
    if named is not None:
        return named
    encoder.library()
    encoder.snapshot.reaches_jitted = True
    options = getattr(value, "_jit_info", None) or _options_within(getattr(value, "_cache_miss", None))
    beside = encoder.beside(value, _OF_JITTED)
    return several(b"jit", [encoder.encode(getattr(value, "__wrapped__", None)), encoder.encode(options), *beside])


def _jit_options(encoder: Any, options: Any) -> bytes:
    fields = options._asdict()
    plain = [(name, each) for name, each in fields.items() if name not in {"fun_sourceinfo", "fun_signature"}]
    return several(b"options", [encoder.attributes(plain)])


def _aval(encoder: Any, value: Any) -> bytes:
    """Encode the type of an array, but not the type without `weak_type` that jax 0.12 derives and keeps in it."""
    return several(b"aval", [encoder.class_(type(value)), encoder.state(value, ("_stripped_weak_type",))])


def _treedef(encoder: Any, value: Any) -> bytes:
    node = value.node_data()
    children = [_treedef(encoder, each) for each in value.children()]
    return several(b"treedef", [encoder.encode(node), encoder.encode(value.num_leaves), *children])


def _options_within(function: Any, depth: int = 3) -> Any:
    """Return the options of a jitted function from its closure, where older versions of JAX keep them."""
    for cell in getattr(function, "__closure__", None) or ():
        found = cell.cell_contents
        if type(found).__name__ == "PjitInfo":
            return found
        within = _options_within(found, depth - 1) if depth else None
        if within is not None:
            return within
    return None


_TABLE: Final[tuple[tuple[Callable[[Any], Any], Callable[[Any, Any], bytes]], ...]] = (
    (lambda numpy: numpy.generic, _scalar),
    (lambda numpy: numpy.dtype, _dtype),
    (lambda numpy: numpy.finfo, _limits),
    (lambda numpy: numpy.ufunc, _ufunc),
    (lambda numpy: numpy.random.Generator, encode_generator),
    (lambda numpy: numpy.random.BitGenerator, encode_bits),
    (lambda numpy: numpy.random.RandomState, encode_random_state),
)


def _mesh(encoder: Any, mesh: Any) -> bytes:
    encoder.library()
    devices = [[getattr(each, name, None) for name in _DEVICE] for each in mesh.devices.flat]  # some are None
    return several(b"mesh", [_axes(encoder, mesh), encoder.encode(devices)])


def _abstract_mesh(encoder: Any, mesh: Any) -> bytes:
    encoder.library()
    device = getattr(mesh, "abstract_device", None)
    kind = device and [getattr(device, name, None) for name in ("device_kind", "num_cores", "platform")]
    return several(b"abstract mesh", [_axes(encoder, mesh), encoder.encode(kind)])


def _axes(encoder: Any, mesh: Any) -> bytes:
    types = getattr(mesh, "axis_types", None)
    names = types if types is None or isinstance(types, dict) else [str(each) for each in types]
    return several(b"axes", [encoder.encode((tuple(mesh.axis_names), tuple(mesh.shape.items()))), text(str(names))])


def _spec(encoder: Any, spec: Any) -> bytes:
    parts = [str(part) if type(part).__name__ == "UnconstrainedSingleton" else part for part in spec]
    sets = [sorted(map(str, getattr(spec, name, None) or ())) for name in ("unreduced", "reduced")]
    return several(b"spec", [encoder.encode(parts), encoder.encode(sets)])


def _named_sharding(encoder: Any, sharding: Any) -> bytes:
    parts = (sharding.mesh, sharding.spec, sharding.memory_kind)
    return several(b"sharding", [encoder.encode(part) for part in parts])


def _device(encoder: Any, value: Any) -> bytes:
    """Encode a device, or what lies on one, by its type; which one it is, is set aside."""
    devices = getattr(value, "device_set", None) or [value]
    told = [[getattr(each, name, None) for name in _DEVICE[:3]] for each in devices]
    encoder.set_aside(f"{type(value).__name__}", told)
    return several(b"device", [encoder.class_(type(value)), encoder.encode(getattr(value, "memory_kind", None))])


def _traceback(_encoder: Any, _value: Any) -> bytes:
    """Encode where a program's step comes from, which jaxprs have."""
    return text("traceback")


_DEVICE: Final = ("platform", "device_kind", "id", "process_index")
_OF_JAX: Final = {
    "Device": _device, "SingleDeviceSharding": _device, "PjitFunction": _jitted, "PjitInfo": _jit_options,
    "Traceback": _traceback, "PyTreeDef": _treedef, "Mesh": _mesh, "ShapedArray": _aval,
    "AbstractMesh": _abstract_mesh, "PartitionSpec": _spec, "NamedSharding": _named_sharding,
}  # fmt: skip
STABLE: Final = frozenset(
    {_jit_options, _treedef, _scalar, _dtype, _ufunc, _jax_array, _shape, _jitted, _mesh, _abstract_mesh, _spec,
     _named_sharding}
)  # fmt: skip
"""Handlers of values that never change."""
