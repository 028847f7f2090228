"""Writers of zstd streams: fast ones that store compressed content as it is, and ones that compress everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

from jcache.shipping.archive.zstd_frames import (
    BLOCK_BYTES,
    MAX_STORED_BYTES,
    MAX_WINDOW_BYTES,
    skippable_frame,
    stored_frame,
)

if TYPE_CHECKING:
    import zstandard

_MAX_RATIO: Final = 500  # half of the reader's MAX_RATIO
_FREE_CONTENT_BYTES: Final = 16 << 20
_SAMPLE_BYTES: Final = 2 << 10  # of each block
_MIN_SAMPLED_BYTES: Final = 64 << 10  # a smaller frame is stored without a sample
_SAMPLE_LEVEL: Final = -5
_MAX_SAMPLE_RATIO: Final = 0.75  # a sample must shrink below it for a frame to be compressed; headers alone do not
_DEFAULT_LEVEL: Final = 3
_WINDOW_LOG: Final = MAX_WINDOW_BYTES.bit_length() - 1


class FrameWriter:
    """Writes zstd frames to a stream.

    Attributes:
        content: bytes taken so far.
        written: bytes given to the stream so far.
    """

    def __init__(self, stream: BinaryIO) -> None:
        """Write to a stream, whose ``writelines`` must write all bytes."""
        self.content = self.written = 0
        self._stream = stream
        self._pending = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        """Take more bytes."""
        self.content += len(data)
        if len(self._pending) + len(data) < MAX_STORED_BYTES:
            self._pending += data
            return
        view = memoryview(data)
        while len(self._pending) + len(view) >= MAX_STORED_BYTES:
            length = MAX_STORED_BYTES - len(self._pending)
            self._pending += view[:length]
            view = view[length:]
            self._flush()
        self._pending += view

    def write_large(self, data: memoryview, *, is_compressed: bool) -> None:
        """Take a large piece, which gets frames of its own if that avoids a copy.

        Args:
            data: the piece.
            is_compressed: whether it is known not to shrink.
        """
        del is_compressed
        self.write(data)

    def close(self) -> None:
        """Write everything that was taken; flush the stream and leave it open."""
        raise NotImplementedError

    def _flush(self) -> None:
        """Write the pending bytes, if there are any."""
        raise NotImplementedError

    def _emit(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._stream.writelines(pieces)
        self.written += sum(map(len, pieces))

    @property
    def _is_ratio_too_high(self) -> bool:
        """Whether a reader might take the stream for a decompression bomb."""
        return self.content > _FREE_CONTENT_BYTES + _MAX_RATIO * self.written

    def _pad(self) -> None:
        """Write a skippable frame between two frames, never after the last, if the ratio is too high for readers."""
        if self._is_ratio_too_high:
            self._emit([skippable_frame(self.content // _MAX_RATIO - self.written)])


class StoringFrameWriter(FrameWriter):
    """Writes content that is mostly compressed already: frames of 1 MiB at most, stored unless a sample shrinks."""

    def __init__(self, stream: BinaryIO) -> None:
        import zstandard

        super().__init__(stream)
        self._sampler = zstandard.ZstdCompressor(level=_SAMPLE_LEVEL)
        self._compressor = zstandard.ZstdCompressor(level=_DEFAULT_LEVEL, write_checksum=True)

    def write_large(self, data: memoryview, *, is_compressed: bool) -> None:
        pieces = self._taken()
        for start in range(0, len(data), MAX_STORED_BYTES):
            piece = data[start : start + MAX_STORED_BYTES]
            self._emit([*pieces, *self._frame(piece, is_compressed=is_compressed)])
            self.content += len(piece)
            self._pad()  # before the next one: a reader counts only what it has received
            pieces = ()

    def close(self) -> None:
        self._pad()
        self._emit(self._taken())
        self._stream.flush()

    def _flush(self) -> None:
        self._emit(self._taken())
        self._pad()

    def _taken(self) -> Sequence[bytes | memoryview]:
        """Return the frame of the pending bytes, and forget these."""
        content, self._pending = self._pending, bytearray()
        return self._frame(memoryview(content)) if content else ()

    def _frame(self, content: memoryview, *, is_compressed: bool = False) -> Sequence[bytes | memoryview]:
        if len(content) >= _MIN_SAMPLED_BYTES and not is_compressed:
            middles = range(min(len(content), BLOCK_BYTES) // 2, len(content), BLOCK_BYTES)
            sample = b"".join(content[at : at + _SAMPLE_BYTES] for at in middles)
            if len(self._sampler.compress(sample)) < _MAX_SAMPLE_RATIO * len(sample):
                return [self._compressor.compress(content)]
        return stored_frame(content)


class CompressingFrameWriter(FrameWriter):
    """Compresses everything: one frame of one window, written in pieces of 1 MiB."""

    def __init__(self, stream: BinaryIO, compressor: zstandard.ZstdCompressor) -> None:
        super().__init__(stream)
        self._compressor = compressor
        self._open = compressor.compressobj()

    def close(self) -> None:
        self._pad()
        self._emit([self._open.compress(self._pending), self._open.flush()])
        self._stream.flush()

    def _flush(self) -> None:
        self._emit([self._open.compress(self._pending)])
        self._pending = bytearray()
        self._pad()

    def _pad(self) -> None:
        if self._is_ratio_too_high:
            self._emit([self._open.flush()])
            super()._pad()
            self._open = self._compressor.compressobj()


def level_compressor(level: int) -> zstandard.ZstdCompressor:
    """Return a compressor with zstd's own parameters of a level."""
    import zstandard

    return zstandard.ZstdCompressor(level=level, write_checksum=True)


def solid_compressor(level: int | None) -> zstandard.ZstdCompressor:
    """Return a compressor that finds the content that entries share within a window, in 300 MiB of memory.

    The executables of a transformer with 12 and with 24 layers shrink to 0.86 of their tar at level 9, and to 0.58 with
    this setting. It compares long matches with each other, which a target length of 64 does not do. Long-distance
    matching finds matches beyond the tables.
    """
    import zstandard

    if level is not None:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            level, window_log=_WINDOW_LOG, enable_ldm=True, ldm_min_match=512, write_checksum=True
        )
    else:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            18, strategy=zstandard.STRATEGY_BTULTRA, search_log=3, min_match=3, target_length=256, hash_log=22,
            chain_log=24, window_log=_WINDOW_LOG, enable_ldm=True, write_checksum=True,
        )  # fmt: skip
    return zstandard.ZstdCompressor(compression_params=parameters)
