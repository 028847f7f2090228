"""Decompression with a limit: exactly one zstd frame or zlib stream, whose content is no larger than allowed.

A hundred bytes can declare gigabytes of content, and can really hold them. So a declared size is compared with the
limit and with the format's highest ratio before memory is allocated. An undeclared size is counted first, unless the
content is as small as expected. Refused bytes cost no more memory than a few pieces and a window.
"""

import threading
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from jcache.errors import DamagedEntry

if TYPE_CHECKING:
    import zstandard

MAX_CONTENT: Final = 8 << 30  # bytes in an entry: the largest executable seen in reports is 2 GiB

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_RATIO: Final = (128 << 10) // 4  # the densest block of a frame: 4 bytes that stand for 128 KiB
_ZSTD_WINDOW: Final = 128 << 20  # zstd's own default bound; JAX's level 3 uses 2 MiB
_EXPECTED_RATIO: Final = 16  # executables shrink to a quarter, none of 8,700 to less than an eighth
_PIECE_BYTES: Final = 1 << 20
_ZLIB_PIECE_BYTES: Final = 1 << 10  # yields 1 MiB at most


class Codec(StrEnum):
    """A way to compress bytes; JAX uses the first two, envelopes the first and the last."""

    ZSTD = "zstd"
    ZLIB = "zlib"
    NONE = "none"


def codec_of(head: bytes) -> Codec | None:
    """Return the codec that the first bytes name, None when they name none; it is never `Codec.NONE`."""
    if head[:4] == _ZSTD_MAGIC:
        return Codec.ZSTD
    # RFC 1950: 78 is deflate with a 32 KiB window; the second byte makes both a multiple of 31
    if head[:1] == b"\x78" and (len(head) < 2 or int.from_bytes(head[:2], "big") % 31 == 0):
        return Codec.ZLIB
    return None


def compress(data: bytes, codec: Codec) -> bytes:
    """Compress bytes as JAX does: to one zstd frame with its content size, or one zlib stream, or not at all."""
    if codec is Codec.ZSTD:
        import zstandard

        return zstandard.ZstdCompressor().compress(data)
    if codec is Codec.ZLIB:
        import zlib

        return zlib.compress(data)
    return data


def first_bytes(head: bytes, count: int) -> bytes:
    """Return the first bytes of the content, fewer where the head of the compressed bytes holds fewer."""
    codec = codec_of(head)
    if codec is Codec.ZSTD:
        import zstandard

        try:
            with _thread.decompressor.stream_reader(head) as reader:
                return reader.read(count)
        except (zstandard.ZstdError, MemoryError):
            return b""
    if codec is Codec.ZLIB:
        import zlib

        try:
            return zlib.decompressobj().decompress(head, count)
        except zlib.error:
            return b""
    return b""


def decompress_zstd(data: bytes | memoryview, *, limit: int) -> bytes:
    """Decompress exactly one zstd frame.

    Raises:
        DamagedEntry: the bytes are not exactly one frame, or the content has another size than declared or is larger
            than ``limit`` bytes.
    """
    import zstandard

    try:
        size = zstandard.frame_content_size(data)
        if size > min(limit, len(data) * _ZSTD_RATIO):  # before anything of that size is allocated
            raise too_large(len(data), limit)
        if size > 0:
            return _thread.decompressor.decompress(data, max_output_size=size, allow_extra_data=False)
        return _streamed_zstd(data, limit)
    except (zstandard.ZstdError, MemoryError) as error:
        raise DamagedEntry(f"A zstd frame cannot be read: {error}.") from error


class _ThreadState(threading.local):
    """Decompressors for each thread: making one takes longer than decompressing a small entry."""

    @cached_property
    def decompressor(self) -> "zstandard.ZstdDecompressor":
        import zstandard

        return zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)


_thread: Final = _ThreadState()


def _streamed_zstd(data: bytes | memoryview, limit: int) -> bytes:
    """Decompress a frame that declares no size, or size 0; zstandard's one-shot call needs a size above 0.

    The content is first counted without being kept. The count may be too high, since zstandard 0.25's reader goes on
    into a second frame.
    """
    import zstandard

    size = 0
    with zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(data) as reader:
        while piece := reader.read(_PIECE_BYTES):
            size += len(piece)
            if size > limit:
                raise too_large(len(data), limit)
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    if size > 0:
        content = decompressor.decompress(data, max_output_size=size, allow_extra_data=False)
        _check_end(is_whole=True, is_last=len(content) == size, what="zstd frame")
        return content
    stream = decompressor.decompressobj()
    content = stream.decompress(data)
    _check_end(is_whole=stream.eof, is_last=not stream.unused_data, what="zstd frame")
    return content


def decompress_zlib(data: bytes, *, limit: int) -> bytes:
    """Decompress exactly one zlib stream.

    Content that is as small as expected is decompressed at once. Other content is first counted without being
    kept, since zlib holds its output twice at the end, and then decompressed into exactly the memory that it needs.

    Raises:
        DamagedEntry: the bytes are not exactly one stream, or the content is larger than ``limit`` bytes.
    """
    import zlib

    usual = min(limit, max(_PIECE_BYTES, _EXPECTED_RATIO * len(data)))
    try:
        stream = zlib.decompressobj()
        content = stream.decompress(data, usual + 1)
        if len(content) <= usual:
            _check_end(is_whole=stream.eof, is_last=not stream.unused_data, what="zlib stream")
            return content
        del content, stream
        return zlib.decompress(data, bufsize=_zlib_size(data, limit))
    except (zlib.error, MemoryError) as error:
        raise DamagedEntry(f"A zlib stream cannot be read: {error}.") from error


def _zlib_size(data: bytes, limit: int) -> int:
    """Return the size of a stream's content; the stream must end where the data end."""
    import zlib

    size = position = 0
    stream = zlib.decompressobj()
    while position < len(data) and not stream.eof:
        size += len(stream.decompress(data[position : position + _ZLIB_PIECE_BYTES]))
        if size > limit:
            raise too_large(len(data), limit)
        position += _ZLIB_PIECE_BYTES
    _check_end(is_whole=stream.eof, is_last=position >= len(data) and not stream.unused_data, what="zlib stream")
    return size


def _check_end(*, is_whole: bool, is_last: bool, what: str) -> None:
    if not is_whole or not is_last:
        raise DamagedEntry(f"A {what} " + ("has more bytes behind it." if is_whole else "ends too early."))


def too_large(stored: int, limit: int) -> DamagedEntry:
    return DamagedEntry(f"{stored} stored bytes claim to hold more than they can, or more than {limit} bytes.")
