"""Clocks that tests set, a lock whose waiting time is recorded, and a count of executed lines of Python."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jcache import clock
from jcache.store import locking


class StoppedClock:
    """jcache's clock as a test has it: it goes on when it is told to, and when somebody waits, who need not.

    Attributes:
        slept: the seconds that somebody would have waited, each time.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slept: list[float] = []
        self._start_ns, self._passed = time.time_ns(), 0.0
        monkeypatch.setattr(clock, "now_ns", lambda: self._start_ns + round(self._passed * 1e9))
        monkeypatch.setattr(clock, "monotonic", lambda: self._passed)
        monkeypatch.setattr(clock, "sleep", self._sleep)

    def go_on(self, seconds: float) -> None:
        """Lets time pass."""
        self._passed += seconds

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.go_on(seconds)


def waits_for_locks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that this process waits at most for a directory's lock, each time that it asks for one."""
    asked: list[float] = []
    acquire = locking._acquire

    def listed(directory: int, path: Path, timeout: float) -> int | None:
        asked.append(timeout)
        return acquire(directory, path, timeout)

    monkeypatch.setattr(locking, "_acquire", listed)
    return asked


def lines_run(call: Callable[[], object], at_most: int) -> int:
    """Return how many lines of Python a call runs; stop it after a maximum."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        assert count <= at_most, f"more than {at_most} lines of Python"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
