"""Garbage collection put off while modules are imported, and while a trace is made or looked up.

What these allocate is needed, so that collecting finds next to none, and with the heap of a large program each time
takes a tenth of a second.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class _Mine(threading.local):
    puts_off: bool = False


class _Collector:
    """Python's collector, which is on again when nobody puts it off any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mine = _Mine()
        self._count = 0  # threads that put it off
        self._was_enabled = False

    def put_off(self) -> None:
        """Has it wait for this thread, unless it does."""
        if self._mine.puts_off:
            return
        with self._lock:
            if not self._count:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1
            self._mine.puts_off = True

    def go_on(self) -> None:
        """Lets it go on, as far as this thread is concerned."""
        if not self._mine.puts_off:
            return
        with self._lock:
            self._mine.puts_off = False
            self._count -= 1
            if not self._count and self._was_enabled:
                gc.enable()

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Has it wait meanwhile."""
        did_wait = self._mine.puts_off
        self.put_off()
        try:
            yield
        finally:
            if not did_wait:
                self.go_on()

    def begin_in_child(self) -> None:
        """In a forked child, other threads are no more."""
        is_off, was_enabled = self._count > 0, self._was_enabled
        self.__init__()  # type: ignore[misc]  # the lock may be held for good
        if is_off and was_enabled:
            gc.enable()


collector: Final = _Collector()
os.register_at_fork(after_in_child=collector.begin_in_child)
