"""Recompression for solid archives: decompress entries, and compress them again to the same bytes."""

from __future__ import annotations

import zlib
from typing import Final

from jcache.errors import DamagedEntry
from jcache.formats.compression import Codec, codec_of, compress, decompress_zlib, decompress_zstd

MAX_CONTENT_BYTES: Final = 128 << 20  # held in memory at either end; as large as zstd's window
SUFFIXES: Final = {Codec.ZSTD: ".zstd-content", Codec.ZLIB: ".zlib-content"}
_MAX_RATIO: Final = 64  # content to stored bytes; entries that shrink more gain nothing and look like bombs to readers


def recompressors() -> tuple[tuple[str, str], ...]:
    """Return names and versions of the libraries that compress here, for `Manifest.recompressors`."""
    import zstandard

    version: tuple[int, int, int] = zstandard.ZSTD_VERSION
    return ("zlib", zlib.ZLIB_RUNTIME_VERSION), ("zstd", ".".join(map(str, version)))


def decompress_entry(stored: bytes) -> tuple[str, bytes | None]:
    """Return the suffix of an entry's member and its content; None if the content does not compress to the entry."""
    codec = codec_of(stored)
    if codec is None:
        return "", None
    decompress = decompress_zstd if codec is Codec.ZSTD else decompress_zlib
    try:
        content = decompress(stored, limit=max_content_bytes(len(stored)))
    except DamagedEntry:
        return "", None
    return (SUFFIXES[codec], content) if compress(content, codec) == stored else ("", None)


def max_content_bytes(stored_bytes: int) -> int:
    """Return the largest content of an entry of so many bytes that a solid archive holds decompressed."""
    return min(MAX_CONTENT_BYTES, _MAX_RATIO * stored_bytes)


def recompress_entry(suffix: str, content: bytes) -> bytes:
    """Return the entry with this content.

    Args:
        suffix: suffix of the member's name, one of `SUFFIXES`.
        content: the decompressed bytes.
    """
    return compress(content, next(codec for codec, other in SUFFIXES.items() if other == suffix))
