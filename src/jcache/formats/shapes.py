"""The shapes of a program's results, as text such as ``f32[128,10]``, from the protos of XLA and of IFRT.

The grammar of these protos is in `jcache.formats.inspection`.
"""

from functools import lru_cache
from typing import Final

from jcache.formats.protobuf import Message

# The schema's numbers, PrimitiveType of xla_data.proto and DTypeProto.Kind of ifrt/dtype.proto, with XLA's short names.
_COMMON: Final = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
    12: "f64", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2", 20: "f8e4m3fn", 21: "s4",
    22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 26: "s2", 27: "u2", 28: "f8e4m3", 29: "f8e3m4",
}  # fmt: skip
_XLA_TYPES: Final = _COMMON | {30: "s1", 31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu", 35: "f6e3m2fn", 36: "f6e2m3fn"}
_IFRT_TYPES: Final = _COMMON | {
    30: "f4e2m1fn", 31: "f8e8m0fnu", 32: "s1", 33: "u1", 34: "f6e2m3fn", 35: "f6e3m2fn", 99: "string",
}  # fmt: skip
_TUPLE: Final = 13
_MAX_CACHED_BYTES: Final = 64  # the longest spec of a result whose shape is cached; most have 20 to 40


def ifrt_shapes(metadata: Message) -> tuple[str, ...] | None:
    """Return the shapes of a program's results from IFRT's metadata, None if one of them is not known."""
    return _all_known([_ifrt_shape(spec, metadata) for spec in metadata.slices(5)])


def xla_shapes(result: Message) -> tuple[str, ...] | None:
    """Return the shapes in XLA's shape of a program's result, None if one of them is not known."""
    shapes = result.messages(4) if result.varint(2) == _TUPLE else (result,)
    return _all_known([_shape_text(_XLA_TYPES, shape.varint(2), shape.varints(3)) for shape in shapes])


def _ifrt_shape(data: memoryview, metadata: Message) -> str | None:
    if len(data) <= _MAX_CACHED_BYTES:
        return _cached_shape(bytes(data))
    return _spec_shape(Message(data, parent=metadata))


@lru_cache(maxsize=256)  # the hundreds of outputs of a training step have a few shapes among them
def _cached_shape(data: bytes) -> str | None:
    return _spec_shape(Message(data))


def _spec_shape(spec: Message) -> str | None:
    shape = spec.message(6) or spec.message(1)  # the global shape, else that of one shard
    dtype = spec.message(2)
    kind = None if dtype is None else dtype.varint(1)
    return None if shape is None else _shape_text(_IFRT_TYPES, kind, shape.varints(1))


def _shape_text(types: dict[int, str], kind: int | None, dims: list[int]) -> str | None:
    name = types.get(kind or 0)
    return None if name is None else f"{name}[{','.join(map(str, dims))}]"


def _all_known(shapes: list[str | None]) -> tuple[str, ...] | None:
    known = tuple(shape for shape in shapes if shape is not None)
    return known if len(known) == len(shapes) else None
