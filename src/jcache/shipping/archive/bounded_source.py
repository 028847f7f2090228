"""The bytes of an archive as they come from a stream, buffered and counted, and limits on what a stream may waste."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, BinaryIO, Final

from jcache.errors import BadArchive, Truncated

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PIECE_BYTES: Final = 1 << 20
_BUFFER_BYTES: Final = 128 << 10
_MAX_EMPTY_STEPS: Final = 1 << 16  # blocks, frames and gzip members that need not hold anything
_MAX_SKIPPED_BYTES: Final = 1 << 20  # bytes to be skipped that nothing need be said for


class _CountedRaw(RawIOBase):
    """A stream whose bytes are counted. Closing it leaves the stream open."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._readinto: Callable[[WriteableBuffer], int | None] = (
            getattr(stream, "readinto1", None) or stream.readinto  # type: ignore[attr-defined]
        )
        self._name = name
        self.received = 0
        _enlarge_pipe(stream)

    def readable(self) -> bool:
        return True

    def readinto(self, memory: WriteableBuffer, /) -> int:
        """Puts what is there into memory, without waiting for all that would fit."""
        try:
            count = self._readinto(memory)
            if count is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        except OSError as error:
            raise BadArchive(f"Cannot read {self._name}: {error.strerror or error}.") from error
        self.received += count
        return count


class InputStream:
    """The bytes of a stream.

    Attributes:
        name: of the archive, for messages.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._counted = _CountedRaw(stream, name)
        self._buffered = BufferedReader(self._counted, _BUFFER_BYTES)
        self.name = name

    @property
    def received(self) -> int:
        """Bytes taken from the stream so far."""
        return self._counted.received

    def readinto(self, memory: memoryview, /) -> int:
        """Fills memory with the next bytes; returns how many there were, fewer than fit at the end only."""
        return self._buffered.readinto(memory)

    def read_some(self, size: int) -> bytes:
        """At least one byte and at most so many; none at the end only."""
        return self._buffered.read1(size)

    def read(self, size: int) -> bytes:
        """Just so many bytes, fewer at the end only."""
        return self._buffered.read(size)


def _enlarge_pipe(stream: BinaryIO) -> None:
    """Has a pipe hold more, where the system can, so that neither end waits for the other all the time."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import fcntl

        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, PIECE_BYTES)


class Budget:
    """How much of a stream may be there for nothing."""

    def __init__(self, name: str, content: Callable[[], int]) -> None:
        self._name = name
        self._content = content
        self._steps = self._skipped = 0

    def spend(self, *, steps: int = 0, skipped: int = 0) -> None:
        """Raises BadArchive if there are more steps, or more bytes skipped, than the content so far accounts for."""
        self._steps += steps
        self._skipped += skipped
        if self._steps > _MAX_EMPTY_STEPS and self._steps > _MAX_EMPTY_STEPS + self._content() // 512:
            raise BadArchive(f"Refused {self._name}: it is made of empty pieces without end.")
        if self._skipped > _MAX_SKIPPED_BYTES + self._content() // 100:
            raise BadArchive(f"Refused {self._name}: it has {self._skipped} bytes to be skipped.")


def damaged_error(name: str, received: int, why: str = "") -> BadArchive:
    """The error that says that the stream is not as it was made."""
    reason = f": {why}" if why else ""
    return BadArchive(f"{name} is damaged near byte {received}{reason}; fetch or make it again.")


def truncated_error(name: str, received: int) -> Truncated:
    """The error that says that there should be more."""
    return Truncated(f"{name} is truncated after {received} bytes: fetch or make it again.")


def too_short_error(name: str, received: int) -> Truncated:
    """The error that says that not even a first member is there."""
    return Truncated(
        f"{name} ends after {received} bytes: it is truncated, or neither an archive of jcache nor a tar, tar.gz or "
        "tar.zst; fetch or make it again."
    )
