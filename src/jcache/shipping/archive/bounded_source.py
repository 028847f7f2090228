"""The input of an archive: buffered and counted bytes of a stream, and limits on bytes that carry no content."""

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
_BUFFER_BYTES: Final = 32 << 10
_MAX_EMPTY_STEPS: Final = 1 << 16  # blocks, frames and gzip members that may be empty
_MAX_SKIPPED_BYTES: Final = 1 << 20  # skippable bytes that need no content beside them


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
        """Put the available bytes into memory, without waiting for more."""
        try:
            count = self._readinto(memory)
            if count is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        except OSError as error:
            raise BadArchive(f"Cannot read {self._name}: {error.strerror or error}.") from error
        self.received += count
        return count


class InputStream:
    """The bytes of a stream, buffered and counted.

    Attributes:
        name: name of the archive, for messages.
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
        """Fill memory with the next bytes; return how many there were, fewer than fit only at the end."""
        return self._buffered.readinto(memory)

    def read_some(self, size: int) -> bytes:
        """Return at least one byte and at most so many; none only at the end."""
        return self._buffered.read1(size)

    def read(self, size: int) -> bytes:
        """Return exactly so many bytes, fewer only at the end."""
        return self._buffered.read(size)


def _enlarge_pipe(stream: BinaryIO) -> None:
    """Enlarge a pipe's buffer, if the system can, so that its ends wait less for each other."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import fcntl

        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, PIECE_BYTES)


class Budget:
    """Limits the parts of a stream that carry no content."""

    def __init__(self, name: str, content: Callable[[], int]) -> None:
        self._name = name
        self._content = content
        self._steps = self._skipped = 0

    def spend(self, *, steps: int = 0, skipped: int = 0) -> None:
        """Count empty steps and skipped bytes; raise BadArchive if there are too many for the content so far."""
        self._steps += steps
        self._skipped += skipped
        if self._steps > _MAX_EMPTY_STEPS and self._steps > _MAX_EMPTY_STEPS + self._content() // 512:
            raise BadArchive(f"Refused {self._name}: it has {self._steps:,} pieces that are nearly all empty.")
        if self._skipped > _MAX_SKIPPED_BYTES + self._content() // 100:
            raise BadArchive(f"Refused {self._name}: it has {self._skipped:,} bytes of padding.")


def damaged_error(name: str, received: int, why: str = "") -> BadArchive:
    """Return the error that the stream has changed since it was made."""
    reason = f": {why}" if why else ""
    return BadArchive(f"{name} is damaged near byte {received}{reason}; copy or export it again.")


def truncated_error(name: str, received: int) -> Truncated:
    """Return the error that the stream ends too early."""
    return Truncated(f"{name} is truncated after {received} bytes: copy or export it again.")


def too_short_error(name: str, received: int) -> Truncated:
    """Return the error that the stream ends before its first member."""
    return Truncated(
        f"{name} ends after {received} bytes: it is truncated, or neither an archive of jcache nor a tar, tar.gz or "
        "tar.zst; copy or export it again."
    )
