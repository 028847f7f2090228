"""What time it is. jcache asks here and nowhere else, so that a test can say what time it is, and wait for nothing.

A module reads the clock as ``clock.now_ns()``, never through a name of its own; a test replaces it with
``monkeypatch.setattr(clock, "now_ns", …)``.
"""

import time


def now_ns() -> int:
    """Nanoseconds since the epoch, by the system's clock, which may be set back or forward."""
    return time.time_ns()


def monotonic() -> float:
    """Seconds of a clock that only goes forward; only differences mean something.

    It is not ``time.monotonic``, which JAX's own tests replace by a few numbers that only JAX is to ask for.
    """
    return time.monotonic_ns() / 1e9


def sleep(seconds: float) -> None:
    """Waits for so many seconds."""
    time.sleep(seconds)
