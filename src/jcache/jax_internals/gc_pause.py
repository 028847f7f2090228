"""Garbage collection put off while modules are imported, while a trace is made or looked up, and in jcache's threads.

What the first two allocate is needed, so that collecting finds next to none, and with the heap of a large program each
time takes a tenth of a second.

Python collects in whichever thread happens to allocate, and runs there the finalizers (``__del__``) of what it finds.
Those of a program may rely on running in a thread of the program. So jcache starts its threads in a program by
`start_thread`: collection waits while they work, for the whole process, since Python cannot tell threads apart in this.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
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
        if not self._mine.puts_off:
            with self._lock:
                self._one_more()
                self._mine.puts_off = True

    def go_on(self) -> None:
        """Lets it go on, as far as this thread is concerned."""
        if self._mine.puts_off:
            with self._lock:
                self._mine.puts_off = False
                self._one_less()

    def waits_for(self, work: Callable[[], object]) -> None:
        """Does a thread's work while it waits; what the work raises is lost.

        Not even this allocates what is collected, as a ``with`` statement does: nothing may be collected here.
        """
        self._lock.acquire()  # no signal interrupts a thread that is not the main one
        self._one_more()
        self._lock.release()
        try:  # noqa: SIM105
            work()
        except BaseException:  # noqa: BLE001, S110
            pass
        self._lock.acquire()
        self._one_less()
        self._lock.release()

    def _one_more(self) -> None:
        if not self._count:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._count += 1

    def _one_less(self) -> None:
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


def start_thread(
    work: Callable[[], object], *, after: float = 0.0, sleep: Callable[[float], object] = time.sleep
) -> None:
    """Starts a thread of jcache's in a program; it keeps the process from ending no more than a daemon does.

    `threading.Thread` is of no use here: it allocates before its target is called, and after that.

    Args:
        work: is done in it; what it raises is lost.
        after: seconds that the thread waits first, while collection goes on elsewhere.
        sleep: lets so many seconds pass.

    Raises:
        RuntimeError: there can be no more threads.
    """
    start_new_thread(_run, (work, after, sleep))


def _run(work: Callable[[], object], after: float, sleep: Callable[[float], object]) -> None:
    if after > 0:
        sleep(after)
    collector.waits_for(work)


os.register_at_fork(after_in_child=collector.begin_in_child)
