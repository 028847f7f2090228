"""Bytes that arrive, written to files that nobody sees yet, piece by piece as they come, and compared at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from jcache.formats.digest import Hasher, shown
from jcache.shipping.archive.manifest import Item, Neighbour
from jcache.shipping.archive.members import PIECE_BYTES
from jcache.store.files import Unpublished


class ByteSource(Protocol):
    """Where the stored bytes of an entry come from."""

    def readinto(self, memory: memoryview, /) -> int | None:
        """Puts the next bytes into memory, at least one; returns how many, 0 at the end only."""


class ContentMismatch(Exception):
    """The bytes are not those that they should be; its text says how."""


class StagedFile(NamedTuple):
    """A file that is written, and as of when its bytes are known."""

    file: Unpublished
    taken_ns: int


class FileStager:
    """A new file that is written piece by piece; nothing stays of it if that fails.

    Args:
        directory: descriptor of the one in which it is to be published.
        written_ns: the modification time to be.
        used_ns: the access time to be; None for the same.
    """

    def __init__(self, directory: int, written_ns: int, used_ns: int | None = None) -> None:
        self._directory = directory
        self._times = written_ns, used_ns
        self._file: Unpublished | None = None

    def add(self, data: memoryview, *, is_last: bool) -> StagedFile | None:
        """Writes the next bytes; with the last, the file is done.

        Raises:
            OSError: it cannot be written; nothing stays, and nothing more is to be added.
        """
        try:
            if self._file is None:
                self._file = Unpublished(self._directory)
            self._file.write(data)
            return StagedFile(self._file, self._file.settle(*self._times)) if is_last else None
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Lets nothing stay of it."""
        if self._file is not None:
            self._file.discard()


def checked_pieces(
    content: ByteSource, what: Item | Neighbour, room: Callable[[int], memoryview]
) -> Iterator[tuple[memoryview, bool]]:
    """All bytes, in one or more pieces of memory that is filled with them, and whether each is the last.

    Args:
        content: where they come from.
        what: what they should be.
        room: lends memory for so many bytes, or for as many as there is room for.

    Raises:
        Mismatch: the bytes are not those that they should be; before the last piece is handed out.
    """
    hasher, size = Hasher(), 0
    while True:
        memory = left = room(what.bytes - size)
        while left and (count := content.readinto(left)):
            hasher.update(left[:count])  # at once, while they are in the cache of a core
            left = left[count:]
        size += len(memory) - len(left)
        if left:
            raise ContentMismatch(f"It has {size:,} bytes, not the {what.bytes:,} of the manifest.")
        is_last = size == what.bytes
        if is_last and content.readinto(memoryview(bytearray(1))):
            raise ContentMismatch(f"It has more than the {what.bytes:,} bytes of the manifest.")
        if is_last and (found := hasher.digest()) != what.digest:
            raise ContentMismatch(f"Its digest {shown(found)} is not {shown(what.digest)} as in the manifest.")
        yield memory, is_last
        if is_last:
            return


def stage_file(content: ByteSource, what: Item | Neighbour, directory: int, written_ns: int) -> StagedFile:
    """A file of all bytes.

    Args:
        content: where they come from.
        what: what they should be.
        directory: as of `FileStager`.
        written_ns: as of `FileStager`.

    Raises:
        OSError: it cannot be written.
        Mismatch: the bytes are not those that they should be.
    """
    landing = FileStager(directory, written_ns)
    try:
        for piece, is_last in checked_pieces(content, what, _reused_buffer()):
            if staged := landing.add(piece, is_last=is_last):
                return staged
    except BaseException:
        landing.discard()
        raise
    raise AssertionError("the last piece is the last one")


def checked_bytes(content: ByteSource, what: Item | Neighbour) -> bytes:
    """All bytes in memory; raises Mismatch unless they are those that they should be."""
    data = bytearray()
    for piece, _ in checked_pieces(content, what, _reused_buffer()):
        data += piece
    return bytes(data)


def _reused_buffer() -> Callable[[int], memoryview]:
    """Lends the same memory again and again."""
    memory = memoryview(bytearray(PIECE_BYTES))
    return lambda size: memory[:size]
