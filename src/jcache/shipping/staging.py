"""Bytes that arrive, written to files that nobody sees yet, piece by piece as they come, and compared at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from jcache.archive.manifest import Item, Neighbour
from jcache.digests import shown
from jcache.files import Unpublished


class Incoming(Protocol):
    """Where the stored bytes of an entry come from; `digest` is of what has been poured."""

    def pour(self, into: Callable[[bytes | memoryview], object], /) -> int:
        """Hands out all bytes in pieces, which are there during each call only; returns how many."""

    def digest(self) -> str: ...


class Held:
    """Bytes that are read already, and their digest."""

    def __init__(self, data: bytes, digest: str) -> None:
        self._data = data
        self._digest = digest

    def pour(self, into: Callable[[bytes | memoryview], object], /) -> int:
        into(self._data)
        return len(self._data)

    def digest(self) -> str:
        return self._digest


class Mismatch(Exception):
    """The bytes are not those that they should be; its text says how."""


class Staged(NamedTuple):
    """A file that is written, and as of when its bytes are known."""

    file: Unpublished
    taken_ns: int


def stage(directory: int, written_ns: int, write: Callable[[Unpublished], object]) -> Staged:
    """Makes a new file, of which nothing stays if that fails.

    Args:
        directory: descriptor of the one in which it is to be published.
        written_ns: the modification time to be.
        write: writes the bytes, and may raise what it likes.

    Raises:
        OSError: it cannot be made.
    """
    file = Unpublished(directory)
    try:
        write(file)
        return Staged(file, file.settle(written_ns))
    except BaseException:
        file.discard()
        raise


def compared(content: Incoming, what: Item | Neighbour, into: Callable[[bytes | memoryview], object]) -> None:
    """Hands out all bytes in pieces; raises Mismatch unless they are those that they should be."""
    _check(what, content.pour(into), content.digest())


def fill(memory: memoryview, content: Incoming, what: Item | Neighbour) -> None:
    """Fills memory of the size that the bytes should have; raises Mismatch unless they are those."""
    left = memory

    def take(piece: bytes | memoryview) -> None:
        nonlocal left
        if len(piece) > len(left):
            raise Mismatch(f"It has more than the {what.bytes:,} bytes of the manifest.")
        left[: len(piece)] = piece
        left = left[len(piece) :]

    compared(content, what, take)


def whole(content: Incoming, what: Item | Neighbour) -> bytes:
    """All bytes in memory; raises Mismatch unless they are those that they should be."""
    data = bytearray()
    compared(content, what, data.extend)
    return bytes(data)


def _check(what: Item | Neighbour, size: int, digest: str) -> None:
    """Raises Mismatch unless the bytes are those that the manifest promises."""
    if size != what.bytes:
        raise Mismatch(f"It has {size:,} bytes, not the {what.bytes:,} of the manifest.")
    if digest != what.digest:
        raise Mismatch(f"Its digest {shown(digest)} is not {shown(what.digest)} as in the manifest.")
