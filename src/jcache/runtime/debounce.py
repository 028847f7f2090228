"""Run an action once after a delay, however often it is requested meanwhile."""

import os
import time
import weakref
from collections.abc import Callable

from jcache.jax_internals.gc_pause import start_thread


class Debouncer:
    """Runs an action in a thread of its own, some seconds after the first request.

    Requests that come before the action has begun add no second run. The debouncer keeps neither the action's object
    alive nor the process from ending. It works in a forked child, too.

    Args:
        action: a bound method; its exceptions are ignored.
        sleep: sleeps for a number of seconds.
    """

    def __init__(self, action: Callable[[], object], *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._action = weakref.WeakMethod(action)
        self._sleep = sleep
        self._scheduled_by_pid: int | None = None  # the process whose thread is waiting

    def schedule(self, delay_s: float) -> None:
        """Request that the action runs in `delay_s` seconds."""
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
