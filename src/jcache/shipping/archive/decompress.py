"""The content of gzip members that anybody may have made, within bounds (RFC 1952)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

from jcache.shipping.archive.bounded_source import Budget, Source, truncated

MAGIC: Final = b"\x1f\x8b"
_INPUT: Final = 128 << 10  # the library hands back what it has not used


class Gunzipped:
    """The content of gzip members, and nothing but zeros behind them."""

    def __init__(self, source: Source, content: Callable[[], int]) -> None:
        self._source = source
        self._budget = Budget(source.name, content)
        self._member = zlib.decompressobj(31)
        self._input = self._held = b""

    def readinto(self, memory: memoryview, /) -> int:
        """Puts the next bytes into memory, at least one; returns how many, 0 at the end only."""
        if not self._held:
            self._held = self._piece()
        count = min(len(memory), len(self._held))
        memory[:count], self._held = self._held[:count], self._held[count:]
        return count

    def _piece(self) -> bytes:
        """A piece of the content, ``b""`` at the end only."""
        while True:
            self._input = self._input or self._source.some(_INPUT)
            if self._member.eof and not self._next_member():
                return b""
            if not self._input:
                raise truncated(self._source.name, self._source.received)
            data = self._member.decompress(self._input, _INPUT)
            self._input = self._member.unconsumed_tail or self._member.unused_data
            if data:
                return data
            self._budget.spend(steps=1)

    def _next_member(self) -> bool:
        """Whether there is another; what is not one must be padding of zeros."""
        while self._input and not self._input.strip(b"\0"):
            self._budget.spend(skipped=len(self._input))
            self._input = self._source.some(_INPUT)
        if not self._input:
            return False
        self._budget.spend(steps=1)
        self._member = zlib.decompressobj(31)
        return True
