"""Where an archive goes: as it comes into a pipe or a device, or into a file that is there once it is whole.

What lies in a file is moved into a pipe by reference (``splice``), which spares a copy of all that is exported. Until
the reader has taken it, it is the file's: who changes the file by then changes what is read. That is told afterwards
from the file (`jcache.shipping.exporter.send`), for which `Sink.holds` says how much may wait in the pipe.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeAlias

from jcache.errors import JcacheError
from jcache.shipping.archive.extent import Extent
from jcache.shipping.archive.pipes import widened
from jcache.store import files
from jcache.units import format_size

_AT_ONCE: Final = 64  # pieces; Linux takes 1,024

Piece: TypeAlias = bytes | memoryview | Extent


class Sink:
    """Takes bytes to where they go, all of them, and counts them.

    Attributes:
        written: bytes so far.
        holds: how many of these at most nobody has read yet, where they can be moved out of files; otherwise 0.
    """

    holds = 0

    def __init__(self, where: str) -> None:
        """What it writes to is called so in messages."""
        self.written = 0
        self._where = where

    def writelines(self, pieces: Sequence[Piece]) -> None:
        """Writes pieces, one behind the other."""
        with files.refusal(f"write the archive to {self._where}"):
            try:
                self._put(pieces)
            except BrokenPipeError:
                raise JcacheError(
                    f"What read the archive has ended before it had all, after {format_size(self.written)}: its own "
                    "message says why."
                ) from None

    def flush(self) -> None:
        """Nothing is held back."""

    def _put(self, pieces: Sequence[Piece]) -> None:
        raise NotImplementedError


class FileSink(Sink):
    """Writes to a new file."""

    def __init__(self, file: files.Unpublished, where: str) -> None:
        super().__init__(where)
        self._file = file

    def _put(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            self._file.write(piece.data if isinstance(piece, Extent) else piece)
            self.written += len(piece)


class OpenSink(Sink):
    """Writes to what is open: moves files into it if it is a pipe."""

    def __init__(self, descriptor: int, where: str) -> None:
        super().__init__(where)
        self.holds = widened(descriptor) if hasattr(os, "splice") else 0
        self._descriptor = descriptor

    def _put(self, pieces: Sequence[Piece]) -> None:
        plain: list[bytes | memoryview] = []
        for piece in pieces:
            if isinstance(piece, Extent):
                self._copy(plain)
                self._move(piece)
                plain = []
            else:
                plain.append(piece)
        self._copy(plain)

    def _copy(self, pieces: list[bytes | memoryview]) -> None:
        while pieces:
            try:
                count = os.writev(self._descriptor, pieces[:_AT_ONCE])
            except BlockingIOError:
                self._wait()
                continue
            self.written += count
            while pieces and count >= len(pieces[0]):
                count -= len(pieces.pop(0))
            if count:
                pieces[0] = memoryview(pieces[0])[count:]

    def _move(self, extent: Extent) -> None:
        """Moves an extent into a pipe, or copies it where the file cannot be moved."""
        at, left = extent.at, len(extent)
        while left:
            try:
                count = os.splice(extent.file.descriptor, self._descriptor, left, at)
            except BlockingIOError:
                self._wait()
                continue
            except BrokenPipeError:
                raise
            except OSError:  # a file system that cannot
                count = 0
            if not count:  # that, or a file that has become shorter
                return self._copy([extent[len(extent) - left :].data])
            self.written += count
            at += count
            left -= count
        return None

    def _wait(self) -> None:
        """Waits for a pipe that somebody has told not to wait."""
        import select

        select.select([], [self._descriptor], [])
