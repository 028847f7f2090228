"""A stream that anybody may have made, as it comes, and what its senders may ask for without giving anything."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from io import FileIO
from typing import BinaryIO, Final

from jcache.errors import BadArchive, Truncated
from jcache.shipping.archive.pipes import widened

PIECE: Final = 1 << 20
_HELD: Final = 512 << 10  # bytes; more would not stay in the cache of a core
_LITTLE: Final = 1 << 10  # a header and what is before it
_DIRECT: Final = 32 << 10
_IDLE_STEPS: Final = 1 << 16  # blocks, frames and gzip members that need not hold anything
_SKIPPED: Final = 1 << 20  # bytes to be skipped that nothing need be said for


class Source:
    """The stream as it comes, counted.

    Much that is asked for at once goes straight to where it is wanted; the rest by way of memory of ours, more of it
    with each time, so that of what follows a large piece only a little is copied twice.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._pull = _puller(stream)
        self._memory = memoryview(bytearray(_HELD))
        self._start = self._end = 0  # of what is held
        self._ahead = _LITTLE
        self.name = name
        self.received = 0

    def readinto(self, memory: memoryview, /) -> int:
        """Puts the next bytes into memory, at least one; returns how many, 0 at the end only."""
        return self._into([memory], len(memory))

    def fill(self, memories: list[memoryview]) -> bool:
        """Fills memories, one after the other; False if the stream ends before."""
        left = sum(map(len, memories))
        while left:
            count = self._into(memories, left)
            if not count:
                return False
            left -= count
            if left:
                memories = _behind(memories, count)
        return True

    def some(self, size: int) -> bytes:
        """At least one byte and at most so many; none at the end only."""
        if self._start == self._end:
            self._hold_more()
        return self._held(size)

    def read(self, size: int) -> bytes:
        """Just so many bytes, fewer at the end only."""
        if size <= self._end - self._start:
            return self._held(size)
        data = bytearray()
        while len(data) < size and (more := self.some(size - len(data))):
            data += more
        return bytes(data)

    def peek(self, size: int) -> bytes:
        """Just so many bytes that stay, fewer at the end only."""
        held = self._end - self._start
        self._memory[:held] = bytes(self._memory[self._start : self._end])
        self._start, self._end = 0, held
        while self._end < size and (count := self._receive([self._memory[self._end :]])):
            self._end += count
        return bytes(self._memory[: min(size, self._end)])

    def _into(self, memories: list[memoryview], size: int) -> int:
        """Puts the next bytes into memories of this size, at least one; returns how many, 0 at the end only."""
        if self._start == self._end:
            if size >= _DIRECT:
                self._ahead = _LITTLE
                return self._receive(memories)
            self._hold_more()
        memory, start = memories[0], self._start
        self._start = min(self._end, start + len(memory))
        memory[: self._start - start] = self._memory[start : self._start]
        return self._start - start

    def _held(self, size: int) -> bytes:
        start = self._start
        self._start = min(self._end, start + size)
        return bytes(self._memory[start : self._start])

    def _hold_more(self) -> None:
        self._start, self._end = 0, self._receive([self._memory[: self._ahead]])
        self._ahead = min(2 * self._ahead, _HELD)

    def _receive(self, memories: Sequence[memoryview]) -> int:
        try:
            count = self._pull(memories) or 0
        except OSError as error:
            raise BadArchive(f"Cannot read {self.name}: {error.strerror or error}.") from error
        self.received += count
        return count


def _behind(memories: list[memoryview], count: int) -> list[memoryview]:
    """What is left of memories behind so many bytes, which are not all."""
    full = 0
    while count >= len(memories[full]):
        count -= len(memories[full])
        full += 1
    return [memories[full][count:], *memories[full + 1 :]]


def _puller(stream: BinaryIO) -> Callable[[Sequence[memoryview]], int | None]:
    """What puts into memories what is there, without waiting for all that would fit."""
    if isinstance(stream, FileIO):
        widened(stream.fileno())
        return partial(os.readv, stream.fileno())
    readinto: Callable[[memoryview], int | None] = getattr(stream, "readinto1", None) or stream.readinto  # type: ignore[attr-defined]
    return lambda memories: readinto(memories[0])


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
