"""Frames of zstd that jcache writes and parses without the library are those of the library."""

import random

import pytest
import zstandard

from jcache.shipping.archive import zstd_frames as frames

CONTENT = random.Random(3).randbytes(frames.MAX_STORED_BYTES)
SIZES = (0, 1, 255, 256, frames.BLOCK_BYTES - 1, frames.BLOCK_BYTES, frames.BLOCK_BYTES + 1, len(CONTENT))


@pytest.mark.parametrize("size", SIZES)
def test_the_library_reads_stored_frames(size: int) -> None:
    """Content of any size comes back, the frame declares it, and its pieces share the memory of the content."""
    content = memoryview(CONTENT)[:size]
    pieces = frames.stored_frame(content)
    frame = b"".join(pieces)
    assert zstandard.get_frame_parameters(frame).content_size == size
    assert zstandard.ZstdDecompressor().decompress(frame, max_output_size=size or 1) == content
    assert sum(piece.nbytes for piece in pieces if isinstance(piece, memoryview)) == size
    assert frame[4:5] == frames.STORED_DESCRIPTOR and not frames.has_checksum(frame[4])


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("size", [0, 100, 300, 70_000])
def test_headers_of_the_librarys_frames_are_understood(size: int, declared: bool, checksum: bool) -> None:
    """Where the first block begins, and whether a checksum follows, is told by the descriptor alone."""
    compressor = zstandard.ZstdCompressor(write_content_size=declared, write_checksum=checksum)
    frame = compressor.compress(CONTENT[:size])
    assert frame[:4] == frames.MAGIC and frames.has_checksum(frame[4]) is checksum
    assert 5 + frames.header_length(frame[4]) == zstandard.frame_header_size(frame)


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_skippable_frames_are_skipped(size: int) -> None:
    """The library passes over them, and they are told from frames with content."""
    frame = frames.skippable_frame(size)
    assert frames.is_skippable(frame[:4]) and not frames.is_skippable(frames.MAGIC) and len(frame) == 8 + size
    assert frames.is_skippable(b"\x5f" + frames.SKIPPABLE_MAGIC_END)
    assert not frames.is_skippable(b"\x60" + frames.SKIPPABLE_MAGIC_END)
    both = frame + zstandard.ZstdCompressor().compress(b"content")
    assert zstandard.ZstdDecompressor().stream_reader(both, read_across_frames=True).read() == b"content"
