"""Every byte of a Riegeli file is covered by a hash, or has a value that the format prescribes.
`test_inspection` tests reading.
"""

import random
import tracemalloc
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from jcache.errors import DamagedEntry
from jcache.formats import riegeli
from jcache.formats.executable import unpack_executable
from jcache.formats.highwayhash import highwayhash64
from jcache.formats.inspection import split_metadata
from tests.helpers.jax_entries import H200, h200_entry

BLOCK = 1 << 16
KEY = (0x2F696C6567656952, 0x0A7364726F636572, 0x2F696C6567656952, 0x0A7364726F636572)


def body(entry: bytes) -> memoryview:
    return split_metadata(memoryview(unpack_executable(entry).payload))[1]


def number(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "little")


def hashed(data: bytes) -> bytes:
    return number(highwayhash64(data, KEY)) + data


def chunk(start: int, kind: str, count: int, data: bytes) -> bytes:
    """A chunk as Riegeli writes it at a place of the file: header, data and padding, with the block headers within."""
    data_hash = number(highwayhash64(data, KEY))
    content = hashed(number(len(data)) + data_hash + kind.encode() + number(count, 7) + number(0)) + data
    out, block_headers = bytearray(), []
    while content or len(out) < count or 0 < (start + len(out)) % BLOCK <= 24:
        if (start + len(out)) % BLOCK == 0:
            block_headers.append(len(out))
            out += bytes(24)
        room = BLOCK - (start + len(out)) % BLOCK
        out += content[:room] or b"\0"
        content = content[room:]
    for place in block_headers:
        out[place : place + 24] = hashed(number(place) + number(len(out) - place))
    return bytes(out)


def riegeli_file(*chunks: tuple[str, int, bytes]) -> bytes:
    file = chunk(0, "s", 0, b"")
    for parts in chunks:
        file += chunk(len(file), *parts)
    return file


def flipped(data: bytes | memoryview, bit: int) -> memoryview:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return memoryview(changed)


def is_whole(data: bytes | memoryview) -> bool:
    try:
        riegeli.check_hashes(memoryview(data))
    except DamagedEntry:
        return False
    return True


# Real entries


@pytest.mark.parametrize("path", sorted(H200.glob("*-cache")), ids=lambda path: path.name[:20])
def test_real_entries_are_whole(path: Path) -> None:
    """A real entry of a GPU has the right hashes."""
    riegeli.check_hashes(body(path.read_bytes()))


def test_flips_in_the_headers_of_a_real_entry() -> None:
    """Every flipped bit of the block header, the signature and the records' header is found."""
    data = body(h200_entry("jit_stage"))
    assert [bit for bit in range(8 * (24 + 40 + 40)) if is_whole(flipped(data, bit))] == []


@pytest.mark.parametrize("name", ["jit_stage", "jit_bitwise_or"])
def test_flips_anywhere_in_a_real_entry(name: str) -> None:
    """Every flipped bit of the compressed records is found, down to the last byte."""
    data = body(h200_entry(name))
    bits = [*random.Random(name).sample(range(8 * len(data)), 400), *range(8 * len(data) - 8, 8 * len(data))]
    assert [bit for bit in bits if is_whole(flipped(data, bit))] == []


def test_the_message_names_the_chunk() -> None:
    """The message names a damaged chunk by its first byte, and the fault."""
    data = body(h200_entry("jit_stage"))
    with pytest.raises(DamagedEntry, match="chunk at byte 64: its data do not match"):
        riegeli.check_hashes(flipped(data, 8 * 200))
    with pytest.raises(DamagedEntry, match="chunk at byte 64: its header does not match"):
        riegeli.check_hashes(flipped(data, 8 * 64))
    long = riegeli_file(("r", 100_000, b"abc"))
    with pytest.raises(DamagedEntry, match="chunk at byte 64: the block header at byte 65536"):
        riegeli.check_hashes(flipped(long, 8 * BLOCK))
    with pytest.raises(DamagedEntry, match="chunk at byte 64: its padding is not zeros"):
        riegeli.check_hashes(flipped(long, 8 * len(long) - 1))
    with pytest.raises(DamagedEntry, match="no Riegeli signature"):
        riegeli.check_hashes(flipped(long, 0))


# Files of several blocks


FILES = {
    "one block header in the data": [("r", 1, b"a" * 70_000)],
    "two, and another chunk behind": [("r", 2, b"a" * 150_000), ("t", 9, b"b" * 100)],
    "one in a chunk's header": [("p", 0, bytes(65_536 - 64 - 40 - 10)), ("r", 1, b"abc")],
    "one right before a chunk": [("p", 0, bytes(65_536 - 64 - 40)), ("r", 1, b"abc")],
    "in the padding after many records": [("r", 200_000, b"abc"), ("m", 0, b"metadata")],
    "padding that ends at a block": [("r", 65_536 - 64, b"abc"), ("r", 1, b"")],
    "padding since no chunk starts behind a block header": [("r", 65_536 - 64 + 20, b"a"), ("r", 1, b"abc")],
}


@pytest.mark.parametrize("chunks", FILES.values(), ids=FILES.keys())
def test_block_headers_and_padding(chunks: list[tuple[str, int, bytes]]) -> None:
    """Files of several blocks are sound, and every flipped bit in them is found."""
    data = riegeli_file(*chunks)
    riegeli.check_hashes(memoryview(data))
    edges = [place for edge in range(0, len(data), BLOCK) for place in range(edge - 10, edge + 70)]
    bits = [8 * place + place % 8 for place in edges if 0 <= place < len(data)]
    bits = random.Random(0).sample(bits, min(40, len(bits))) + random.Random(0).sample(range(8 * len(data)), 20)
    assert [bit for bit in bits if is_whole(flipped(data, bit))] == []


@pytest.mark.full
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_file_is_whole_until_a_bit_flips(data: st.DataObject) -> None:
    """Chunks of any size, kind and number of records are whole, and damaged once any bit is flipped."""
    size = st.integers(0, 100) | st.integers(BLOCK - 200, BLOCK + 100)
    parts = st.tuples(st.sampled_from("rtmp"), size, size.map(lambda size: bytes(size % 7) + b"x" * (size - size % 7)))
    file = riegeli_file(*data.draw(st.lists(parts, max_size=4)))
    assert is_whole(file)
    assert not is_whole(flipped(file, data.draw(st.integers(0, 8 * len(file) - 1))))


def test_a_file_cut_within_a_chunk_is_damaged() -> None:
    """A cut is noticed wherever it is, in padding too, unless it is exactly between two chunks."""
    chunks = [("r", 2, b"ab"), ("r", 300, b"cd"), ("p", 0, b"\0")]
    file = riegeli_file(*chunks)
    ends = list(accumulate([64, *(max(40 + len(data), count) for _, count, data in chunks)]))
    assert [end for end in range(len(file) + 1) if is_whole(file[:end])] == ends


# Malformed files


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_arbitrary_bytes_are_damage_and_nothing_worse(data: bytes, signed: bool) -> None:
    """Bytes that are no Riegeli file, with its signature or without, raise nothing but DamagedEntry."""
    assert not is_whole((bytes(riegeli_file()) if signed else b"") + data) or (signed and not data)


@pytest.mark.parametrize("field", [slice(8, 16), slice(25, 32)])
def test_enormous_sizes_cost_nothing(field: slice) -> None:
    """A chunk that claims exabytes, of data or of records, with a matching hash, is refused in bounded memory."""
    header = bytearray(hashed(number(0) + number(highwayhash64(b"", KEY)) + b"r" + bytes(15)))
    header[field] = b"\xff" * len(header[field])
    tracemalloc.start()
    assert not is_whole(riegeli_file() + hashed(bytes(header[8:])))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
