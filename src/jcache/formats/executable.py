"""The bytes of an executable, as JAX's compilation cache writes them from 0.4.14 on.

    entry      = compressed(seconds executable)
    compressed = a zstd frame (28 B5 2F FD …) or a zlib stream (78 …); only the magic decides which
    seconds    = 4 bytes, unsigned, big-endian: whole seconds of compilation

JAX's zstd frames carry the content size and no checksum, so damage does not always stop one from being decompressed.
"""

from typing import Final, NamedTuple

from jcache.errors import DamagedEntry, InvalidValue
from jcache.formats.compression import (
    MAX_CONTENT,
    Codec,
    codec_of,
    compress,
    decompress_zlib,
    decompress_zstd,
    first_bytes,
)

HEAD_BYTES: Final = 132 << 10  # enough to read the seconds: a zstd block has at most 128 KiB

_FIRST_TAG: Final = 0x0A  # field 1, length-delimited
_MAX_COMPILATION_S: Final = 10_000_000  # 115 days


class Executable(NamedTuple):
    """The content of an entry of JAX's compilation cache."""

    codec: Codec
    seconds: int
    payload: bytes


def pack_executable(executable: bytes, seconds: int, codec: Codec) -> bytes:
    """Return the entry that JAX would write for an executable.

    Raises:
        InvalidValue: the seconds do not fit four bytes, or JAX has no such codec.
    """
    if not 0 <= seconds < 1 << 32:
        raise InvalidValue(f"A compile time of {seconds} s does not fit the 4 bytes in which JAX keeps it.")
    if codec is Codec.NONE:
        raise InvalidValue("JAX has no uncompressed executables: use zstd or zlib.")
    return compress(seconds.to_bytes(4, "big") + executable, codec)


def unpack_executable(data: bytes, *, limit: int = MAX_CONTENT) -> Executable:
    """Return the content of an entry of JAX's cache.

    Raises:
        DamagedEntry: the bytes are no such entry, are incomplete, or hold more than ``limit`` bytes.
    """
    codec, content = decompress_executable(data, limit=limit)
    return Executable(codec, int.from_bytes(content[:4], "big"), content[4:])


def decompress_executable(data: bytes, *, limit: int) -> tuple[Codec, bytes]:
    """Do the same as `unpack_executable`, but return seconds and executable together: a copy may take gigabytes."""
    codec = codec_of(data)
    if codec is None:
        raise DamagedEntry(f"An entry that starts with {data[:4].hex(' ') or 'no byte'} is neither zstd nor zlib.")
    content = (decompress_zstd if codec is Codec.ZSTD else decompress_zlib)(data, limit=limit)
    if len(content) < 4:
        raise DamagedEntry(f"An entry of {len(content)} bytes has no room for the 4 bytes of compile time.")
    return codec, content


def executable_seconds(head: bytes) -> int | None:
    """Return the compile seconds from the first `HEAD_BYTES` of an entry; None if they cannot be read."""
    first = first_bytes(head, 4)
    return int.from_bytes(first, "big") if len(first) == 4 else None


def may_be_executable(head: bytes) -> bool:
    """Return whether a file with these first bytes can be an entry of jax <= 0.4.30.

    Other tools give such names to their files as well, so the bytes must have a codec, plausible compile seconds, and
    the tag of the first field of XLA's ``ExecutableAndOptionsProto``. Layers of container images, git objects, films
    and fonts lack one of these.
    """
    first = first_bytes(head, 5)
    return len(first) == 5 and int.from_bytes(first[:4], "big") < _MAX_COMPILATION_S and first[4] == _FIRST_TAG
