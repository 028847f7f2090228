"""Snappy streams are decoded, and malformed ones are damage."""

import tracemalloc

import pytest

from jcache.errors import DamagedEntry
from jcache.formats.snappy import decompress_snappy
from tests.helpers.jax_entries import varint


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"\x05" + b"\x10" + b"hello", b"hello"),
        (b"\x0a" + b"\x04ab" + bytes([0b10001, 2]), b"ab" * 5),  # a copy of 8 from 2 back, overlapping itself
        (b"\x08" + b"\x0cabcd" + bytes([0b1110, 4, 0]), b"abcdabcd"),
        (b"\x08" + b"\x0cabcd" + bytes([0b1111, 4, 0, 0, 0]), b"abcdabcd"),
        (varint(100) + bytes([60 << 2, 99]) + b"x" * 100, b"x" * 100),
        (b"\x00", b""),
    ],
)
def test_snappy_elements(stream: bytes, expected: bytes) -> None:
    """Literals and copies of each width, and copies that overlap their own output, are decoded."""
    assert decompress_snappy(memoryview(stream), limit=1000) == expected


@pytest.mark.parametrize(
    "stream",
    [
        b"", b"\x05\x10hell", b"\x06\x10hello", b"\x04\x10hello", b"\x04\x01\x01", b"\x04\x00a\x01",
        b"\x04\x00a\x01\x05", b"\x04\x00a\x01\x00", b"\xff\xff\x03\x00a", b"\x05\xf0",
    ],
)  # fmt: skip
def test_malformed_snappy_is_refused(stream: bytes) -> None:
    """Cut streams, wrong lengths and copies from before the beginning are damage."""
    with pytest.raises(DamagedEntry):
        decompress_snappy(memoryview(stream), limit=1 << 20)


def test_snappy_bombs_are_refused_in_bounded_memory() -> None:
    """A stream that declares gigabytes is refused before it is decoded."""
    tracemalloc.start()
    with pytest.raises(DamagedEntry):
        decompress_snappy(memoryview(varint(1 << 31) + b"\x00a"), limit=1 << 40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
