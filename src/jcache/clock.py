"""The clock of jcache: the only module that reads the time or sleeps, so that a test can replace it.

A module calls ``clock.now_ns()`` and never imports the function itself; a test replaces it with
``monkeypatch.setattr(clock, "now_ns", …)``.
"""

import time


def now_ns() -> int:
    """Return nanoseconds since 1970 by the system's clock, which may be set back or forward."""
    return time.time_ns()


def monotonic() -> float:
    """Return the seconds of a clock that only goes forward; only differences between two readings mean something.

    It is not ``time.monotonic``, which JAX's own tests replace by a few numbers meant for JAX alone.
    """
    return time.monotonic_ns() / 1e9


def thread_cpu() -> float:
    """Return the CPU seconds of this thread; unlike a clock, they do not grow while other processes have the CPU."""
    return time.thread_time()


def sleep(seconds: float) -> None:
    """Wait for some seconds."""
    time.sleep(seconds)
