"""Entries taken out of their compression, and put back bit by bit: what makes a solid archive small."""

from __future__ import annotations

import zlib
from typing import Final

from jcache.errors import DamagedEntry
from jcache.formats.compression import Codec, codec_of, compress, decompress_zlib, decompress_zstd

MAX_CONTENT_BYTES: Final = 128 << 20  # held in memory at either end; as much as zstd's window takes anyway
SUFFIXES: Final = {Codec.ZSTD: ".zstd-content", Codec.ZLIB: ".zlib-content"}
_MAX_RATIO: Final = 64  # times the stored bytes; what shrinks more is no gain, and looks like a bomb to readers


def recompressors() -> tuple[tuple[str, str], ...]:
    """Names and versions of the libraries that compress here, for `Manifest.recompressors` of a solid archive."""
    import zstandard

    version: tuple[int, int, int] = zstandard.ZSTD_VERSION
    return ("zlib", zlib.ZLIB_RUNTIME_VERSION), ("zstd", ".".join(map(str, version)))


def decompress_entry(stored: bytes) -> tuple[str, bytes | None]:
    """What an entry holds, and the suffix of its member; None if compressing that would not give the entry again."""
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
    """The most that an entry of so many bytes may hold to be taken out of its compression."""
    return min(MAX_CONTENT_BYTES, _MAX_RATIO * stored_bytes)


def recompress_entry(suffix: str, content: bytes) -> bytes:
    """The entry whose content this is."""
    return compress(content, next(codec for codec, its in SUFFIXES.items() if its == suffix))
