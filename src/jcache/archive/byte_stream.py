"""A stream that anybody may have made, as it comes, and what its senders may ask for without giving anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Final

from jcache.archive.zstd_frames import widen
from jcache.errors import BadArchive, Truncated

PIECE: Final = 1 << 20
_AHEAD: Final = 64 << 10  # read for what is small
_IDLE_STEPS: Final = 1 << 16  # blocks, frames and gzip members that need not hold anything
_SKIPPED: Final = 1 << 20  # bytes to be skipped that nothing need be said for


class Source:
    """The stream as it comes, counted."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        widen(stream)
        self._read: Callable[[int], bytes | None] = getattr(stream, "read1", stream.read)
        self._readinto: Callable[[memoryview], int | None] | None = getattr(stream, "readinto", None)
        self._held = b""
        self.name = name
        self.received = 0

    def some(self, size: int) -> bytes:
        """At least one byte and at most so many; none at the end only."""
        if self._held:
            data, self._held = self._held[:size], self._held[size:]
            return data
        return self._pull(size)

    def read(self, size: int) -> bytes:
        """Just so many bytes, fewer at the end only."""
        while len(self._held) < size and (more := self._pull(max(_AHEAD, size - len(self._held)))):
            self._held += more
        data, self._held = self._held[:size], self._held[size:]
        return data

    def peek(self, size: int) -> bytes:
        """The same, and they stay."""
        data = self.read(size)
        self._held = data + self._held
        return data

    def fill(self, view: memoryview) -> int:
        """Fills the memory and returns how much of it, less than all at the end only."""
        held = self._held[: len(view)]
        self._held = self._held[len(held) :]
        view[: len(held)] = held
        filled = len(held)
        while filled < len(view) and (more := self._pull_into(view[filled:])):
            filled += more
        return filled

    def _pull(self, size: int) -> bytes:
        try:
            data = self._read(size) or b""
        except OSError as error:
            raise self._unreadable(error) from error
        self.received += len(data)
        return data

    def _pull_into(self, view: memoryview) -> int:
        if self._readinto is None:
            data = self._pull(len(view))
            view[: len(data)] = data
            return len(data)
        try:
            count = self._readinto(view) or 0
        except OSError as error:
            raise self._unreadable(error) from error
        self.received += count
        return count

    def _unreadable(self, error: OSError) -> BadArchive:
        return BadArchive(f"Cannot read {self.name}: {error.strerror or error}.")


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
        if self._steps > _IDLE_STEPS and self._steps > _IDLE_STEPS + self._content() // 512:
            raise BadArchive(f"Refused {self._name}: it is made of empty pieces without end.")
        if self._skipped > _SKIPPED + self._content() // 100:
            raise BadArchive(f"Refused {self._name}: it has {self._skipped} bytes to be skipped.")


def truncated(name: str, received: int) -> Truncated:
    """The error that says that there should be more."""
    return Truncated(f"{name} is truncated after {received} bytes: fetch or make it again.")
