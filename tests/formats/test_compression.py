"""Decompression with a limit: exactly one zstd frame or zlib stream, and no more content than allowed."""

import tracemalloc
import zlib

import pytest
import zstandard

from jcache.errors import DamagedEntry
from jcache.formats.compression import codec_of
from jcache.formats.envelope import Codec
from jcache.formats.executable import unpack_executable
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture


def zstd_stream(content: bytes) -> bytes:
    """A frame that does not declare its content size."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(content) + stream.flush()


def peak_memory(data: bytes, limit: int) -> int:
    """Bytes that Python allocated at most while an entry was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(DamagedEntry):
            unpack_executable(data, limit=limit)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_codec_comes_from_the_magic() -> None:
    """The first bytes name the codec, and bytes that name none are not taken for uncompressed."""
    assert codec_of(b"\x28\xb5\x2f\xfd\x00") is Codec.ZSTD
    assert codec_of(b"\x78\x9c") is Codec.ZLIB
    assert codec_of(b"\x78\x9d") is None
    assert codec_of(b"\x28\xb5\x2f") is None
    assert codec_of(b"") is None
    for data in (b"", b"\x00" * 100, b"\x7fELF"):
        with pytest.raises(DamagedEntry):
            unpack_executable(data)


@pytest.mark.parametrize("pack", [zlib.compress, zstandard.ZstdCompressor().compress, zstd_stream])
@pytest.mark.parametrize("behind", [b"\x00", b"garbage", "again"])
def test_bytes_behind_the_end_are_refused(pack: object, behind: bytes | str) -> None:
    """Anything behind the frame or stream, be it another one, is damage."""
    assert callable(pack)
    data = pack(b"\x00" * 1000)
    with pytest.raises(DamagedEntry):
        unpack_executable(data + (behind if isinstance(behind, bytes) else data))


def test_an_empty_frame_with_bytes_behind_is_refused() -> None:
    """A frame without content is checked to its end as well."""
    empty = zstandard.ZstdCompressor().compress(b"")
    for data in (empty, empty + b"x", empty[:-1]):
        with pytest.raises(DamagedEntry):
            unpack_executable(data)


@pytest.mark.parametrize("delta", [-99_990, -1, 1, 100, 1 << 20])
def test_a_wrong_declared_size_is_refused(delta: int) -> None:
    """A frame whose content is larger or smaller than it declares is damage."""
    data = bytearray(zstandard.ZstdCompressor().compress(b"a" * 100_000))
    assert int.from_bytes(data[5:9], "little") == 100_000
    data[5:9] = (100_000 + delta).to_bytes(4, "little")
    with pytest.raises(DamagedEntry):
        unpack_executable(bytes(data))


def test_frames_without_a_declared_size_are_read() -> None:
    """A frame of unknown content size is read as long as it stays within the limit."""
    content = (9).to_bytes(4, "big") + b"x" * 5_000_000
    data = zstd_stream(content)
    assert unpack_executable(data).payload == content[4:]
    assert unpack_executable(data, limit=len(content)).seconds == 9
    with pytest.raises(DamagedEntry):
        unpack_executable(data, limit=len(content) - 1)


@pytest.mark.full
@pytest.mark.parametrize(
    "pack", [zlib.compress, zstandard.ZstdCompressor().compress, zstd_stream], ids=["zlib", "declared", "undeclared"]
)
def test_bombs_are_refused_in_bounded_memory(pack: object) -> None:
    """Under a limit of 1 MB, an entry with 300 MB of content is refused with a few MB of memory."""
    assert callable(pack)
    assert peak_memory(pack(bytes(300 << 20)), limit=1 << 20) < 8 << 20


def test_an_impossible_declared_size_is_refused_before_it_is_allocated() -> None:
    """A frame of a few bytes that declares gigabytes cannot be true and costs no memory."""
    lie = b"\x28\xb5\x2f\xfd\xe0" + (7 << 30).to_bytes(8, "little") + b"\x01\x00\x00"
    assert peak_memory(lie, limit=8 << 30) < 1 << 20
