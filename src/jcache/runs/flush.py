"""Write the report of this process to the ledger of a root, now and then. No failure reaches the program."""

# ruff: noqa: BLE001 - see above

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache import clock
from jcache.layout import Kind, Root
from jcache.runs.calls import HIT
from jcache.store.ledger import Known, Ledger

if TYPE_CHECKING:
    from jcache.runs.in_process import CacheMonitor
    from jcache.runs.log import Program

_FIRST_FLUSH_S: Final = 5.0
_FLUSH_INTERVAL_S: Final = 30.0
_MAX_FLUSH_SHARE: Final = 0.01  # of a program's time
_BUSY_TIMEOUT_S: Final = 0.5
_WAIT_TIMEOUT_S: Final = 5.0


class FlushState:
    """The part of a monitor's report that the ledger has already.

    Attributes:
        lock: serializes flushes.
        programs: number of the report's programs that the ledger has.
        due: time of the next flush, on the clock `jcache.clock.monotonic`.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.programs = 0
        self.due = clock.monotonic() + _FIRST_FLUSH_S

    def wait(self) -> None:
        """Wait some seconds for a flush in another thread to end."""
        if self.lock.acquire(timeout=_WAIT_TIMEOUT_S):
            self.lock.release()


def flush(root: Root, monitor: CacheMonitor, *, notices: Sequence[str] = (), wait: float = _BUSY_TIMEOUT_S) -> bool:
    """Write a monitor's report to the ledger of a root; repeated calls count each hit once.

    Nothing is written for a process that compiled nothing, or that `jcache run` records anyway, and nothing after
    `monitor.stop`.

    Args:
        root: the root.
        monitor: the monitor.
        notices: notices for the report.
        wait: seconds to wait for a busy ledger.

    Returns:
        Whether the ledger has the report now.
    """
    flush_state = monitor.flush_state
    if not flush_state.lock.acquire(timeout=wait):
        return False
    began = clock.monotonic()
    try:
        from jcache.runs.environment import is_recorded_by_run

        if monitor.is_stopped or is_recorded_by_run(os.environ):
            return False
        with closing(Ledger(root.ledger, busy_timeout=wait)) as ledger:
            is_recorded = _record(ledger, root.directory(Kind.EXECUTABLES), monitor, notices)
        if is_recorded:
            monitor.keep_record(root)
        return is_recorded
    except Exception:
        return False
    finally:
        now = clock.monotonic()
        flush_state.due = now + max(_FLUSH_INTERVAL_S, (now - began) / _MAX_FLUSH_SHARE)
        flush_state.lock.release()


def seconds_until_due(monitor: CacheMonitor) -> float:
    """Return the seconds until the next `flush` is due."""
    return max(0.0, monitor.flush_state.due - clock.monotonic())


def _record(ledger: Ledger, directory: Path, monitor: CacheMonitor, notices: Sequence[str]) -> bool:
    from jcache.runs.environment import ledger_news, stored_programs

    done = monitor.report()
    programs = done.programs
    if not programs and not done.traces and not done.graphs:
        return False
    _look_up_build_seconds(ledger, monitor, stored_programs(directory, programs[monitor.flush_state.programs :]))
    report = monitor.report(notices=notices)

    def stored(key: str, program: Program) -> Known:
        jaxlib = report.jaxlib_version
        return Known(Kind.EXECUTABLES, key, seconds=program.seconds, run=report.id, jaxlib=jaxlib)

    ledger.record(ledger_news(stored_programs(directory, report.programs[monitor.flush_state.programs :]), stored))
    monitor.flush_state.programs = len(report.programs)
    ledger.add_run(report.id, report.started_ns, json.dumps(report.to_json()))
    return True


def _look_up_build_seconds(ledger: Ledger, monitor: CacheMonitor, programs_here: Sequence[tuple[str, Program]]) -> None:
    """Add the build times of hits that the ledger has on record."""
    hits = {key: program.key for key, program in programs_here if program.outcome == HIT}
    unknown = [key for key, jax_key in hits.items() if jax_key not in monitor.build_seconds]
    for key, known in ledger.known(Kind.EXECUTABLES, unknown).items():
        jax_key = hits[key]
        if jax_key is not None and known.seconds is not None:
            monitor.build_seconds[jax_key] = known.seconds
