"""A decompressed stream gives the bytes that were compressed, or is refused: jcache's frames, zstd's and torn ones."""

import gzip
import io
import random

import pytest
import zstandard

from jcache.errors import BadArchive
from jcache.shipping.archive.compress import (
    CompressingFrameWriter,
    FrameWriter,
    StoringFrameWriter,
    level_compressor,
    solid_compressor,
)
from jcache.shipping.archive.decompress import DecompressedStream

BLOCK, STORED = 128 << 10, 1 << 20
NOISE = random.Random(7).randbytes(STORED * 2 + 5000)
SIZES = (0, 1, 255, 256, BLOCK - 1, BLOCK, BLOCK + 1, STORED - 1, STORED, STORED + 1, 2 * STORED + 5000)


def unpacked(data: bytes, piece: int = 50_000) -> bytes:
    """Return the whole content, read in pieces."""
    stream = DecompressedStream(io.BytesIO(data), name="a.zst", ratio=1000)
    pieces = []
    while found := stream.read(piece):
        pieces.append(found)
    assert stream.received == len(data)
    return b"".join(pieces)


def packed(kind: type[FrameWriter] | None, content: bytes, piece: int) -> bytes:
    stream = io.BytesIO()
    packer = (
        StoringFrameWriter(stream)
        if kind is StoringFrameWriter
        else CompressingFrameWriter(
            stream, solid_compressor(3) if kind is CompressingFrameWriter else level_compressor(1)
        )
    )
    for start in range(0, len(content), piece):
        packer.write(content[start : start + piece])
    packer.close()
    assert packer.content == len(content)
    assert packer.written == len(stream.getvalue())
    return stream.getvalue()


def contents(size: int) -> dict[str, bytes]:
    return {
        "noise": NOISE[:size],
        "text": (b"all work and no play " * (size // 20 + 1))[:size],
        "both": NOISE[: size // 2] + bytes(size - size // 2),
        "other": bytes(size // 2) + NOISE[: size - size // 2],
    }


def test_what_is_read_is_not_written_over() -> None:
    """A piece that was read keeps its bytes while others are read; bytes read into memory follow it."""
    content = random.Random(8).randbytes(6 * STORED)
    stream = DecompressedStream(io.BytesIO(packed(StoringFrameWriter, content, STORED)), name="a.zst", ratio=1000)
    held, at = [], 0
    while piece := stream.read(70_000):
        held.append(piece)
        memory = memoryview(bytearray(70_000))
        count = stream.readinto(memory)
        at += len(piece)
        assert memory[:count] == content[at : at + count]
        held.append(bytes(memory[:count]))
        at += count
    assert b"".join(held) == content


@pytest.mark.full
@pytest.mark.parametrize("size", SIZES)
def test_frames_of_the_library_are_unpacked(size: int) -> None:
    """Frames of the library are read even if they begin like stored ones."""
    for content in contents(size).values():
        for level in (1, 3, 19) if size < STORED else (1,):
            for sized, checked in ((True, False), (True, True), (False, False)):
                maker = zstandard.ZstdCompressor(level=level, write_checksum=checked, write_content_size=sized)
                data = maker.compress(content)
                assert unpacked(data) == content
                assert unpacked(data * 2) == content * 2
        assert unpacked(gzip.compress(content, 1)) == content


@pytest.mark.parametrize("size", [300, BLOCK + 1, STORED])
def test_torn_and_extended_streams_are_refused(size: int) -> None:
    """A stream that ends early at any byte, or has other data after it, is refused."""
    for content in contents(size).values():
        for data in (packed(StoringFrameWriter, content, 1 << 20), zstandard.compress(content), gzip.compress(content)):
            for length in {*range(1, min(len(data), 20)), len(data) // 2, *range(len(data) - 20, len(data))}:
                if data[:length][:4] in {zstandard.FRAME_HEADER, b"\x1f\x8b\x08\x00"}:
                    with pytest.raises(BadArchive):
                        unpacked(data[:length])
            with pytest.raises(BadArchive):
                unpacked(data + b"more")


def test_damaged_frames_are_refused_or_read() -> None:
    """With any bits flipped, the result is an error in words, or content no larger than the original."""
    chance = random.Random(3)
    for content in contents(BLOCK + 5000).values():
        for data in (packed(StoringFrameWriter, content, 1 << 20), zstandard.compress(content)):
            for _ in range(100):
                changed = bytearray(data)
                place = chance.randrange(len(data) if chance.random() < 0.5 else min(len(data), 40))
                changed[place] ^= 1 << chance.randrange(8)
                try:
                    found = unpacked(bytes(changed))
                except BadArchive as error:
                    found = str(error).encode()
                assert len(found) < 4 * BLOCK


def test_a_read_error_is_said_in_words() -> None:
    """A disk or a network that fails in the middle is the archive's error, with the system's reason."""

    class Failing(io.BytesIO):
        def readinto(self, buffer: object) -> int:
            raise OSError(5, "Input/output error")

        read1 = read = readinto  # type: ignore[assignment]

    with pytest.raises(BadArchive, match=r"Cannot read a\.zst: Input/output error"):
        DecompressedStream(Failing(b"x"), name="a.zst", ratio=10)
