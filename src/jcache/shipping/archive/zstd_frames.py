r"""Frames of zstd (RFC 8878), as far as jcache writes and parses them without the library.

Numbers are little-endian::

    frame      = magic descriptor [window] [dictionary] [content size] block* [checksum]
    magic      = 28 B5 2F FD
    descriptor = content size's length (2 bits), no window (1), 2 unused bits, checksum (1), dictionary's length (2)
    block      = 3 bytes: last (1 bit), type (2: raw, RLE, compressed), size (21); its bytes, of at most 128 KiB content
    skippable  = 5? 2A 4D 18, a size of 4 bytes, and so many bytes

A stored frame has at most 1 MiB of content, declares the content's size in 8 bytes, which no other program does for so
little, and has only raw blocks, all of 128 KiB but the last. Entries are compressed already: in stored frames they pass
at the speed of memory, and `zstd -d` reads these like other frames.
"""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"\x28\xb5\x2f\xfd"
SKIPPABLE_MAGIC_END: Final = b"\x2a\x4d\x18"  # after one of 50 … 5F
MAX_WINDOW_BYTES: Final = 128 << 20  # zstd's own default bound, up to which `zstd -d` needs no option
BLOCK_BYTES: Final = 128 << 10
MAX_STORED_BYTES: Final = 1 << 20  # content of a stored frame
STORED_DESCRIPTOR: Final = b"\xe0"
CONTENT_SIZE_BYTES: Final = 8  # length of the content size in a stored frame
BLOCK_HEADER_BYTES: Final = 3
CHECKSUM_BYTES: Final = 4
_FULL_BLOCK: Final = (BLOCK_BYTES << 3).to_bytes(BLOCK_HEADER_BYTES, "little")


def is_skippable(magic: bytes) -> bool:
    """Return whether this is the magic number of a skippable frame."""
    return magic[1:] == SKIPPABLE_MAGIC_END and magic[0] >> 4 == 5


def skippable_frame(size: int) -> bytes:
    """Return a skippable frame of so many zeros."""
    return b"\x50" + SKIPPABLE_MAGIC_END + size.to_bytes(4, "little") + bytes(size)


def header_length(descriptor: int) -> int:
    """Return the number of bytes between a frame's descriptor and its first block."""
    is_single = descriptor >> 5 & 1
    return 1 - is_single + (0, 1, 2, 4)[descriptor & 3] + (is_single, 2, 4, 8)[descriptor >> 6]


def has_checksum(descriptor: int) -> bool:
    """Return whether a frame ends with a checksum."""
    return bool(descriptor >> 2 & 1)


def stored_frame(content: memoryview) -> list[bytes | memoryview]:
    """Return a stored frame in pieces, which share the content's memory."""
    size = len(content)
    head = MAGIC + STORED_DESCRIPTOR + size.to_bytes(CONTENT_SIZE_BYTES, "little")
    pieces: list[bytes | memoryview] = [head + stored_block_header(size), content[:BLOCK_BYTES]]
    for at in range(BLOCK_BYTES, size, BLOCK_BYTES):
        pieces += stored_block_header(size - at), content[at : at + BLOCK_BYTES]
    return pieces


def stored_block_header(left: int) -> bytes:
    """Return the header of the next block of a stored frame that has so much content left, including that block's."""
    return _FULL_BLOCK if left > BLOCK_BYTES else (left << 3 | 1).to_bytes(BLOCK_HEADER_BYTES, "little")
