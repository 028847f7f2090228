"""The clock of jcache: the only module that reads the time or sleeps, so that a test can replace it.

A module calls ``clock.now_ns()`` and never imports the function itself; a test replaces it with
``monkeypatch.setattr(clock, "now_ns", …)``.
"""

import os
import time


def now_ns() -> int:
    """Return nanoseconds since 1970 by the system's clock, which may be set back or forward."""
    return time.time_ns()


def monotonic() -> float:
    """Return the seconds of a clock that only goes forward; only differences between two readings mean something.

    It is not ``time.monotonic``, which JAX's own tests replace by a few numbers meant for JAX alone.
    """
    return time.monotonic_ns() / 1e9


def shown() -> dict[str, float]:
    """Return what the clocks show now that programs read, by the names of their functions in ``time``."""
    return {
        "perf_counter": time.perf_counter(),
        "perf_counter_ns": time.perf_counter_ns(),
        "time": time.time(),
        "time_ns": time.time_ns(),
    }


def thread_cpu() -> float:
    """Return the CPU seconds of this thread; unlike a clock, they do not grow while other processes have the CPU."""
    return time.thread_time()


def began_ns() -> int:
    """Return when this process began, in nanoseconds since 1970; where the system does not say, at the latest when."""
    global _began
    if _began is None or _began[0] != os.getpid():
        _began = os.getpid(), _find_beginning_ns()
    return _began[1]


def _find_beginning_ns() -> int:
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        up_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        return now_ns() - up_ns
    except (OSError, ValueError, AttributeError, IndexError):
        return _IMPORTED_NS


def sleep(seconds: float) -> None:
    """Wait for some seconds."""
    time.sleep(seconds)


_IMPORTED_NS = time.time_ns() - time.process_time_ns()  # a process is not younger than the CPU time that it has used
_began: tuple[int, int] | None = None
