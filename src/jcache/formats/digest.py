"""The digest of stored bytes, which identifies them in the ledger, in archives and for people.

    digest = "blake3:" and the 64 hexadecimal digits that `b3sum FILE` prints

BLAKE3 takes a third of the time of SHA-256, even on a CPU with instructions for SHA-256. Speed counts, since every byte
that is shipped is hashed at both ends. Envelopes (`jcache.formats.envelope`) and signatures have other digests.
"""

from __future__ import annotations

import re
from functools import cache
from io import FileIO
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from blake3 import blake3

_ALGORITHM: Final = "blake3:"
_PATTERN: Final = re.compile(rf"{_ALGORITHM}[0-9a-f]{{64}}")
_SHORT_LENGTH: Final = len(_ALGORITHM) + 16
_PIECE_BYTES: Final = 256 << 10  # stays in the cache of a core


class Hasher:
    """Computes the digest of bytes that come in pieces."""

    __slots__ = ("_hash", "update")

    def __init__(self) -> None:
        self._hash = _hashed(b"")
        self.update = self._hash.update

    def digest(self) -> str:
        """Return the digest of all bytes so far."""
        return _ALGORITHM + self._hash.hexdigest()


def digest(data: bytes | bytearray | memoryview) -> str:
    """Return the digest of some bytes."""
    return _ALGORITHM + _hashed(data).hexdigest()


def digest_of_file(file: FileIO) -> str:
    """Return the digest of the rest of a file, in constant memory.

    Raises:
        OSError: the file cannot be read.
    """
    hasher, memory = Hasher(), memoryview(bytearray(_PIECE_BYTES))
    while count := file.readinto(memory):
        hasher.update(memory[:count])
    return hasher.digest()


def is_digest(text: str) -> bool:
    """Return whether a text is a digest."""
    return _PATTERN.fullmatch(text) is not None


def shown(digest: str | None) -> str:
    """Return the first digits of a digest, as messages show them."""
    return f"{str(digest)[:_SHORT_LENGTH]}…"


def _hashed(data: bytes | bytearray | memoryview) -> blake3:
    return _algorithm()(data)


@cache
def _algorithm() -> type[blake3]:
    from blake3 import blake3  # importing it takes a millisecond, and many commands need no digest

    return blake3
