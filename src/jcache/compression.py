"""Compressed bytes, opened within bounds: exactly one zstd frame or zlib stream, of no more than it may hold.

A hundred bytes can claim to hold gigabytes, and really yield them. So a declared size is held against the limit and
against what the format can reach at all before anything is allocated, and an undeclared one is counted first.
"""

from enum import StrEnum
from typing import Final

from jcache.errors import DamagedEntry

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_RATIO: Final = (128 << 10) // 4  # a frame's densest block is 4 bytes that stand for 128 KiB
_ZSTD_WINDOW: Final = 128 << 20  # zstd's own default bound; JAX's level 3 uses 2 MiB
_PIECE: Final = 1 << 20


class Codec(StrEnum):
    """How bytes are compressed; JAX writes the first two, envelopes the first and the last."""

    ZSTD = "zstd"
    ZLIB = "zlib"
    NONE = "none"


def codec_of(head: bytes) -> Codec | None:
    """The codec that the first bytes name, None when they name none; nothing is ever taken for uncompressed."""
    if head[:4] == _ZSTD_MAGIC:
        return Codec.ZSTD
    # RFC 1950: 78 is deflate with a 32 KiB window; the second byte makes both a multiple of 31
    if head[:1] == b"\x78" and (len(head) < 2 or int.from_bytes(head[:2], "big") % 31 == 0):
        return Codec.ZLIB
    return None


def compress(data: bytes, codec: Codec) -> bytes:
    """The bytes as JAX compresses them: one zstd frame with its content size, one zlib stream, or as they are."""
    if codec is Codec.ZSTD:
        import zstandard

        return zstandard.ZstdCompressor().compress(data)
    if codec is Codec.ZLIB:
        import zlib

        return zlib.compress(data)
    return data


def first_bytes(head: bytes, count: int) -> bytes:
    """The first bytes of the content, fewer when the head of the compressed bytes does not tell."""
    codec = codec_of(head)
    if codec is Codec.ZSTD:
        import zstandard

        try:
            with zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(head) as reader:
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
    """The content of exactly one zstd frame.

    Raises:
        DamagedEntry: it is no frame, more or less than one, not of the size it declares, or larger than the limit.
    """
    import zstandard

    try:
        size = zstandard.frame_content_size(data)
        if size > min(limit, len(data) * _ZSTD_RATIO):  # before anything of that size is allocated
            raise too_large(len(data), limit)
        if size > 0:
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=size, allow_extra_data=False)
        return _streamed_zstd(data, limit)
    except (zstandard.ZstdError, MemoryError) as error:
        msg = f"A zstd frame that cannot be read: {error}."
        raise DamagedEntry(msg) from error


def _streamed_zstd(data: bytes | memoryview, limit: int) -> bytes:
    """The content of a frame that declares no size, or none; the one-shot call needs a size that is not zero.

    It is counted first and not kept, since ``decompressobj`` knows no bound. The count may be too high: zstandard
    0.25's reader goes on into a second frame, so where the frame really ends is seen only by the object.
    """
    import zstandard

    size = 0
    with zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_reader(data) as reader:
        while piece := reader.read(_PIECE):
            size += len(piece)
            if size > limit:
                raise too_large(len(data), limit)
    stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    content = stream.decompress(data)
    if not stream.eof or stream.unused_data:
        msg = "A zstd frame that " + ("has more bytes behind it." if stream.eof else "ends too early.")
        raise DamagedEntry(msg)
    return content


def decompress_zlib(data: bytes, *, limit: int) -> bytes:
    import zlib

    stream = zlib.decompressobj()
    try:
        content = stream.decompress(data, limit + 1)
    except (zlib.error, MemoryError) as error:
        msg = f"A zlib stream that cannot be read: {error}."
        raise DamagedEntry(msg) from error
    if len(content) > limit:
        raise too_large(len(data), limit)
    if not stream.eof or stream.unused_data:
        msg = "A zlib stream that " + ("has more bytes behind it." if stream.eof else "ends too early.")
        raise DamagedEntry(msg)
    return content


def too_large(stored: int, limit: int) -> DamagedEntry:
    return DamagedEntry(f"{stored} stored bytes that claim to hold more than they can or than {limit} bytes.")
