"""Fetch entries from a store before a program asks for them, a few at a time, in the order in which it will ask.

The threads end with the process: an interrupted command waits for no server.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

_THREADS: Final = 8


class Prefetch:
    """Keys that are being fetched; several threads may use it.

    Args:
        fetch: fetches one key and keeps its entry; it is called in other threads, and must not raise.
        keys: the keys, in their order.
    """

    def __init__(self, fetch: Callable[[str], object], keys: Iterable[str]) -> None:
        self._fetch = fetch
        self._waiting = dict.fromkeys(keys)  # the first one is the next
        self._under_way: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        for _ in range(min(_THREADS, len(self._waiting))):
            threading.Thread(target=self._work, name="jcache prefetch", daemon=True).start()

    def has_fetched(self, key: str) -> bool:
        """Return whether a key has been fetched, after waiting if that has begun; else it is the caller's to fetch."""
        with self._lock:
            self._waiting.pop(key, None)
            done = self._under_way.get(key)
        if done is None:
            return False
        done.wait()
        return True

    def stop(self) -> None:
        """Begin to fetch no other key."""
        with self._lock:
            self._waiting.clear()

    def _work(self) -> None:
        while (key := self._next()) is not None:
            try:
                self._fetch(key)
            finally:
                self._under_way[key].set()

    def _next(self) -> str | None:
        with self._lock:
            key = next(iter(self._waiting), None)
            if key is not None:
                del self._waiting[key]
                self._under_way[key] = threading.Event()
            return key
