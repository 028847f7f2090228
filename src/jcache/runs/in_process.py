"""What JAX's cache does in this process, as `jcache run` records it of others: the same ears, the same reader.

A `Watch` keeps what it hears as the lines that the recorder would write, and reads them when it is asked or when many
are waiting, so that a compilation is delayed by microseconds. `flush` tells the ledger of a root. Nothing that goes
wrong in here reaches the program. JAX itself is imported by the first `Watch`.
"""

# ruff: noqa: BLE001 - see above

from __future__ import annotations

import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jcache import clock
from jcache.jax_internals import monitoring
from jcache.layout import Kind, Root
from jcache.runs import observers
from jcache.runs.calls import HIT
from jcache.runs.recorder import sitecustomize as recorder
from jcache.store.ledger import Known, Ledger

if TYPE_CHECKING:
    from jcache.runs.log import Program, Reader
    from jcache.runs.report import RunReport

_MOST_WAITING: Final = 1000  # lines, of some 80 programs
_AT_FIRST: Final = 5.0  # seconds until the first flush
_EVERY: Final = 30.0  # seconds between two flushes
_SHARE: Final = 0.01  # of its time that a program may spend with flushing
_BUSY_TIMEOUT: Final = 0.5
_LONGEST_CODE: Final = 200  # characters


class Watch:
    """Counts what JAX's cache does in this process, from its making until `stop`.

    Args:
        on_compiled: is called after each compilation and each call for a graph, in its thread; what it raises is lost.

    Attributes:
        build_seconds: what building entries once took, by key. Whoever knows may add to it: JAX itself stores whole
            seconds, which reads 0 for most.
    """

    def __init__(self, *, on_compiled: Callable[[], object] | None = None) -> None:
        self._on_compiled = on_compiled
        self._notices: tuple[str, ...] = ()
        self.build_seconds: dict[str, float] = {}
        self._ears = recorder.Ears(self._keep)
        self._listening = True
        self.renew()
        try:
            self._forget = monitoring.listen(self._on_event)
        except Exception as error:
            self._forget = lambda: None
            self._notices = (f"This JAX tells jcache nothing of what it compiles ({error}), so nothing is counted.",)
        self._taps = [
            tap
            for name in recorder.TAPPED
            if name in sys.modules
            for tap in recorder.tap(sys.modules[name], self._ears.on_message)
        ]
        observers.add(self._on_told)

    def renew(self) -> None:
        """Begins anew, as a forked child must: nothing is counted yet."""
        self._lock = threading.RLock()
        self._reading = False
        self._waiting: deque[dict[str, Any]] = deque()
        self._reader: Reader | None = None
        self._waiting.append(self._ears.start())
        self._started_ns, self._began = clock.now_ns(), clock.monotonic()
        self._ended = None if self._listening else self._began
        self._id: str | None = None
        self.flushed = Flushed()

    @property
    def id(self) -> str:
        """By which the report is known; another one after `renew`."""
        from jcache.runs.environment import new_id

        if self._id is None:
            self._id = new_id(self._started_ns)
        return self._id

    def report(self, *, notices: Sequence[str] = ()) -> RunReport:
        """What has been done so far; what is being compiled just now is not counted yet."""
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
                seconds=until - self._began,
                build_seconds=self.build_seconds.get,
                notices=(*self._notices, *notices),
            )

    def stop(self) -> None:
        """Puts back what is in JAX's place; the report can still be had."""
        if not self._listening:
            return
        self._listening = False
        self._ended = clock.monotonic()
        observers.remove(self._on_told)
        with suppress(Exception):
            self._forget()
        _put_back(self._taps)

    def _on_event(self, event: str, seconds: float | None, details: dict[str, Any]) -> None:
        if seconds is None:
            self._ears.on_event(event)
            return
        self._ears.on_duration(event, seconds, **details)
        if event == recorder.END_OF_COMPILE:
            self._something_to_flush()

    def _on_told(self, line: dict[str, Any]) -> None:
        self._keep(line)
        if line["e"] == "graph":
            self._something_to_flush()

    def _something_to_flush(self) -> None:
        if self._on_compiled is not None and self._listening:
            with suppress(Exception):
                self._on_compiled()

    def _keep(self, line: dict[str, Any]) -> None:
        if not self._listening:
            return
        self._waiting.append(line)
        if len(self._waiting) >= _MOST_WAITING and self._lock.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._lock.release()

    def _read(self) -> None:
        """Reads what is waiting, under the lock; a signal handler in the middle of that waits for the next time."""
        if self._reading:
            return
        self._reading = True
        try:
            if self._reader is None:
                from jcache.runs.log import Reader

                self._reader = Reader()
            for _ in range(len(self._waiting)):
                with suppress(Exception):  # a future JAX that says the same otherwise
                    self._reader.feed(self._waiting.popleft())
        finally:
            self._reading = False


_covered: list[tuple[Any, str, Any, Any]] = []  # taps that are done, but below those of a later watch


def _put_back(taps: list[tuple[Any, str, Any, Any]]) -> None:
    """Takes taps out that are on top; somebody else's above them stay, and ours below them only pass on."""
    _covered.extend(taps)
    while True:
        on_top = [tap for tap in _covered if vars(tap[0]).get(tap[1]) is tap[3]]
        if not on_top:
            return
        for tap in on_top:
            module, name, original, _ = tap
            setattr(module, name, original)
            _covered.remove(tap)


def _command() -> tuple[str, ...]:
    """How this process was started: ``sys.argv``, with what it lacks of code, modules and notebooks."""
    argv = [str(argument) for argument in getattr(sys, "argv", ())] or [""]
    if Path(argv[0]).name == "ipykernel_launcher.py":
        return "jupyter", os.environ.get("JPY_SESSION_NAME") or "notebook"
    if argv[0] == "-c":
        given = sys.orig_argv
        code = given[given.index("-c") + 1 :][:1] if "-c" in given else []
        return "-c", *(text[:_LONGEST_CODE] for text in code), *argv[1:]
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and argv[0] == main.origin:
        return "-m", main.name.removesuffix(".__main__"), *argv[1:]
    return tuple(argv) if argv[0] else ("python", *argv[1:])


# -- telling the ledger


class Flushed:
    """What of a watch the ledger has been told."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.programs = 0
        self.due = clock.monotonic() + _AT_FIRST


def flush(root: Root, watch: Watch, *, notices: Sequence[str] = (), wait: float = _BUSY_TIMEOUT) -> bool:
    """Tells the ledger of a root what has been done; again and again, and each hit once.

    Nothing is told of a process that compiled nothing, or that `jcache run` records anyway.

    Args:
        root: whose ledger.
        watch: which has watched.
        notices: for the report.
        wait: seconds to wait for a busy ledger.

    Returns:
        Whether the ledger has the report now.
    """
    flushed = watch.flushed
    if not flushed.lock.acquire(timeout=wait):
        return False
    began = clock.monotonic()
    try:
        from jcache.runs.environment import recorded

        if recorded(os.environ):
            return False
        with closing(Ledger(root.ledger, busy_timeout=wait)) as ledger:
            return _tell(ledger, root.directory(Kind.EXECUTABLES), watch, notices)
    except Exception:
        return False
    finally:
        now = clock.monotonic()
        flushed.due = now + max(_EVERY, (now - began) / _SHARE)
        flushed.lock.release()


def seconds_until_due(watch: Watch) -> float:
    """How long to wait with the next `flush`: a moment at first, then half a minute each time."""
    return max(0.0, watch.flushed.due - clock.monotonic())


def _tell(ledger: Ledger, directory: Path, watch: Watch, notices: Sequence[str]) -> bool:
    from jcache.runs.environment import news_of, present

    done = watch.report()
    programs = done.programs
    if not programs and not done.traces and not done.graphs:
        return False
    _ask_build_seconds(ledger, watch, present(directory, programs[watch.flushed.programs :]))
    report = watch.report(notices=notices)

    def stored(key: str, program: Program) -> Known:
        jaxlib = report.jaxlib_version
        return Known(Kind.EXECUTABLES, key, seconds=program.seconds, run=report.id, jaxlib=jaxlib)

    ledger.record(news_of(present(directory, report.programs[watch.flushed.programs :]), stored))
    watch.flushed.programs = len(report.programs)
    ledger.add_run(report.id, report.started_ns, json.dumps(report.to_json()))
    return True


def _ask_build_seconds(ledger: Ledger, watch: Watch, here: Sequence[tuple[str, Program]]) -> None:
    hits = {key: program.key for key, program in here if program.outcome == HIT}
    unknown = [key for key, asked in hits.items() if asked not in watch.build_seconds]
    for key, known in ledger.known(Kind.EXECUTABLES, unknown).items():
        asked = hits[key]
        if asked is not None and known.seconds is not None:
            watch.build_seconds[asked] = known.seconds
