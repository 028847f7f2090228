"""Bytes that are in memory, and in a file too, from which the kernel can move them into a pipe without a copy."""

from __future__ import annotations


class Extent:
    """A piece of a file, sliced like the memory that holds the same.

    Attributes:
        data: the bytes, as they were read.
        file: descriptor of the file.
        at: where in it they begin.
    """

    __slots__ = ("at", "data", "file")

    def __init__(self, data: memoryview, file: int, at: int) -> None:
        self.data = data
        self.file = file
        self.at = at

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, part: slice) -> Extent:
        start, stop, _ = part.indices(len(self.data))
        return Extent(self.data[start:stop], self.file, self.at + start)
