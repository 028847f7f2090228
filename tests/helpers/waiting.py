"""Wait for events in other processes, without a time limit."""

import os
import tempfile
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

LIMIT_S: Final = 120.0  # to end a hang, never to measure


def until(condition: Callable[[], T], limit_s: float = LIMIT_S) -> T:
    """Asks until the answer is true, and gives it."""
    end = time.monotonic() + limit_s
    while not (answer := condition()):
        assert time.monotonic() < end, f"nothing happened in {limit_s:.0f} s: {condition}"
        time.sleep(0.01)
    return answer


def tick() -> None:
    """Wait until the clocks, including the file system's coarse one, show a time that no file here has."""
    before = time.time_ns()
    with tempfile.TemporaryFile() as file:

        def is_past() -> bool:
            os.utime(file.fileno())
            return os.fstat(file.fileno()).st_mtime_ns > before

        until(is_past)
