"""Staging: write incoming bytes to files without a visible name, piece by piece, and compare size and digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from jcache.formats.digest import Hasher, shown
from jcache.shipping.archive.manifest import Item, XlaFile
from jcache.shipping.archive.members import PIECE_BYTES
from jcache.store.pending_file import PendingFile

_ONE_BYTE: Final = memoryview(bytearray(1))  # nothing is left that would be put there


class ByteSource(Protocol):
    """A source of an entry's stored bytes."""

    def readinto(self, memory: memoryview, /) -> int | None:
        """Put the next bytes, at least one, into memory; return how many, 0 only at the end."""


class ContentMismatch(Exception):
    """The bytes do not have the size or digest of the manifest, or fail a check; the text says which."""


class StagedFile(NamedTuple):
    """A file that is written, and the time in nanoseconds as of which its bytes are known."""

    file: PendingFile
    taken_ns: int


class StagedMember(NamedTuple):
    """An entry whose bytes have the digest of its item, and its file."""

    entry: Item
    staged: StagedFile

    @property
    def size(self) -> int:
        """Number of stored bytes."""
        return self.entry.bytes


class FileStager:
    """Writes a new file piece by piece; removes it if that fails.

    Args:
        directory: descriptor of the directory in which the file will be published.
        written_ns: modification time of the file, nanoseconds since 1970.
        used_ns: access time of the file, nanoseconds since 1970; None for the modification time.
    """

    def __init__(self, directory: int, written_ns: int, used_ns: int | None = None) -> None:
        self._directory = directory
        self._times = written_ns, used_ns
        self._file: PendingFile | None = None

    def add(self, data: memoryview) -> None:
        """Write the next bytes.

        Raises:
            OSError: they cannot be written. The file is removed, and nothing more may be added.
        """
        try:
            self._write(data)
        except BaseException:
            self.discard()
            raise

    def finish(self, data: memoryview) -> StagedFile:
        """Write the last bytes; return the file. Raise as `add`."""
        try:
            file = self._write(data)
            return StagedFile(file, file.settle(*self._times))
        except BaseException:
            self.discard()
            raise

    def _write(self, data: memoryview) -> PendingFile:
        if self._file is None:
            self._file = PendingFile(self._directory)
        self._file.write(data)
        return self._file

    def discard(self) -> None:
        """Remove the file, if there is one."""
        if self._file is not None:
            self._file.discard()


def checked_pieces(
    content: ByteSource, entry: Item | XlaFile, reserve: Callable[[int], memoryview]
) -> Iterator[tuple[memoryview, bool]]:
    """Yield all bytes, in one or more pieces of filled memory, and whether each piece is the last.

    Args:
        content: the source of the bytes.
        entry: the manifest's size and digest.
        reserve: lends memory for so many bytes, or for as many as it has room for.

    Raises:
        ContentMismatch: size or digest differ. It is raised before the last piece is yielded.
    """
    hasher, size = Hasher(), 0
    while True:
        memory = left = reserve(entry.bytes - size)
        while left and (count := content.readinto(left)):
            hasher.update(left[:count])  # at once, while they are in the core's cache
            left = left[count:]
        size += len(memory) - len(left)
        if left:
            raise ContentMismatch(f"It has {size:,} bytes, not the {entry.bytes:,} of the manifest.")
        is_last = size == entry.bytes
        if is_last and content.readinto(_ONE_BYTE):
            raise ContentMismatch(f"It has more than the {entry.bytes:,} bytes of the manifest.")
        if is_last and (found := hasher.digest()) != entry.digest:
            raise ContentMismatch(f"Its digest {shown(found)} is not the manifest's {shown(entry.digest)}.")
        yield memory, is_last
        if is_last:
            return


def stage_file(content: ByteSource, entry: Item | XlaFile, directory: int, written_ns: int) -> StagedFile:
    """Write all bytes to a new file.

    Args:
        content: the source of the bytes.
        entry: the manifest's size and digest.
        directory: as in `FileStager`.
        written_ns: as in `FileStager`.

    Raises:
        OSError: the file cannot be written.
        ContentMismatch: size or digest differ.
    """
    stager = FileStager(directory, written_ns)
    try:
        for piece, is_last in checked_pieces(content, entry, _reused_buffer()):
            if is_last:
                return stager.finish(piece)
            stager.add(piece)
    except BaseException:
        stager.discard()
        raise
    raise AssertionError("the last piece is the last one")


def checked_bytes(content: ByteSource, entry: Item | XlaFile) -> bytes:
    """Return all bytes; raise ContentMismatch if size or digest differ."""
    data = bytearray()
    for piece, _ in checked_pieces(content, entry, _reused_buffer()):
        data += piece
    return bytes(data)


def _reused_buffer() -> Callable[[int], memoryview]:
    """Return a function that lends the same memory again and again."""
    memory = memoryview(bytearray(PIECE_BYTES))
    return lambda size: memory[:size]
