"""Doing something a moment later, without keeping anybody waiting."""

import os
import time
import weakref
from collections.abc import Callable

from jcache.jax_internals.gc_pause import start_thread


class Soon:
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
        self._asked_in: int | None = None  # the process that a thread waits in

    def ask(self, delay: float) -> None:
        """Asks for it in so many seconds."""
        process = os.getpid()
        if self._asked_in == process:
            return
        self._asked_in = process
        try:
            start_thread(self._act, after=delay, sleep=self._sleep)
        except RuntimeError:  # the interpreter is ending, or there are no threads left
            self._asked_in = None

    def _act(self) -> None:
        self._asked_in = None
        action = self._action()
        if action is not None:
            action()
