"""Destinations of an archive: an open descriptor, such as a pipe, or a file that appears once it is whole."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from jcache.errors import JcacheError
from jcache.store import files, pending_file
from jcache.units import format_size

_MAX_PIECES_PER_CALL: Final = 64  # pieces; Linux takes 1,024


class Sink:
    """Writes all bytes that it is given, and counts them.

    Attributes:
        written: bytes written so far.
    """

    def __init__(self, where: str) -> None:
        """Messages call the destination ``where``."""
        self.written = 0
        self._where = where

    def writelines(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Write pieces, one after the other.

        Raises:
            JcacheError: the reader of the pipe has ended.
            CannotWrite: the pieces cannot be written for another reason.
        """
        with files.refusal(f"write the archive to {self._where}"):
            try:
                self._put(pieces)
            except BrokenPipeError:
                raise JcacheError(
                    f"The reader of the archive ended early, after {format_size(self.written)}: its own "
                    "message says why."
                ) from None

    def flush(self) -> None:
        """Do nothing, since every byte is written at once."""

    def _put(self, pieces: Sequence[bytes | memoryview]) -> None:
        raise NotImplementedError


class FileSink(Sink):
    """Writes to a new file."""

    def __init__(self, file: pending_file.PendingFile, where: str) -> None:
        super().__init__(where)
        self._file = file

    def _put(self, pieces: Sequence[bytes | memoryview]) -> None:
        for piece in pieces:
            self._file.write(piece)
            self.written += len(piece)


class DescriptorSink(Sink):
    """Writes to an open descriptor."""

    def __init__(self, descriptor: int, where: str) -> None:
        super().__init__(where)
        self._descriptor = descriptor

    def _put(self, pieces: Sequence[bytes | memoryview]) -> None:
        left = list(pieces)
        while left:
            try:
                count = os.writev(self._descriptor, left[:_MAX_PIECES_PER_CALL])
            except BlockingIOError:
                self._wait()
                continue
            self.written += count
            while left and count >= len(left[0]):
                count -= len(left.pop(0))
            if count:
                left[0] = memoryview(left[0])[count:]

    def _wait(self) -> None:
        """Wait until a pipe that another program has set to non-blocking takes more."""
        import select

        select.select([], [self._descriptor], [])
