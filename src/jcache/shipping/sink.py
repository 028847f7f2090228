"""Where an archive goes: as it comes into a pipe or a device, or into a file that is there once it is whole.

What lies in a file is moved into a pipe by reference (``splice``), which spares a copy of all that is exported. Until
the reader has taken it, it is the file's: who changes the file by then changes what is read. That is told afterwards
from the file (`jcache.shipping.sending`), for which `Sink.holds` says how much may wait in the pipe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from jcache import files
from jcache.archive.extent import Extent
from jcache.archive.pipes import widened
from jcache.errors import JcacheError
from jcache.units import format_size

_AT_ONCE: Final = 64  # pieces; Linux takes 1,024

Piece: TypeAlias = bytes | memoryview | Extent


class Sink:
    """Takes bytes to where they go, all of them, and counts them.

    Attributes:
        written: bytes so far.
        holds: how many of these at most nobody has read yet, where they can be moved out of files; otherwise 0.
    """

    def __init__(self, put: Callable[[list[Piece]], Iterable[int]], where: str, *, holds: int = 0) -> None:
        self.written = 0
        self.holds = holds
        self._put = put
        self._where = where

    @classmethod
    def into(cls, descriptor: int, where: str) -> Sink:
        """One that writes to what is open, which is called so in messages."""
        holds = widened(descriptor) if hasattr(os, "splice") else 0
        return cls(lambda pieces: _written(descriptor, pieces), where, holds=holds)

    @classmethod
    def into_new(cls, file: files.Unpublished, where: str) -> Sink:
        """One that writes to a new file."""
        return cls(lambda pieces: _filled(file, pieces), where)

    def writelines(self, pieces: list[Piece]) -> None:
        """Writes pieces, one behind the other."""
        with files.refusal(f"write the archive to {self._where}"):
            try:
                for count in self._put(pieces):
                    self.written += count
            except BrokenPipeError:
                raise JcacheError(
                    f"What read the archive has ended before it had all, after {format_size(self.written)}: its own "
                    "message says why."
                ) from None

    def flush(self) -> None:
        """Nothing is held back."""


def _filled(file: files.Unpublished, pieces: list[Piece]) -> Iterator[int]:
    for piece in pieces:
        file.write(piece.data if isinstance(piece, Extent) else piece)
        yield len(piece)


def _written(descriptor: int, pieces: list[Piece]) -> Iterator[int]:
    plain: list[bytes | memoryview] = []
    for piece in pieces:
        if isinstance(piece, Extent):
            yield from _copied(descriptor, plain)
            yield from _moved(descriptor, piece)
            plain = []
        else:
            plain.append(piece)
    yield from _copied(descriptor, plain)


def _copied(descriptor: int, pieces: list[bytes | memoryview]) -> Iterator[int]:
    while pieces:
        try:
            written = os.writev(descriptor, pieces[:_AT_ONCE])
        except BlockingIOError:
            _wait_for(descriptor)
            continue
        yield written
        while pieces and written >= len(pieces[0]):
            written -= len(pieces.pop(0))
        if written:
            pieces[0] = memoryview(pieces[0])[written:]


def _moved(descriptor: int, extent: Extent) -> Iterator[int]:
    """Moves an extent into a pipe, or copies it where the file cannot be moved."""
    while extent:
        try:
            count = os.splice(extent.file, descriptor, len(extent), offset_src=extent.at)
        except BlockingIOError:
            _wait_for(descriptor)
            continue
        except BrokenPipeError:
            raise
        except OSError:  # a file system that cannot
            count = 0
        if not count:  # that, or a file that has become shorter
            yield from _copied(descriptor, [extent.data])
            return
        yield count
        extent = extent[count:]


def _wait_for(descriptor: int) -> None:
    """Waits for a pipe that somebody has told not to wait."""
    import select

    select.select([], [descriptor], [])
