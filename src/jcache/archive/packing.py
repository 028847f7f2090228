"""Bytes into a zstd stream: as they are where they are compressed already, as small as can be where that is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

from jcache.archive.zstd_frames import (
    BLOCK,
    STORED,
    STORED_FRAME,
    WINDOW,
    skippable,
    stored_block,
    stored_head,
    stored_place,
    stored_views,
    widen,
)

if TYPE_CHECKING:
    import zstandard

_RATIO: Final = 500  # half of what a reader takes, in the archive module
_SLACK: Final = 16 << 20
_SAMPLE: Final = 2 << 10  # of each block
_GAIN: Final = 0.9  # what a sample must shrink to, to be worth the work
_USUAL: Final = 3
_FEW: Final = 256 << 20  # bytes of entries for which the smallest archive is worth the time
_WINDOW_LOG: Final = WINDOW.bit_length() - 1


class Packer:
    """Writes zstd frames to a stream.

    Attributes:
        content: bytes taken so far.
        written: bytes given to the stream so far.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.content = self.written = 0
        self._stream = stream
        widen(stream)

    def write(self, data: bytes | memoryview) -> None:
        """Takes more bytes."""
        raise NotImplementedError

    def close(self) -> None:
        """Writes all that was taken; the stream is flushed and stays open."""
        raise NotImplementedError

    def _emit(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        self.written += len(view)
        while view:
            view = view[self._stream.write(view) or 0 :]

    @property
    def _is_too_light(self) -> bool:
        """Whether a reader might take this for a bomb."""
        return self.content > _SLACK + _RATIO * self.written

    def _weigh_down(self) -> None:
        """Fills up between two frames, for no reader believes that so much comes out of so little."""
        self._emit(skippable(max(0, self.content // _RATIO - self.written)))


class Storing(Packer):
    """For what is mostly compressed already: frames of 1 MiB, stored unless a sample shrinks."""

    def __init__(self, stream: BinaryIO) -> None:
        import zstandard

        super().__init__(stream)
        self._frame = memoryview(bytearray(STORED_FRAME))
        self._filled = 0
        self._sampler = zstandard.ZstdCompressor(level=1)
        self._compressor = zstandard.ZstdCompressor(level=_USUAL, write_checksum=True)

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        self.content += len(view)
        while view:
            length = min(len(view), BLOCK - self._filled % BLOCK)
            start = stored_place(self._filled)
            self._frame[start : start + length] = view[:length]
            self._filled += length
            view = view[length:]
            if self._filled == STORED:
                self._flush()

    def close(self) -> None:
        self._flush()
        self._stream.flush()

    def _flush(self) -> None:
        size, self._filled = self._filled, 0
        views = list(stored_views(self._frame, 0, size))
        sample = b"".join(view[len(view) // 2 :][:_SAMPLE] for view in views)
        if len(self._sampler.compress(sample)) < _GAIN * len(sample):
            self._emit(self._compressor.compress(b"".join(views)))
        elif size:
            self._emit(self._stored(size))
        if self._is_too_light:
            self._weigh_down()

    def _stored(self, size: int) -> memoryview:
        head = stored_head(size)
        self._frame[: len(head)] = head
        for at in range(0, size, BLOCK):
            start = stored_place(at)
            self._frame[start - 3 : start] = stored_block(size, at)
        return self._frame[: stored_place(size - 1) + 1]


class Squeezing(Packer):
    """For what is to become small: one frame of one window, given in pieces of 1 MiB."""

    def __init__(self, stream: BinaryIO, compressor: zstandard.ZstdCompressor) -> None:
        super().__init__(stream)
        self._compressor = compressor
        self._open = compressor.compressobj()
        self._pending = bytearray()

    def write(self, data: bytes | memoryview) -> None:
        self.content += len(data)
        if len(self._pending) + len(data) < STORED:
            self._pending += data
            return
        view = memoryview(data)
        while view:
            length = STORED - len(self._pending)
            self._pending += view[:length]
            view = view[length:]
            if len(self._pending) == STORED:
                self._compress()

    def close(self) -> None:
        self._compress()
        self._emit(self._open.flush())
        self._stream.flush()

    def _compress(self) -> None:
        self._emit(self._open.compress(self._pending))
        self._pending = bytearray()
        if self._is_too_light:
            self._emit(self._open.flush())
            self._weigh_down()
            self._open = self._compressor.compressobj()


def usual(level: int) -> zstandard.ZstdCompressor:
    """A compressor of a level, as anybody would use it."""
    import zstandard

    return zstandard.ZstdCompressor(level=level, write_checksum=True)


def solid(level: int | None, stored_bytes: int) -> zstandard.ZstdCompressor:
    """A compressor that finds what entries share within a window.

    Of the executables of a transformer with 12 and with 24 layers, level 9 leaves 0.86 of a tar; the setting for a few
    leaves 0.58, and that for many 0.64 in a third of its time: what counts is that long matches are weighed against
    each other, which a target length of 64 does not do. Long distances serve what is beyond the tables.
    """
    import zstandard

    if level is not None:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            level, window_log=_WINDOW_LOG, enable_ldm=True, ldm_min_match=512, write_checksum=True
        )
    else:
        are_few = stored_bytes <= _FEW
        parameters = zstandard.ZstdCompressionParameters.from_level(
            18, strategy=zstandard.STRATEGY_BTULTRA if are_few else zstandard.STRATEGY_BTOPT,
            search_log=4 if are_few else 2, min_match=3, target_length=256, hash_log=22, chain_log=24,
            window_log=_WINDOW_LOG, enable_ldm=True, write_checksum=True,
        )  # fmt: skip
    return zstandard.ZstdCompressor(compression_params=parameters)
