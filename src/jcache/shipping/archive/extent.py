"""Files that go into an archive without passing through our memory, from which the kernel can move them into a pipe."""

from __future__ import annotations

import os
from contextlib import suppress


class Movable:
    """An open file whose bytes are to be moved.

    Attributes:
        descriptor: of the file.
        fell_short: whether some of its bytes could not be read, so that zeros have taken their place.
    """

    __slots__ = ("descriptor", "fell_short")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.fell_short = False


class Extent:
    """A piece of a file, sliced like memory that holds the same.

    Attributes:
        file: which.
        at: where in it the piece begins.
    """

    __slots__ = ("_size", "at", "file")

    def __init__(self, file: Movable, at: int, size: int) -> None:
        self.file = file
        self.at = at
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> Extent:
        start, stop, _ = part.indices(self._size)
        return Extent(self.file, self.at + start, stop - start)

    @property
    def data(self) -> bytes:
        """Its bytes, read."""
        data = b""
        with suppress(OSError):
            while (at := len(data)) < self._size and (
                more := os.pread(self.file.descriptor, self._size - at, self.at + at)
            ):
                data += more
        self.file.fell_short |= len(data) < self._size
        return data.ljust(self._size, b"\0")
