"""Executables in the other codec, for a JAX that finds them and cannot read them.

That is so in two cases, between Python 3.14 or later and an older one without ``zstandard``: both look for keys that
say ``zlib``, and each reads what the other does not write (the table is in `guards`). Another codec changes no
key, so it is of no use to a JAX with ``zstandard``, which looks for other keys.
"""

from jcache.formats.compression import Codec, compress
from jcache.formats.envelope import MAX_CONTENT, decompress_executable


def transcode(data: bytes, to: Codec, *, limit: int = MAX_CONTENT) -> bytes:
    """The stored bytes of an executable in a codec, as JAX would write them: the same seconds, the same executable.

    Bytes that have the codec already are given back as they are.

    Raises:
        DamagedEntry: the bytes are no executable of JAX's, are incomplete, or hold more than ``limit`` bytes.
    """
    codec, content = decompress_executable(data, limit=limit)
    return bytes(data) if codec is to else compress(content, to)
