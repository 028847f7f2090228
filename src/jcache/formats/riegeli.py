"""Riegeli files, which hold GPU executables from jax 0.11 on, and the split protos inside.

The container, after https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md, little-endian:

    file         = chunks, interrupted by a 24-byte block header at every multiple of 64 KiB; a signature chunk first
    block header = hash(8) distance from the chunk's start(8) distance to its end(8)    of the chunk that it interrupts
    chunk        = header-hash(8) data-size(8) data-hash(8) type(1) records(7) decoded-size(8) data padding
    hash         = HighwayHash64 of the rest of the header, or of the data; padding has none and is zeros
    type         = "s" signature | "m" metadata | "p" padding | "r" simple records | "t" transposed records
    simple data  = codec(1) varint(size of sizes) sizes values           sizes = varint per record
    codec        = 0 none | "b" brotli | "z" zstd | "s" snappy           each but 0 puts varint(decoded size) first

A split proto (``xla/util/split_proto``) is such a file: record 0 is a ``SplitProtoManifest`` {1 type name, 2 records},
and the manifest describes each further record: {3: {1 path {1 field number}}} is one large field by itself, {2: {}} a
piece of the message, to be merged.

Real entries (jax 0.11.2, H200) use snappy (`jcache.formats.snappy`). Decoding brotli would need a further dependency,
so files with brotli are not read. Reading ignores the hashes. `check_hashes` needs no decoder, since they are hashes of
the stored bytes, and the hashes of the outer file cover a nested one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from jcache.errors import DamagedEntry
from jcache.formats.compression import decompress_zstd
from jcache.formats.highwayhash import highwayhash64
from jcache.formats.protobuf import Message, read_varint, read_varints
from jcache.formats.snappy import decompress_snappy

SIGNATURE: Final = bytes.fromhex("83af70d10d884a3f 0000000000000000 4000000000000000 91bac23c9287e1a9")
_MAX_RECORDS: Final = 100_000  # real files have three
_BLOCK: Final = 1 << 16
_BLOCK_HEADER: Final = 24
_USABLE: Final = _BLOCK - _BLOCK_HEADER
_CHUNK_HEADER: Final = 40
_ZSTD, _SNAPPY, _UNCOMPRESSED = 0x7A, 0x73, 0
_HASH_KEY: Final = (0x2F696C6567656952, 0x0A7364726F636572) * 2  # "Riegeli/", "records\n"


@dataclass(frozen=True, slots=True)
class SplitProto:
    """A message in pieces: its type, the message without its large fields, and these fields by number."""

    type_name: str
    message: Message
    fields: dict[int, memoryview]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One chunk: its start, its header and data, the end of the data, and the end of the padding behind them."""

    start: int
    header: memoryview
    body: memoryview
    body_end: int
    end: int

    @property
    def kind(self) -> str:
        return chr(self.header[24])

    @property
    def count(self) -> int:
        return int.from_bytes(self.header[25:32], "little")

    @property
    def decoded(self) -> int:
        return int.from_bytes(self.header[32:40], "little")


def read_split_proto(data: memoryview, *, limit: int) -> SplitProto | None:
    """Return the message in a Riegeli file; None if it is too large, or its compression is not supported.

    Raises:
        DamagedEntry: the bytes do not follow the grammar above.
    """
    records = read_records(data, limit=limit)
    if records is None:
        return None
    manifest = Message(records[0]) if records else None
    type_name = manifest.text(1) if manifest else None
    if manifest is None or type_name is None:
        raise DamagedEntry("a split proto without a manifest")
    plans = list(manifest.messages(2))
    if len(plans) != len(records) - 1:
        raise DamagedEntry(f"a split proto of {len(records) - 1} records whose manifest announces {len(plans)}")
    fields: dict[int, memoryview] = {}
    pieces: list[memoryview] = []
    for plan, record in zip(plans, records[1:], strict=True):
        path = [part.varint(1) for override in plan.messages(3) for part in override.messages(1)]
        if len(path) == 1 and path[0] is not None:
            fields[path[0]] = record
        elif not path:
            pieces.append(record)
    return SplitProto(type_name, Message(b"".join(pieces)), fields)  # protobuf merges by concatenation


def read_records(data: memoryview, *, limit: int) -> list[memoryview] | None:
    """Return the records of a file; None if a chunk's compression is not supported, or the records exceed the limit.

    Raises:
        DamagedEntry: the bytes do not follow the grammar above.
    """
    records: list[memoryview] = []
    for chunk in _chunks(data):
        if chunk.kind == "r":
            if len(records) + chunk.count > _MAX_RECORDS:
                raise DamagedEntry(f"more than {_MAX_RECORDS} records")
            limit -= chunk.decoded
            more = _simple_records(chunk.body, chunk.count, chunk.decoded) if limit >= 0 else None
            if more is None:
                return None
            records += more
        elif chunk.kind == "t":
            return None
        elif chunk.kind not in {"s", "m", "p"}:
            raise DamagedEntry(f"a chunk of unknown type {chunk.kind!r}")
    return records


def check_hashes(data: memoryview) -> None:
    """Compare every byte of a file with the hash that covers it, or with the value that writers put there.

    Every flipped bit is noticed; a file that was cut exactly between two chunks is not.

    Raises:
        DamagedEntry: a byte has changed since it was written.
    """
    for chunk in _chunks(data):
        problem = _damage_of(data, chunk)
        if problem is not None:
            raise DamagedEntry(f"the Riegeli chunk at byte {chunk.start}: {problem}")


def _damage_of(data: memoryview, chunk: _Chunk) -> str | None:
    header = chunk.header
    if header[:8] != _hash(header[8:]):
        return "its header does not match the hash in it"
    if header[16:24] != _hash(chunk.body):
        return "its data do not match their hash"
    if chunk.end > len(data):
        return f"its padding reaches {chunk.end - len(data)} bytes past the end of the file"
    for block in range(-(-chunk.start // _BLOCK) * _BLOCK, chunk.end, _BLOCK):
        distances = (block - chunk.start).to_bytes(8, "little") + (chunk.end - block).to_bytes(8, "little")
        if data[block : block + _BLOCK_HEADER] != _hash(distances) + distances:
            return f"the block header at byte {block} is not the one that belongs there"
    padding = _without_block_headers(data, chunk.body_end, chunk.end)
    return None if padding == bytes(len(padding)) else "its padding is not zeros"


def _hash(data: memoryview | bytes) -> bytes:
    return highwayhash64(data, _HASH_KEY).to_bytes(8, "little")


def _chunks(data: memoryview) -> Iterator[_Chunk]:
    """Yield the chunks, their headers and data without the block headers in them.

    Raises:
        DamagedEntry: there is no signature, or a chunk does not fit into the file.
    """
    if data[: len(SIGNATURE)] != SIGNATURE:
        raise DamagedEntry("no Riegeli signature")
    position = 0
    while position < len(data):
        body_start = _end_within(data, position, _CHUNK_HEADER)
        header = _without_block_headers(data, position, body_start)
        size = int.from_bytes(header[8:16], "little")
        count = int.from_bytes(header[25:32], "little")
        body_end = _end_within(data, position, _CHUNK_HEADER + size)
        body = _without_block_headers(data, body_start, body_end)
        end = max(body_end, _next_boundary(position + count))
        yield _Chunk(position, header, body, body_end, end)
        position = end


def _end_within(data: memoryview, position: int, size: int) -> int:
    """Return the end of so many bytes of a chunk, block headers within not counted; it must lie within the file."""
    end = position + size + (size + (position + _USABLE - 1) % _BLOCK) // _USABLE * _BLOCK_HEADER
    if end > len(data):
        raise DamagedEntry(
            f"the Riegeli chunk at byte {position} reaches {end - len(data)} bytes past the end of the file"
        )
    return end


def _next_boundary(position: int) -> int:
    """Return the next position at which a chunk may end: not inside or right behind a block header."""
    remaining = _BLOCK - 1 - (position + _BLOCK - 1) % _BLOCK
    return position + max(0, remaining - (_USABLE - 1))


def _without_block_headers(data: memoryview, position: int, end: int) -> memoryview:
    """Return the bytes from a position to an end without the block headers between."""
    parts = []
    while position < end:
        if position % _BLOCK == 0:
            position += _BLOCK_HEADER
        part = data[position : min(end, position - position % _BLOCK + _BLOCK)]
        parts.append(part)
        position += len(part)
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def _simple_records(body: memoryview, count: int, decoded: int) -> list[memoryview] | None:
    if not body:
        raise DamagedEntry("a chunk of records without data")
    length, start = read_varint(body, 1)
    sizes = _decode(body[0], body[start : start + length], limit=10 * count)
    values = _decode(body[0], body[start + length :], limit=decoded)
    if sizes is None or values is None:
        return None
    lengths = read_varints(sizes)
    if len(lengths) != count or sum(lengths) != len(values) or len(values) != decoded:
        raise DamagedEntry("a chunk whose records have not the sizes it declares")
    records = []
    position = 0
    for length in lengths:
        records.append(values[position : position + length])
        position += length
    return records


def _decode(codec: int, data: memoryview, *, limit: int) -> memoryview | None:
    if codec == _UNCOMPRESSED:
        return data
    if codec not in {_SNAPPY, _ZSTD}:
        return None
    size, start = read_varint(data, 0)
    if size > limit:
        raise DamagedEntry(f"{size} bytes where at most {limit} are declared")
    if codec == _SNAPPY:
        return memoryview(decompress_snappy(data[start:], limit=size))
    return memoryview(decompress_zstd(data[start:], limit=size))
