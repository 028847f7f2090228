"""Encoding of values as bytes: a value has the same bytes in every process, and different values have different bytes.

An encoding is ``<letters><number>:<bytes>``: a tag, the length in bytes (or the number of encodings that follow), and
the content. So each encoding marks its own end, and different sequences of encodings have different bytes.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping
from types import EllipsisType, NoneType, NotImplementedType
from typing import Any, Final

LARGEST: Final = 64 << 20  # of more bytes in one value samples count
_SAMPLES, _SAMPLE_BYTES = 1024, 1024
_DOUBLE = struct.Struct(">d").pack
_NAN: Final = b"float3:nan"
_USUAL_NAN: Final = _DOUBLE(float("nan"))  # others have a sign or a payload


def tagged(tag: bytes, data: bytes) -> bytes:
    return b"%b%d:%b" % (tag, len(data), data)


def text(value: str) -> bytes:
    """Encode a text, which may contain lone surrogates."""
    return tagged(b"str", value.encode("utf-8", "surrogatepass"))


def several(tag: bytes, encodings: Iterable[bytes]) -> bytes:
    items = tuple(encodings)
    return b"%b%d:%b" % (tag, len(items), b"".join(items))


def unordered(tag: bytes, encodings: Iterable[bytes]) -> bytes:
    return several(tag, sorted(encodings))


def sampled(content: memoryview) -> bytes:
    """Return the digest of short pieces of some bytes, from the first to the last."""
    starts = [at * (len(content) - _SAMPLE_BYTES) // (_SAMPLES - 1) for at in range(_SAMPLES)]
    return sha256(b"".join([content[start : start + _SAMPLE_BYTES] for start in starts]))


def sha256(data: bytes | memoryview) -> bytes:
    return hashlib.sha256(data).digest()


def _float(value: float) -> bytes:
    packed = _DOUBLE(value)
    return b"float8:" + packed if packed != _USUAL_NAN else _NAN


SCALARS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    NoneType: lambda _: b"none0:",
    bool: lambda value: b"bool1:1" if value else b"bool1:0",
    int: lambda value: tagged(b"int", b"%x" % value),
    float: _float,
    complex: lambda value: several(b"complex", (_float(value.real), _float(value.imag))),
    str: text,
    bytes: lambda value: tagged(b"bytes", value),
    EllipsisType: lambda _: b"ellipsis0:",
    NotImplementedType: lambda _: b"notimplemented0:",
}
"""Encoders of values that have no parts, by exact type."""


def constant(value: Any) -> bytes | None:  # noqa: ANN401  whatever a compiler puts among the constants
    """Return the encoding of a scalar, tuple, frozenset or slice; None for anything else."""
    scalar = SCALARS.get(type(value))
    if scalar is not None:
        return scalar(value)
    if type(value) is slice:
        return _constants(b"slice", (value.start, value.stop, value.step))
    if type(value) is tuple:
        return _constants(b"tuple", value)
    if type(value) is frozenset:
        items = [constant(item) for item in value]
        return None if None in items else unordered(b"frozenset", [item for item in items if item is not None])
    return None


def _constants(tag: bytes, values: tuple[Any, ...]) -> bytes | None:
    items = [constant(value) for value in values]
    return None if None in items else several(tag, [item for item in items if item is not None])
