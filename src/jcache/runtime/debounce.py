"""Doing something a moment later, without keeping anybody waiting."""

import os
import time
import weakref
from collections.abc import Callable

from jcache.jax_internals.gc_pause import start_thread


class Debouncer:
    """Does something once, a moment after it was asked for, in a thread of its own.

    Asked again meanwhile, it still does it once. It keeps its object neither alive nor the process from ending, and
    goes on in a forked child.

    Args:
        action: a bound method. What it raises is lost.
        sleep: lets so many seconds pass.
    """

    def __init__(self, action: Callable[[], object], *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._action = weakref.WeakMethod(action)
        self._sleep = sleep
        self._scheduled_by_pid: int | None = None  # the process that a thread waits in

    def schedule(self, delay_s: float) -> None:
        """Asks for it in so many seconds."""
        process = os.getpid()
        if self._scheduled_by_pid == process:
            return
        self._scheduled_by_pid = process
        try:
            start_thread(self._act, after=delay_s, sleep=self._sleep)
        except RuntimeError:  # the interpreter is ending, or there are no threads left
            self._scheduled_by_pid = None

    def _act(self) -> None:
        self._scheduled_by_pid = None
        action = self._action()
        if action is not None:
            action()
