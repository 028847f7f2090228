"""Safe decompression of untrusted streams: truncation, trailing data and content out of proportion are errors.

It reads zstd (RFC 8878, see `zstd_frames`), gzip (RFC 1952) and uncompressed streams. The zstd library neither reports
that its input ended in the middle of a frame, nor stops at a thousand million empty blocks. So this module parses the
blocks on their way to the library, and reads stored frames without it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, cast

from jcache.errors import BadArchive
from jcache.shipping.archive import zstd_frames as frames
from jcache.shipping.archive.bounded_source import PIECE_BYTES, Budget, InputStream, damaged_error, truncated_error

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

FREE_CONTENT_BYTES: Final = 64 << 20  # content that no ratio limits
_OTHER_FORMATS: Final = {b"BZh": "bzip2", b"\xfd7z": "xz", b"PK\x03": "zip", b"7z\xbc": "7-zip", b"\x04\x22\x4d": "lz4"}
_BUFFER_BYTES: Final = 32 << 10  # larger members are not copied through the buffer
_GZIP_MAGIC: Final = b"\x1f\x8b"
_MAX_GZIP_RATIO: Final = 200  # gzip reaches 1032 for zeros
_GZIP_INPUT_BYTES: Final = 128 << 10  # the library copies input that it has not used


class _Decoder(Protocol):
    def readinto(self, memory: memoryview, /) -> int:
        """Put the next bytes, at least one, into memory; return how many, 0 only at the end."""


class _RawContent(RawIOBase):
    """Decompressed bytes for a buffer: most members are small, and each piece that is decompressed costs Python."""

    def __init__(self, decode: Callable[[memoryview], int]) -> None:
        self._decode = decode

    def readable(self) -> bool:
        return True

    def readinto(self, memory: WriteableBuffer, /) -> int:
        return self._decode(memoryview(memory))


class DecompressedStream:
    """The decompressed bytes of a stream, whether it is zstd, gzip or neither.

    Attributes:
        name: name of the archive, for messages.
        content: number of bytes decompressed so far.
        ratio: highest ratio of content to received bytes, beyond `FREE_CONTENT_BYTES`.
        read: returns the next bytes, exactly as many as requested; fewer only at the end. Raises BadArchive if the
            stream is torn, or holds more than its size allows.
        readinto: puts the next bytes into memory and returns how many, fewer than fit only at the end; raises alike.
    """

    def __init__(self, stream: BinaryIO, *, name: str, ratio: int) -> None:
        import zstandard

        self.name = name
        self.ratio = ratio
        self._errors = zstandard.ZstdError, zlib.error, MemoryError
        self._held = b""  # content that is returned first
        self._source = InputStream(stream, name)
        self._decoder = self._open_decoder()
        self.content = len(self._held)
        buffered = BufferedReader(_RawContent(self._decode), _BUFFER_BYTES)
        self.read, self.readinto = buffered.read, buffered.readinto

    @property
    def received(self) -> int:
        """Bytes taken from the stream so far."""
        return self._source.received

    @property
    def is_skipping(self) -> bool:
        """Whether the last zstd frame so far was a skippable one."""
        return isinstance(self._decoder, _ZstdDecoder) and self._decoder.is_skipping

    def peek(self, size: int) -> bytes:
        """Return the first bytes of the content, fewer only at its end, before any are read; raise as `read`."""
        memory = memoryview(bytearray(size))
        while len(self._held) < size and (count := self._decoded(memory)):
            self._held += memory[:count]
        return self._held[:size]

    def _decode(self, memory: memoryview) -> int:
        """Put the next bytes, at least one, into memory; return how many, 0 only at the end; raise as `read`."""
        if not self._held:
            return self._decoded(memory[:PIECE_BYTES])
        count = min(len(memory), len(self._held))
        memory[:count], self._held = self._held[:count], self._held[count:]
        return count

    def _decoded(self, memory: memoryview) -> int:
        try:
            count = self._decoder.readinto(memory)
        except self._errors as error:
            raise damaged_error(self.name, self.received, str(error)) from error
        self.content += count
        if self.content > FREE_CONTENT_BYTES + self.ratio * self._source.received:
            raise BadArchive(
                f"Refused {self.name}: {self.received} bytes of it hold over {self.ratio} times as much content."
            )
        return count

    def _open_decoder(self) -> _Decoder:
        """Return the decoder for the stream, chosen by its first bytes."""
        magic = self._source.read(4)
        if magic == frames.MAGIC or frames.is_skippable(magic):
            return _ZstdDecoder(self._source, lambda: self.content, magic)
        if magic[:2] == _GZIP_MAGIC:
            self.ratio = min(self.ratio, _MAX_GZIP_RATIO)
            return _GzipDecoder(self._source, lambda: self.content, magic)
        if other := _OTHER_FORMATS.get(magic[:3]):
            raise BadArchive(f"{self.name} is {other}, which is not read: unpack it and give the tar inside.")
        self._held = magic
        return self._source


class _ZstdDecoder:
    """Decodes zstd frames up to the end of the stream."""

    def __init__(self, source: InputStream, content: Callable[[], int], magic: bytes) -> None:
        """Begin after the first frame's magic number, which has been read from the source."""
        import zstandard

        self._source = source
        self._budget = Budget(source.name, content)
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=frames.MAX_WINDOW_BYTES)
        self._open: zstandard.ZstdDecompressionReader | None = None
        self._frame: _FrameBlocks | None = None
        self._magic = magic
        self._stored_left = self._block_left = 0  # content of the stored frame, and of its block, still to be read
        self.is_skipping = False

    def readinto(self, memory: memoryview, /) -> int:
        """Put the next bytes, at least one, into memory; return how many, 0 only at the end."""
        while True:
            if self._stored_left:
                return self._read_stored(memory)
            if self._open and self._frame:
                if count := self._open.readinto(memory):
                    return count
                self._frame.check_end()
                self._open = None
            elif not self._next_frame():
                return 0

    def _read_stored(self, memory: memoryview) -> int:
        """Put content of a stored frame's block into memory; return how many bytes."""
        if not self._block_left:
            header = self._source.read(frames.BLOCK_HEADER_BYTES)
            if len(header) == frames.BLOCK_HEADER_BYTES and header != frames.stored_block_header(self._stored_left):
                raise damaged_error(self._source.name, self._source.received)
            self._block_left = min(self._stored_left, frames.BLOCK_BYTES)
        count = self._source.readinto(memory[: self._block_left])
        if not count:
            raise truncated_error(self._source.name, self._source.received)
        self._stored_left -= count
        self._block_left -= count
        return count

    def _next_frame(self) -> bool:
        """Go on to the next frame; return False at the end."""
        magic, self._magic = self._magic or self._source.read(4), b""
        if not magic:
            return False
        self._budget.spend(steps=1)
        self.is_skipping = frames.is_skippable(magic)
        if self.is_skipping:
            self._skip()
        elif magic == frames.MAGIC:
            self._start(self._source.read(1))
        else:
            found = f"other data after its end, which begins with {magic!r}"
            raise BadArchive(f"{self._source.name} has {found}: an archive must be alone in its file.")
        return True

    def _skip(self) -> None:
        size = self._source.read(4)
        left = int.from_bytes(size, "little")
        self._budget.spend(skipped=left)
        while left and (data := self._source.read_some(min(left, PIECE_BYTES))):
            left -= len(data)
        if left or len(size) < 4:
            raise truncated_error(self._source.name, self._source.received)

    def _start(self, descriptor: bytes) -> None:
        """Open a frame after its magic number and descriptor: read a stored one here, give others to the library."""
        prefix = frames.MAGIC + descriptor
        if descriptor == frames.STORED_DESCRIPTOR:
            declared = self._source.read(frames.CONTENT_SIZE_BYTES)
            size = int.from_bytes(declared, "little")
            if len(declared) < frames.CONTENT_SIZE_BYTES:
                raise truncated_error(self._source.name, self._source.received)
            if 0 < size <= frames.MAX_STORED_BYTES:
                self._stored_left = size
                return
            prefix += declared
        self._frame = _FrameBlocks(self._source, self._budget, prefix)
        self._open = self._decompressor.stream_reader(cast("BinaryIO", self._frame), read_size=PIECE_BYTES)


class _FrameBlocks:
    """Feeds one frame to the library, block by block, and not a byte more."""

    def __init__(self, source: InputStream, budget: Budget, prefix: bytes) -> None:
        """Begin after the prefix, which has been read: up to the descriptor, or to the first block."""
        self._source = source
        self._budget = budget
        self._is_over = False
        descriptor = prefix[4] if len(prefix) > 4 else 0
        self._checksum = frames.CHECKSUM_BYTES * frames.has_checksum(descriptor)
        self._prefix = prefix + source.read(5 + frames.header_length(descriptor) - len(prefix))

    def read(self, size: int = -1) -> bytes:
        """Return the next block with its header; ``size`` is larger than any block."""
        prefix, self._prefix = self._prefix, b""
        if self._is_over:
            return prefix
        header = self._source.read(frames.BLOCK_HEADER_BYTES)
        self._budget.spend(steps=1)
        number = int.from_bytes(header, "little")
        kind, length = number >> 1 & 3, number >> 3
        if kind == 3:
            raise damaged_error(self._source.name, self._source.received, "a block of no type")
        if kind == 1:
            length = 1
        self._is_over = bool(number & 1)
        length += self._checksum * self._is_over
        body = self._source.read(length)
        if len(header) < frames.BLOCK_HEADER_BYTES or len(body) < length:
            raise truncated_error(self._source.name, self._source.received)
        return prefix + header + body

    def check_end(self) -> None:
        """Raise BadArchive if the library has stopped before the end."""
        if not self._is_over or self._prefix:
            raise damaged_error(self._source.name, self._source.received)


class _GzipDecoder:
    """Decodes gzip members, which only zeros may follow."""

    def __init__(self, source: InputStream, content: Callable[[], int], magic: bytes) -> None:
        """Begin after the first bytes, which have been read from the source."""
        self._source = source
        self._budget = Budget(source.name, content)
        self._member = zlib.decompressobj(31)
        self._input, self._held = magic, b""

    def readinto(self, memory: memoryview, /) -> int:
        """Put the next bytes, at least one, into memory; return how many, 0 only at the end."""
        if not self._held:
            self._held = self._piece()
        count = min(len(memory), len(self._held))
        memory[:count], self._held = self._held[:count], self._held[count:]
        return count

    def _piece(self) -> bytes:
        """Return a piece of the content; ``b""`` only at the end."""
        while True:
            self._input = self._input or self._source.read_some(_GZIP_INPUT_BYTES)
            if self._member.eof and not self._next_member():
                return b""
            if not self._input:
                raise truncated_error(self._source.name, self._source.received)
            data = self._member.decompress(self._input, _GZIP_INPUT_BYTES)
            self._input = self._member.unconsumed_tail or self._member.unused_data
            if data:
                return data
            self._budget.spend(steps=1)

    def _next_member(self) -> bool:
        """Go on to the next member, past padding of zeros; return False at the end."""
        while self._input and not self._input.strip(b"\0"):
            self._budget.spend(skipped=len(self._input))
            self._input = self._source.read_some(_GZIP_INPUT_BYTES)
        if not self._input:
            return False
        self._budget.spend(steps=1)
        self._member = zlib.decompressobj(31)
        return True
