"""Bytes into a zstd stream: as they are where they are compressed already, as small as can be where that is wanted."""

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

_MAX_RATIO: Final = 500  # half of what a reader takes, in the archive module
_FREE_CONTENT_BYTES: Final = 16 << 20
_SAMPLE_BYTES: Final = 2 << 10  # of each block
_MIN_SAMPLED_BYTES: Final = 64 << 10  # bytes; a frame of less is stored without a sample
_SAMPLE_LEVEL: Final = -5
_MAX_SAMPLE_RATIO: Final = 0.95  # what a sample must shrink to, to be worth the work
_DEFAULT_LEVEL: Final = 3
_WINDOW_LOG: Final = MAX_WINDOW_BYTES.bit_length() - 1


class FrameWriter:
    """Writes zstd frames to a stream.

    Attributes:
        content: bytes taken so far.
        written: bytes given to the stream so far.
    """

    def __init__(self, stream: BinaryIO) -> None:
        """The stream takes all that it is given."""
        self.content = self.written = 0
        self._stream = stream
        self._pending = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        """Takes more bytes."""
        view = memoryview(data)
        self.content += len(view)
        while len(self._pending) + len(view) >= MAX_STORED_BYTES:
            length = MAX_STORED_BYTES - len(self._pending)
            self._pending += view[:length]
            view = view[length:]
            self._flush()
        self._pending += view

    def write_large(self, data: memoryview, *, is_compressed: bool) -> None:
        """Takes a large piece, which gets frames of its own where that spares copying it.

        Args:
            data: the piece.
            is_compressed: whether it is known that it does not shrink.
        """
        del is_compressed
        self.write(data)

    def close(self) -> None:
        """Writes all that was taken; the stream is flushed and stays open."""
        raise NotImplementedError

    def _flush(self) -> None:
        """Writes what is pending, if anything is."""
        raise NotImplementedError

    def _emit(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._stream.writelines(pieces)
        self.written += sum(map(len, pieces))

    @property
    def _is_too_light(self) -> bool:
        """Whether a reader might take this for a bomb."""
        return self.content > _FREE_CONTENT_BYTES + _MAX_RATIO * self.written

    def _weigh_down(self) -> None:
        """Fills up between two frames, never behind the last, if no reader would believe so much out of so little."""
        if self._is_too_light:
            self._emit([skippable_frame(self.content // _MAX_RATIO - self.written)])


class StoringFrameWriter(FrameWriter):
    """For what is mostly compressed already: frames of 1 MiB at most, stored unless a sample shrinks."""

    def __init__(self, stream: BinaryIO) -> None:
        import zstandard

        super().__init__(stream)
        self._sampler = zstandard.ZstdCompressor(level=_SAMPLE_LEVEL)
        self._compressor = zstandard.ZstdCompressor(level=_DEFAULT_LEVEL, write_checksum=True)

    def write_large(self, data: memoryview, *, is_compressed: bool) -> None:
        pieces = self._taken()
        for start in range(0, len(data), MAX_STORED_BYTES):
            self._emit([*pieces, *self._frame(data[start : start + MAX_STORED_BYTES], is_compressed=is_compressed)])
            pieces = ()
        self.content += len(data)
        self._weigh_down()

    def close(self) -> None:
        self._weigh_down()
        self._emit(self._taken())
        self._stream.flush()

    def _flush(self) -> None:
        self._emit(self._taken())
        self._weigh_down()

    def _taken(self) -> Sequence[bytes | memoryview]:
        """The frame of what is pending, which is pending no more."""
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
    """For what is to become small: one frame of one window, given in pieces of 1 MiB."""

    def __init__(self, stream: BinaryIO, compressor: zstandard.ZstdCompressor) -> None:
        super().__init__(stream)
        self._compressor = compressor
        self._open = compressor.compressobj()

    def close(self) -> None:
        self._weigh_down()
        self._emit([self._open.compress(self._pending), self._open.flush()])
        self._stream.flush()

    def _flush(self) -> None:
        self._emit([self._open.compress(self._pending)])
        self._pending = bytearray()
        self._weigh_down()

    def _weigh_down(self) -> None:
        if self._is_too_light:
            self._emit([self._open.flush()])
            super()._weigh_down()
            self._open = self._compressor.compressobj()


def level_compressor(level: int) -> zstandard.ZstdCompressor:
    """A compressor of a level, as anybody would use it."""
    import zstandard

    return zstandard.ZstdCompressor(level=level, write_checksum=True)


def solid_compressor(level: int | None) -> zstandard.ZstdCompressor:
    """A compressor that finds what entries share within a window, in 250 MiB of memory.

    Of the executables of a transformer with 12 and with 24 layers, level 9 leaves 0.86 of a tar, and this setting 0.58:
    what counts is that long matches are weighed against each other, which a target length of 64 does not do. Long
    distances serve what is beyond the tables.
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
