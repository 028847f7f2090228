"""Files that go into an archive without passing through our memory, from which the kernel can move them into a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

_AT_ONCE: Final = 4 << 20


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

    def extents(self, size: int) -> Iterator[Extent]:
        """So many of its bytes, in order."""
        for at in range(0, size, _AT_ONCE):
            yield Extent(self, at, min(_AT_ONCE, size - at))


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
