r"""The sealed envelope: the bytes of a trace or a graph.

Sealed envelope, version 1; numbers are unsigned and big-endian:

    envelope       = magic version header-length stored-length seal header payload           nothing before or behind
    magic          = 89 6A 63 61 63 68 65 0A                          ("\x89jcache\n")
    version        = 4 bytes, 1
    header-length  = 4 bytes, at most 4 MiB
    stored-length  = 8 bytes: length of the payload as it is stored
    seal           = 32 bytes: SHA-256 of everything before it and of the header
    header         = canonical JSON (UTF-8, sorted keys, no blanks), blanks that align the payload, and a line feed, so
                     that ``head -2`` shows it:
                     {"build_seconds":float,"created_ns":int,"key":str,"key_parts":{str:str},"kind":str,"name":str,
                      "parents":[str],"payload_codec":"zstd"|"none","payload_length":int,"payload_sha256":hex,
                      "producers":{str:str}}
    payload        = stored-length bytes, whose SHA-256 is payload_sha256; payload_length bytes once decompressed; it
                     starts at a multiple of 64 bytes, so that aligned data in it are aligned in a mapped file

The seal covers the lengths and the header, the header covers the payload, and the total length must be exact: no bit
can change unnoticed. Another format gets another version and directory; a reader refuses unknown versions.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from jcache.errors import DamagedEntry, InvalidValue
from jcache.formats.compression import MAX_CONTENT, Codec, compress, decompress_zstd, too_large

__all__ = [
    "Codec", "Envelope", "EnvelopeHeader", "check_seal", "header_length", "open_envelope", "read_header", "seal",
    "sealed_length", "unseal",
]  # fmt: skip

MAX_HEADER: Final = 4 << 20  # JSON made of empty lists takes thirty times as much memory
ENVELOPE_MAGIC: Final = b"\x89jcache\n"
ALIGNMENT: Final = 64  # of payloads in files: a cache line, and the alignment of memory that XLA uses without a copy

_VERSION: Final = 1
_PREFIX: Final = 24  # magic, version and the two lengths
_HEADER_START: Final = _PREFIX + 32


class EnvelopeHeader(NamedTuple):
    """The header of a trace or graph."""

    kind: str
    name: str
    key: str
    key_parts: dict[str, str]
    producers: dict[str, str]
    build_seconds: float
    created_ns: int
    parents: tuple[str, ...]
    payload_codec: Codec
    payload_length: int
    payload_sha256: str


class Envelope(NamedTuple):
    """A trace or graph: its header and its payload."""

    header: EnvelopeHeader
    payload: bytes


def seal(
    payload: bytes | Sequence[bytes | memoryview],
    *,
    kind: str,
    name: str,
    key: str,
    build_seconds: float,
    created_ns: int,
    key_parts: dict[str, str] | None = None,
    producers: dict[str, str] | None = None,
    parents: tuple[str, ...] = (),
    codec: Codec = Codec.ZSTD,
) -> bytes:
    """Return the envelope of a payload, which may be given in pieces.

    Raises:
        InvalidValue: a field does not have the type or range of the grammar.
    """
    if codec not in {Codec.ZSTD, Codec.NONE}:
        raise InvalidValue(f"The payload of an envelope is compressed by zstd or not at all, not by {codec}.")
    pieces = [payload] if isinstance(payload, bytes) else payload
    stored = pieces if codec is Codec.NONE else [compress(b"".join(pieces), codec)]
    record = {
        "kind": kind, "name": name, "key": key, "key_parts": key_parts or {}, "producers": producers or {},
        "build_seconds": build_seconds, "created_ns": created_ns, "parents": list(parents),
        "payload_codec": codec.value, "payload_length": _length(pieces), "payload_sha256": _digest(stored),
    }  # fmt: skip
    try:
        _check_header(record)
        header = _aligned(_canonical(record))
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"The header of an envelope cannot be written: {error}.") from error
    if len(header) > MAX_HEADER:
        raise InvalidValue(f"The header of an envelope has {len(header)} bytes; {MAX_HEADER} are allowed.")
    prefix = ENVELOPE_MAGIC + struct.pack(">IIQ", _VERSION, len(header), _length(stored))
    return b"".join((prefix, _sha256(prefix + header), header, *stored))


def unseal(data: bytes, *, limit: int = MAX_CONTENT) -> Envelope:
    """Return a trace or graph, every bit of it verified.

    Raises:
        DamagedEntry: the bytes are not an envelope, were changed, or hold more than ``limit`` bytes.
    """
    header, payload = open_envelope(data, limit=limit)
    return Envelope(header, bytes(payload))


def open_envelope(
    data: bytes | memoryview, *, limit: int = MAX_CONTENT, is_known: Callable[[], bool] | None = None
) -> tuple[EnvelopeHeader, bytes | memoryview]:
    """Do the same as `unseal` without copying: an uncompressed payload is a view of the data.

    Args:
        data: the envelope.
        limit: how many bytes its payload may have.
        is_known: returns whether these very bytes have been verified otherwise, so that only the header is.
    """
    header, stored = _sealed(data, is_known)
    if header.payload_length > limit:
        raise too_large(len(stored), limit)
    zstd = header.payload_codec is Codec.ZSTD
    payload = decompress_zstd(stored, limit=header.payload_length) if zstd else stored
    if len(payload) != header.payload_length:
        raise DamagedEntry(
            f"An envelope has a payload of {len(payload)} bytes where {header.payload_length} were sealed."
        )
    return header, payload


def check_seal(data: bytes) -> EnvelopeHeader:
    """Return the header of a trace or graph, with every stored bit verified and nothing decompressed.

    Raises:
        DamagedEntry: the bytes are not an envelope, or were changed.
    """
    return _sealed(data)[0]


def _sealed(data: bytes | memoryview, is_known: Callable[[], bool] | None = None) -> tuple[EnvelopeHeader, memoryview]:
    """Return the header and the payload as it is stored."""
    header, start, stored_length = _open_header(data)
    if len(data) - start != stored_length:
        raise DamagedEntry(f"An envelope has {len(data) - start} bytes of payload where {stored_length} were written.")
    stored = memoryview(data)[start:]
    if not (is_known is not None and is_known()) and _digest([stored]) != header.payload_sha256:
        raise DamagedEntry("The payload of an envelope has changed since it was sealed.")
    return header, stored


def read_header(head: bytes) -> EnvelopeHeader:
    """Return the header of a trace or graph from its first bytes; the header is verified, the payload is not.

    Raises:
        DamagedEntry: the bytes do not start with a whole, unchanged header.
    """
    return _open_header(head)[0]


def sealed_length(head: bytes) -> int | None:
    """Return the length that an envelope declares, None if the bytes do not begin like an envelope."""
    if len(head) < _PREFIX or head[:8] != ENVELOPE_MAGIC:
        return None
    header_length, stored_length = struct.unpack_from(">IQ", head, 12)
    return int(_HEADER_START + header_length + stored_length)


def header_length(head: bytes) -> int:
    """Return the bytes before an envelope's payload, 0 if the bytes do not begin like an envelope."""
    if len(head) < _PREFIX or head[:8] != ENVELOPE_MAGIC:
        return 0
    return _HEADER_START + int.from_bytes(head[12:16], "big")


def _open_header(data: bytes | memoryview) -> tuple[EnvelopeHeader, int, int]:
    """Return the header, the start of the payload, and its length as it is stored."""
    prefix = bytes(data[:_PREFIX])
    if len(prefix) < _PREFIX or prefix[:12] != ENVELOPE_MAGIC + _VERSION.to_bytes(4, "big"):
        raise DamagedEntry(
            f"An entry that starts with {prefix[:12].hex(' ') or 'no byte'} is no envelope of version {_VERSION}."
        )
    length, stored_length = struct.unpack_from(">IQ", prefix, 12)
    start = _HEADER_START + length
    if length > MAX_HEADER or start > len(data):
        raise DamagedEntry(
            f"An envelope announces a header of {length} bytes and has {max(0, len(data) - _HEADER_START)}."
        )
    header = bytes(data[_HEADER_START:start])
    if _sha256(prefix + header) != data[_PREFIX:_HEADER_START]:
        raise DamagedEntry("The header of an envelope has changed since it was sealed.")
    return _parse_header(header), start, stored_length


def _parse_header(header: bytes) -> EnvelopeHeader:
    import json

    try:
        record = json.loads(header)
        _check_header(record)
        if _aligned(_canonical(record)) != header:  # this rules out duplicate keys, NaN and other blanks
            raise ValueError("it is not canonical JSON, aligned")
    except (TypeError, ValueError, RecursionError) as error:
        raise DamagedEntry(f"The header of an envelope cannot be read: {error}.") from error
    typed = {"parents": tuple(record["parents"]), "payload_codec": Codec(record["payload_codec"])}
    return EnvelopeHeader(**(record | typed))


def _canonical(record: dict[str, Any]) -> bytes:
    import json

    text = json.dumps(record, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def _aligned(header: bytes) -> bytes:
    """Return the header with the blanks that align the payload, and a line feed."""
    return header + b" " * (-(_HEADER_START + len(header) + 1) % ALIGNMENT) + b"\n"


def _length(pieces: Iterable[bytes | memoryview]) -> int:
    return sum(memoryview(piece).nbytes for piece in pieces)


def _digest(pieces: Iterable[bytes | memoryview]) -> str:
    import hashlib

    hashed = hashlib.sha256()
    for piece in pieces:
        hashed.update(piece)
    return hashed.hexdigest()


def _check_header(record: object) -> None:
    """Raise TypeError or ValueError unless a header has exactly its fields, each of its type and range."""
    if not isinstance(record, dict) or record.keys() != set(EnvelopeHeader._fields):
        raise ValueError("it does not have exactly the fields of version 1")
    ok = (
        all(isinstance(record[name], str) for name in ("kind", "name", "key"))
        and all(_texts(record[name]) for name in ("key_parts", "producers"))
        and isinstance(record["parents"], list)
        and all(isinstance(parent, str) for parent in record["parents"])
        and type(record["build_seconds"]) is float
        and record["build_seconds"] >= 0
        and _natural(record["created_ns"])
        and _natural(record["payload_length"])
        and record["payload_codec"] in {Codec.ZSTD.value, Codec.NONE.value}
        and isinstance(record["payload_sha256"], str)
        and len(record["payload_sha256"]) == 64
    )
    if not ok:
        raise TypeError("a field does not have the type or range of version 1")


def _texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)


def _natural(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _sha256(data: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(data).digest()
