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


def stage(directory: int, content: Incoming, what: Item | Neighbour, written_ns: int) -> Staged:
    """Writes a new file, of which nothing stays if that fails.

    Args:
        directory: descriptor of the one in which it is to be published.
        content: the bytes.
        what: says how many they should be, and their digest.
        written_ns: the modification time to be.

    Raises:
        Mismatch: they are not those that they should be.
        OSError: they cannot be written.
    """
    file = Unpublished(directory)
    try:
        _check(what, content.pour(file.write), content.digest())
        return Staged(file, file.settle(written_ns))
    except BaseException:
        file.discard()
        raise


def whole(content: Incoming, what: Item | Neighbour) -> bytes:
    """All bytes in memory; raises Mismatch unless they are those that they should be."""
    data = bytearray()
    _check(what, content.pour(data.extend), content.digest())
    return bytes(data)


def _check(what: Item | Neighbour, size: int, digest: str) -> None:
    """Raises Mismatch unless the bytes are those that the manifest promises."""
    if size != what.bytes:
        raise Mismatch(f"It has {size:,} bytes, not the {what.bytes:,} of the manifest.")
    if digest != what.digest:
        raise Mismatch(f"Its digest {shown(digest)} is not {shown(what.digest)} as in the manifest.")
