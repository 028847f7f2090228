"""The digest of stored bytes, by which they are known in the ledger, in archives and to people.

    digest = "blake3:" and 64 hexadecimal digits, those that `b3sum FILE` prints

BLAKE3 takes a third of the time of SHA-256, also where the CPU has instructions for the latter, and every byte that is
shipped is hashed at both ends. What seals an envelope (`jcache.formats.envelope`), and what signs, has its own format.
"""

from __future__ import annotations

import re
from io import FileIO
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from blake3 import blake3

_ALGORITHM: Final = "blake3:"
_PATTERN: Final = re.compile(rf"{_ALGORITHM}[0-9a-f]{{64}}")
_SHORT_LENGTH: Final = len(_ALGORITHM) + 16
_PIECE_BYTES: Final = 256 << 10  # stays in the cache of a core


class Hasher:
    """Takes bytes in pieces."""

    __slots__ = ("_hash", "update")

    def __init__(self) -> None:
        self._hash = _hashed(b"")
        self.update = self._hash.update

    def digest(self) -> str:
        """Of all that it has taken so far."""
        return _ALGORITHM + self._hash.hexdigest()


def digest(data: bytes | bytearray | memoryview) -> str:
    """The digest of some bytes."""
    return _ALGORITHM + _hashed(data).hexdigest()


def digest_of_file(file: FileIO) -> str:
    """The digest of the rest of a file, in constant memory.

    Raises:
        OSError: it cannot be read.
    """
    hasher, memory = Hasher(), memoryview(bytearray(_PIECE_BYTES))
    while count := file.readinto(memory):
        hasher.update(memory[:count])
    return hasher.digest()


def is_digest(text: str) -> bool:
    """Whether a text is one."""
    return _PATTERN.fullmatch(text) is not None


def shown(digest: str | None) -> str:
    """As much of a digest as a sentence needs."""
    return f"{str(digest)[:_SHORT_LENGTH]}…"


def _hashed(data: bytes | bytearray | memoryview) -> blake3:
    from blake3 import blake3  # takes a millisecond, and many commands need none

    return blake3(data)
