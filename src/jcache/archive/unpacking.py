"""The bytes inside a compressed stream that anybody may have made: whole, within bounds, and nothing behind them.

A zstd decompressor neither tells that its input ended in the middle of a frame, nor stops at a thousand million empty
blocks. So the blocks are walked on their way to it, and stored ones do not go there at all (`zstd_frames`).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final, Protocol, cast

from jcache.archive import gunzipping
from jcache.archive import zstd_frames as frames
from jcache.archive.byte_stream import PIECE, Budget, Source, truncated
from jcache.errors import BadArchive

SLACK: Final = 64 << 20  # content that is not held against any ratio
_OTHERS: Final = {b"BZh": "bzip2", b"\xfd7z": "xz", b"PK\x03": "zip", b"7z\xbc": "7-zip", b"\x04\x22\x4d": "lz4"}
_LENT: Final = 64  # frames of 1 MiB; twice what an import has waiting to be written
_GZIP_RATIO: Final = 200  # it cannot reach more than 1032, which zeros do


class _Stream(Protocol):
    def some(self, size: int) -> bytes | memoryview:
        """At least one byte and at most so many; none at the end only."""


class Unpacked:
    """What a stream holds, whether it is zstd, gzip or neither.

    Attributes:
        name: of the archive, for messages.
        content: bytes handed out so far.
        ratio: how many times as much as was received may come out, beyond `SLACK`.
    """

    def __init__(self, stream: BinaryIO, *, name: str, ratio: int) -> None:
        self.name = name
        self.ratio = ratio
        self.content = 0
        self._source = Source(stream, name)
        self._stream = self._opened()
        self._held = b""

    @property
    def received(self) -> int:
        """Bytes taken from the stream so far."""
        return self._source.received

    def read(self, size: int) -> bytes:
        """The next bytes, just as many as asked for; fewer at the end only.

        Raises:
            BadArchive: the stream is torn, or holds more than its size allows.
        """
        data = self.some(size)
        if len(data) == size or not data:
            return bytes(data)
        pieces, length = [data], len(data)
        while length < size and (data := self.some(size - length)):
            pieces.append(data)
            length += len(data)
        return b"".join(pieces)

    def peek(self, size: int) -> bytes:
        """The same, and they stay."""
        data = self.read(size)
        self._held = data + self._held
        self.content -= len(data)
        return data

    def some(self, size: int) -> bytes | memoryview:
        """At least one of the next bytes and at most so many, where they lie; none at the end only.

        Raises:
            BadArchive: as of `read`.
        """
        data: bytes | memoryview
        if self._held:
            data, self._held = self._held[:size], self._held[size:]
        else:
            data = self._decompressed(min(size, PIECE))
        self.content += len(data)
        if self.content > SLACK + self.ratio * self._source.received:
            raise BadArchive(
                f"Refused {self.name}: {self.received} bytes of it claim to hold more than {self.content}, which is "
                f"over {self.ratio} times as much."
            )
        return data

    def _decompressed(self, size: int) -> bytes | memoryview:
        import zstandard

        try:
            return self._stream.some(size)
        except (zstandard.ZstdError, zlib.error, MemoryError) as error:
            raise BadArchive(f"{self.name} is damaged: {error} (near byte {self.received}).") from error

    def _opened(self) -> _Stream:
        magic = self._source.peek(4)
        if magic == frames.MAGIC or frames.is_skippable(magic):
            return _Zstd(self._source, lambda: self.content)
        if magic[:2] == gunzipping.MAGIC:
            self.ratio = min(self.ratio, _GZIP_RATIO)
            return gunzipping.Gunzipped(self._source, lambda: self.content)
        if other := _OTHERS.get(magic[:3]):
            raise BadArchive(f"{self.name} is {other}, which is not read: unpack it and give the tar inside.")
        return self._source


class _Zstd:
    """The content of zstd frames, one after the other up to the end."""

    def __init__(self, source: Source, content: Callable[[], int]) -> None:
        import zstandard

        self._source = source
        self._budget = Budget(source.name, content)
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=frames.WINDOW)
        self._open: zstandard.ZstdDecompressionReader | None = None
        self._frame: _Frame | None = None
        self._stored = memoryview(b"")
        self._at = self._size = 0  # of the content of the stored frame
        self._lent: deque[bytearray] = deque(maxlen=_LENT)

    def some(self, size: int) -> bytes | memoryview:
        """At least one byte and at most so many; none at the end only."""
        while True:
            if self._at < self._size:
                start, self._at = self._at, min(self._size, self._at + size)
                return self._stored[start : self._at]
            if self._open and self._frame:
                if data := self._open.read(size):
                    return data
                self._frame.check_end()
                self._open = None
            if not self._next_frame():
                return b""

    def _next_frame(self) -> bool:
        """Goes on to the next frame; False at the end."""
        magic = self._source.read(4)
        if not magic:
            return False
        self._budget.spend(steps=1)
        if frames.is_skippable(magic):
            self._skip()
        elif magic == frames.MAGIC:
            self._start(self._source.read(1))
        else:
            raise BadArchive(f"{self._source.name} has something else behind its end: {magic.hex(' ')}.")
        return True

    def _skip(self) -> None:
        size = self._source.read(4)
        left = int.from_bytes(size, "little")
        self._budget.spend(skipped=left)
        while left and (data := self._source.some(min(left, PIECE))):
            left -= len(data)
        if left or len(size) < 4:
            raise truncated(self._source.name, self._source.received)

    def _start(self, descriptor: bytes) -> None:
        """Opens a frame: by itself if it turns out to be stored, else for the library, with what was read of it."""
        prefix = frames.MAGIC + descriptor
        if descriptor == frames.STORED_DESCRIPTOR:
            prefix = self._try_stored()
            if not prefix:
                return
        self._frame = _Frame(self._source, self._budget, prefix)
        self._open = self._decompressor.stream_reader(cast("BinaryIO", self._frame), read_size=PIECE)

    def _memory(self, size: int) -> bytearray:
        """Memory for a stored frame: that of an earlier one which nobody holds any more, or else new, and cleared."""
        memory = None
        if self._lent and size == frames.STORED:
            with suppress(BufferError):  # raised while there are views of it
                self._lent[0].append(self._lent[0].pop())
                memory = self._lent.popleft()
        if memory is None:
            memory = bytearray(size + frames.BLOCK_HEADER)
        if size == frames.STORED:
            self._lent.append(memory)
        return memory

    def _try_stored(self) -> bytes:
        """Reads a stored frame; if it is none, what was read of it, which always ends with the header of a block."""
        head = self._source.read(frames.STORED_HEAD - 5 + 3)
        size = int.from_bytes(head[:4], "little")
        prefix = frames.MAGIC + frames.STORED_DESCRIPTOR + head
        if not 0 < size <= frames.STORED or head[4:] != frames.stored_block(size, 0):
            return prefix
        content = memoryview(self._memory(size))
        for at in range(0, size, frames.BLOCK):
            following = min(at + frames.BLOCK, size)
            end = following + frames.BLOCK_HEADER * (following < size)  # to be overwritten by the next block
            if self._source.fill(content[at:end]) < end - at:
                raise truncated(self._source.name, self._source.received)
            if following < size and content[following:end] != frames.stored_block(size, following):
                return prefix + frames.stored_blocks(content, size, following) + bytes(content[following:end])
        self._stored, self._at, self._size = content, 0, size
        return b""


class _Frame:
    """A frame on its way to the library, block by block, and not a byte more."""

    def __init__(self, source: Source, budget: Budget, prefix: bytes) -> None:
        """The prefix is all that was read: up to the descriptor, or to the header of a block."""
        self._source = source
        self._budget = budget
        self._is_over = False
        descriptor = prefix[4] if len(prefix) > 4 else 0
        self._checksum = frames.CHECKSUM * frames.has_checksum(descriptor)
        head = 5 + frames.head_length(descriptor)
        if len(prefix) <= head:
            self._prefix = prefix + source.read(head - len(prefix))
            self._header = b""
        else:
            self._prefix, self._header = prefix[:-3], prefix[-3:]

    def read(self, size: int = -1) -> bytes:
        """The next block with its header; `size` is larger than any."""
        prefix, self._prefix = self._prefix, b""
        if self._is_over:
            return prefix
        header = self._header or self._source.read(3)
        self._header = b""
        self._budget.spend(steps=1)
        number = int.from_bytes(header, "little")
        kind, length = number >> 1 & 3, number >> 3
        if kind == 3:
            raise BadArchive(f"{self._source.name} is damaged: a block of no type near byte {self._source.received}.")
        if kind == 1:
            length = 1
        self._is_over = bool(number & 1)
        length += self._checksum * self._is_over
        body = self._source.read(length)
        if len(header) < 3 or len(body) < length:
            raise truncated(self._source.name, self._source.received)
        return prefix + header + body

    def check_end(self) -> None:
        """Raises BadArchive if the library has stopped before the end."""
        if not self._is_over or self._prefix:
            raise BadArchive(f"{self._source.name} is damaged near byte {self._source.received}.")
