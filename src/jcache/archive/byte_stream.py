"""A stream that anybody may have made, as it comes, and what its senders may ask for without giving anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Final

from jcache.archive.zstd_frames import widen
from jcache.errors import BadArchive, Truncated

PIECE: Final = 1 << 20
_HELD: Final = 512 << 10  # bytes; more would not stay in the cache of a core
_IDLE_STEPS: Final = 1 << 16  # blocks, frames and gzip members that need not hold anything
_SKIPPED: Final = 1 << 20  # bytes to be skipped that nothing need be said for


class Source:
    """The stream as it comes, counted."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        widen(stream)
        # what is there, without waiting for all that would fit
        self._pull: Callable[[memoryview], int | None] = getattr(stream, "readinto1", None) or stream.readinto  # type: ignore[attr-defined]
        self._memory = memoryview(bytearray(_HELD))
        self._start = self._end = 0  # of what is held
        self.name = name
        self.received = 0

    def lend(self, size: int) -> memoryview:
        """At least one byte and at most so many, until more is asked for; none at the end only."""
        if self._start == self._end:
            self._start = self._end = 0
            self._hold_more()
        start = self._start
        self._start = min(self._end, start + size)
        return self._memory[start : self._start]

    def some(self, size: int) -> bytes:
        """The same, for good."""
        return bytes(self.lend(size))

    def read(self, size: int) -> bytes:
        """Just so many bytes, fewer at the end only."""
        start = self._start
        if size <= self._end - start:
            self._start += size
            return bytes(self._memory[start : self._start])
        data = bytearray()
        while len(data) < size and (more := self.lend(size - len(data))):
            data += more
        return bytes(data)

    def peek(self, size: int) -> bytes:
        """Just so many bytes that stay, fewer at the end only."""
        held = self._end - self._start
        self._memory[:held] = bytes(self._memory[self._start : self._end])
        self._start, self._end = 0, held
        while self._end < size and self._hold_more():
            pass
        return bytes(self._memory[: min(size, self._end)])

    def _hold_more(self) -> int:
        try:
            count = self._pull(self._memory[self._end :]) or 0
        except OSError as error:
            raise BadArchive(f"Cannot read {self.name}: {error.strerror or error}.") from error
        self._end += count
        self.received += count
        return count


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


def damaged(name: str, received: int, why: str = "") -> BadArchive:
    """The error that says that the stream is not as it was made."""
    reason = f": {why}" if why else ""
    return BadArchive(f"{name} is damaged near byte {received}{reason}; fetch or make it again.")


def truncated(name: str, received: int) -> Truncated:
    """The error that says that there should be more."""
    return Truncated(f"{name} is truncated after {received} bytes: fetch or make it again.")


def too_short(name: str, received: int) -> Truncated:
    """The error that says that not even a first member is there."""
    return Truncated(
        f"{name} ends after {received} bytes: it is truncated, or neither an archive of jcache nor a tar, tar.gz or "
        "tar.zst; fetch or make it again."
    )
