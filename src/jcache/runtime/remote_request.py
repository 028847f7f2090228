"""A request to a store in a thread of its own, for which a program waits until a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from jcache import clock
from jcache.jax_internals.gc_pause import start_thread
from jcache.remote.entries import claims_of
from jcache.remote.transport import Pace

T = TypeVar("T")

_UNTIL_HEADERS_S: Final = 4.0  # of all attempts together
_LEAST_S: Final = 2.0  # for the bytes of an entry
_MOST_S: Final = 50.0
_BYTES_PER_S: Final = 4 << 20


class Request(Generic[T]):
    """A request in a thread of its own.

    Args:
        ask: sends it; what it raises counts as no answer.
        within_s: seconds until there must be an answer, or the size of it is known.

    Attributes:
        found: the answer.
    """

    def __init__(self, ask: Callable[[Pace], T | None], *, within_s: float | None = None) -> None:
        self.found: T | None = None
        self._ask = ask
        self._is_done = threading.Event()
        self._end = clock.monotonic() + (_UNTIL_HEADERS_S if within_s is None else within_s)

    def is_answered(self) -> bool:
        """Send the request; return whether it has ended in time, with an answer or without."""
        try:
            start_thread(self._run)
        except RuntimeError:  # the interpreter is ending, or there are no threads left
            return True
        while not self._is_done.wait(max(self._end - clock.monotonic(), 0.0)):
            if clock.monotonic() >= self._end:
                return False
        return True

    def _run(self) -> None:
        try:
            self.found = self._ask(self._pace)
        finally:
            self._is_done.set()

    def _pace(self, size: int | None, metadata: Mapping[str, str]) -> float:
        """Return the seconds that the bytes may take, as the deadline of whoever waits now is."""
        seconds = deadline_s(size or 0, claims_of(metadata)[1])
        self._end = clock.monotonic() + seconds
        return seconds


def deadline_s(size: int, build_s: float | None) -> float:
    """Return the seconds that a program waits for the bytes of an entry.

    Args:
        size: their number.
        build_s: what building the entry took, where that is known.
    """
    seconds = _LEAST_S + size / _BYTES_PER_S
    return min(seconds if build_s is None else min(seconds, max(build_s, _LEAST_S)), _MOST_S)
