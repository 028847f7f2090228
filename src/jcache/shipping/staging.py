"""Bytes that arrive, written to files that nobody sees yet, while the next ones are decompressed and hashed already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol

from jcache.archive.manifest import Item, Neighbour
from jcache.digests import shown
from jcache.files import Unpublished

PIECE: Final = 1 << 20
_AT_ONCE: Final = 4 << 20  # what is larger is written piece by piece, so that memory stays constant
_SMALL: Final = 64 << 10
_AHEAD: Final = 8  # files whose bytes may wait in memory
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h
_KEPT: Final = 32 << 20  # the most that glibc allows


class Incoming(Protocol):
    """Where the stored bytes of an entry come from, in pieces; `digest` is of what has been read."""

    def read(self, size: int = ..., /) -> bytes | memoryview: ...
    def digest(self) -> str: ...


class Held:
    """Bytes that are read already, and their digest."""

    def __init__(self, data: bytes, digest: str) -> None:
        self._data = data
        self._digest = digest

    def read(self, size: int = -1, /) -> bytes:
        """All of them, and then none."""
        del size
        data, self._data = self._data, b""
        return data

    def digest(self) -> str:
        return self._digest


class Mismatch(Exception):
    """The bytes are not those that they should be; its text says how."""


class Staged(NamedTuple):
    """A file that is written, and as of when its bytes are known."""

    file: Unpublished
    taken_ns: int


class Staging:
    """Writes files, the larger ones by a thread of its own: to hand a small one over takes longer than to write it."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._writing: list[Future[Staged]] = []
        _keep_memory()

    def close(self) -> None:
        """Waits for what is being written; what has not been begun is not."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def stage(
        self, directory: int, content: Incoming, what: Item | Neighbour, written_ns: int
    ) -> Staged | Future[Staged]:
        """Takes the bytes, all of them, and writes them now or soon.

        Args:
            directory: descriptor of the one in which they are to be published.
            content: the bytes.
            what: says how many they should be, and their digest.
            written_ns: the modification time to be.

        Raises:
            Mismatch: they are not those that they should be; nothing of them stays.
            OSError: they cannot be written.
        """
        pieces: list[bytes | memoryview] = []
        size = 0
        while size <= _AT_ONCE and (data := content.read(PIECE)):
            pieces.append(data)
            size += len(data)
        if size > _AT_ONCE:
            return _written(directory, pieces, iter(partial(content.read, PIECE), b""), content, what, written_ns)
        check(what, size, content.digest())
        if size <= _SMALL:
            return _write(directory, pieces, written_ns)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1)
        if len(self._writing) >= _AHEAD:
            self._writing.pop(0).exception()  # waits; whoever has asked for it will meet its error
        self._writing.append(self._pool.submit(_write, directory, pieces, written_ns))
        return self._writing[-1]


def _keep_memory() -> None:
    """Has the C library reuse the memory of pieces, which it would give back and ask for again all the time.

    With glibc this takes a quarter of the time that the system spends on an import; others have no such call.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        for parameter in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            library.mallopt(parameter, _KEPT)


def check(what: Item | Neighbour, size: int, digest: str) -> None:
    """Raises Mismatch unless the bytes are those that the manifest promises."""
    if size != what.bytes:
        raise Mismatch(f"It has {size:,} bytes, not the {what.bytes:,} of the manifest.")
    if digest != what.digest:
        raise Mismatch(f"Its digest {shown(digest)} is not {shown(what.digest)} as in the manifest.")


def _write(directory: int, pieces: Sequence[bytes | memoryview], written_ns: int) -> Staged:
    def fill(file: Unpublished) -> None:
        for piece in pieces:
            file.write(piece)

    return _filled(directory, fill, written_ns)


def _written(
    directory: int,
    pieces: list[bytes | memoryview],
    rest: Iterator[bytes | memoryview],
    content: Incoming,
    what: Item | Neighbour,
    written_ns: int,
) -> Staged:
    """Writes a large file piece by piece, and compares afterwards."""

    def fill(file: Unpublished) -> None:
        size = 0
        while pieces:
            size += len(pieces[0])
            file.write(pieces.pop(0))
        for piece in rest:
            size += len(piece)
            file.write(piece)
        check(what, size, content.digest())

    return _filled(directory, fill, written_ns)


def _filled(directory: int, fill: Callable[[Unpublished], object], written_ns: int) -> Staged:
    """A new file; nothing of it stays if it cannot be filled."""
    file = Unpublished(directory)
    try:
        fill(file)
        return Staged(file, file.settle(written_ns))
    except BaseException:
        file.discard()
        raise
