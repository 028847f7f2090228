"""Record what JAX's cache does in this process, with the listener and the log reader of `jcache run`.

A `CacheMonitor` queues the lines that the recorder would write. It reads the queue when a report is requested or when
many lines are queued, so that a compilation is delayed by microseconds only. `jcache.runs.flush` writes the report to
the ledger of a root. No failure in this module reaches the program. The first `CacheMonitor` imports JAX.
"""

# ruff: noqa: BLE001 - see above

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jcache import clock
from jcache.jax_internals import monitoring
from jcache.layout import Root
from jcache.patching import AttributePatch
from jcache.runs import observers
from jcache.runs.flush import FlushState
from jcache.runs.recorder.listener import END_OF_COMPILE, JaxListener
from jcache.runs.recorder.taps import TAPPED, TAPS

if TYPE_CHECKING:
    from jcache.runs.key_monitor import KeyMonitor
    from jcache.runs.log import LogReader
    from jcache.runs.report import RunReport

_MAX_PENDING_LINES: Final = 1000  # of some 80 programs
_MAX_CODE_CHARS: Final = 200


class CacheMonitor:
    """Records what JAX's cache does in this process, from its construction until `stop`.

    Args:
        on_compiled: is called after each compilation and each call for a graph, in its thread; its exceptions are
            ignored.

    Attributes:
        build_seconds: build times of entries, by key. Callers may add to it: JAX itself stores whole seconds, which
            reads 0 for most entries.
        flush_state: the part of the report that the ledger has already.
    """

    def __init__(self, *, on_compiled: Callable[[], object] | None = None) -> None:
        self._on_compiled = on_compiled
        self._notices: tuple[str, ...] = ()
        self.build_seconds: dict[str, float] = {}
        self._listener = JaxListener(self._receive)
        self._listening = True
        self.renew()
        try:
            self._unregister = monitoring.listen(self._on_event)
        except Exception as error:
            self._unregister = lambda: None
            self._notices = (f"This JAX does not report its compilations to jcache ({error}), so nothing is counted.",)
        self._taps = [
            AttributePatch(module, name, partial(tap, notify=self._listener.on_message))
            for module in map(sys.modules.get, TAPPED)
            for name, tap in TAPS
            if hasattr(module, name)
        ]
        self._keys: KeyMonitor | None = None
        observers.add(self._on_jcache_line)

    def record_keys(self, root: Root, mode: str) -> None:
        """Record what keys are made of from now on.

        Args:
            root: the root that keeps the record.
            mode: what is recorded, as `jcache.store.run_records.record_mode` returns it.
        """
        from jcache.runs.key_monitor import KeyMonitor
        from jcache.runs.recorder import key_hooks

        with suppress(Exception):
            self._keys = KeyMonitor(root, mode, self._receive)
            self._listener.keys = key_hooks

    def keep_record(self, root: Root) -> None:
        """Write the record of the keys so far to the root, if keys are recorded.

        Raises:
            OSError: as the file system says.
        """
        if self._keys is None or self._reader is None:
            return
        from jcache.runs.records import record_of
        from jcache.store.run_records import add_record

        with self._lock:
            self._read()
            record = record_of(
                [self._reader.recording], run_id=self.id, command=_command(), started_ns=self._started_ns
            )
        if record is not None:
            add_record(root, self.id, record.to_json(), self._keys.take_modules())

    def renew(self) -> None:
        """Start with an empty report, as a forked child must."""
        self._lock = threading.RLock()
        self._reading = False
        self._pending_lines: deque[dict[str, Any]] = deque()
        self._reader: LogReader | None = None
        self._pending_lines.append(self._listener.start())
        self._started_ns, self._started = clock.now_ns(), clock.monotonic()
        self._ended = None if self._listening else self._started
        self._id: str | None = None
        self.flush_state = FlushState()

    @property
    def id(self) -> str:
        """The identifier of the report; it changes with `renew`."""
        from jcache.runs.environment import new_id

        if self._id is None:
            self._id = new_id(self._started_ns)
        return self._id

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` has been called."""
        return not self._listening

    def report(self, *, notices: Sequence[str] = ()) -> RunReport:
        """Return the report so far, without compilations that are in progress."""
        from jcache.runs.log import Recording
        from jcache.runs.report import report_of

        with self._lock:
            self._read()
            until = clock.monotonic() if self._ended is None else self._ended
            return report_of(
                [Recording() if self._reader is None else self._reader.recording],
                run_id=self.id,
                command=_command(),
                started_ns=self._started_ns,
                seconds=until - self._started,
                build_seconds=self.build_seconds.get,
                notices=(*self._notices, *notices),
            )

    def stop(self) -> None:
        """Stop recording and take the taps out of JAX; the report remains available, and is not flushed any more."""
        if not self._listening:
            return
        self._listening = False
        self._ended = clock.monotonic()
        self.flush_state.wait()
        observers.remove(self._on_jcache_line)
        with suppress(Exception):
            self._unregister()
        for tap in self._taps:
            tap.undo()
        if self._keys is not None:
            self._keys.stop()

    def _on_event(self, event: str, seconds: float | None, details: dict[str, Any]) -> None:
        if seconds is None:
            self._listener.on_event(event)
            return
        self._listener.on_duration(event, seconds, **details)
        if event == END_OF_COMPILE:
            self._notify_compiled()

    def _on_jcache_line(self, line: dict[str, Any]) -> None:
        self._receive(line)
        if line["e"] == "graph":
            self._notify_compiled()

    def _notify_compiled(self) -> None:
        if self._on_compiled is not None and self._listening:
            with suppress(Exception):
                self._on_compiled()

    def _receive(self, line: dict[str, Any]) -> None:
        if not self._listening:
            return
        self._pending_lines.append(line)
        if len(self._pending_lines) >= _MAX_PENDING_LINES and self._lock.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._lock.release()

    def _read(self) -> None:
        """Read the queued lines, under the lock; do nothing in a signal handler that interrupts this function."""
        if self._reading:
            return
        self._reading = True
        try:
            if self._reader is None:
                from jcache.runs.log import LogReader

                self._reader = LogReader()
            for _ in range(len(self._pending_lines)):
                with suppress(Exception):  # a future JAX may log the same in other words
                    self._reader.feed(self._pending_lines.popleft())
        finally:
            self._reading = False


def _command() -> tuple[str, ...]:
    """Return the command of this process: ``sys.argv``, completed by the ``-c`` code, the module or the notebook."""
    argv = [str(argument) for argument in getattr(sys, "argv", ())] or [""]
    if Path(argv[0]).name == "ipykernel_launcher.py":
        return "jupyter", os.environ.get("JPY_SESSION_NAME") or "notebook"
    if argv[0] == "-c":
        given = sys.orig_argv
        code = given[given.index("-c") + 1 :][:1] if "-c" in given else []
        return "-c", *(text[:_MAX_CODE_CHARS] for text in code), *argv[1:]
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and argv[0] == main.origin:
        return "-m", main.name.removesuffix(".__main__"), *argv[1:]
    return tuple(argv) if argv[0] else ("python", *argv[1:])
