"""Recorded runs: the environment that records one, and the report made of what the recorder wrote.

The recorder (``_recorder/sitecustomize.py``, injected through PYTHONPATH) writes one file of JSON lines per process.
`jcache.recording` reads them, as it does what `jcache.watching` hears in its own process: one `Program` per executable
that the run asked for, with one of four outcomes:

    hit         found in the cache
    stored      looked up, compiled, written
    not_stored  looked up, compiled, not written
    bypassed    compiled without a look-up

so that requests == hits + stored + not_stored; calls of `jcache.jit` functions have the same outcomes. JAX's own events
count neither keys nor reasons, and its ``compile_requests_use_cache`` also counts requests without a directory, which
are bypassed here.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache import files
from jcache.digests import digest
from jcache.errors import UnknownKey
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.ledger import Known
from jcache.names import storable
from jcache.outcomes import BYPASSED, HIT, NOT_STORED, STORED
from jcache.presets import STORE_EVERYTHING
from jcache.recording import Program, Recording, read
from jcache.roots import is_bounded
from jcache.trace_reports import NO_TRACES, TraceReport, reasons_of, trace_lines, traces_of
from jcache.units import format_seconds, rfc3339

if TYPE_CHECKING:
    from jcache.store import Store

SCHEMA_VERSION: Final = 1
RECORDER: Final = Path(__file__).with_name("_recorder")

_DIRECTORY: Final = "JAX_COMPILATION_CACHE_DIR"
_ENABLE: Final = "JAX_ENABLE_COMPILATION_CACHE"
_EVERYTHING: Final = {name.upper(): str(value).lower() for name, value in STORE_EVERYTHING.items()}
_XLA_CACHES: Final = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
_LOG: Final = "JCACHE_RUN_LOG"
_OUR_XLA_CACHES: Final = "JCACHE_RUN_XLA_CACHES"


class RunReport(NamedTuple):
    """What one run of a command did with JAX's cache, over all its processes.

    Seconds are added up over threads and processes, and never counted twice: what is compiled while a function is
    traced counts as compiling only.

    Attributes:
        exit_code: as a shell would say it; None while the process still runs, or where it is not known.
        programs: the executables that were asked for.
        traces: what became of the calls of `jcache.jit` functions.
        notices: what did not go as it should, as sentences.
    """

    id: str
    command: tuple[str, ...]
    started_ns: int
    seconds: float
    exit_code: int | None
    signal: int | None
    processes: int
    jax_version: str | None
    jaxlib_version: str | None
    platforms: tuple[str, ...]
    hits: int
    stored: int
    not_stored: int
    bypassed: int
    reasons: Mapping[str, Mapping[str, int]]
    trace_seconds: float
    lower_seconds: float
    compile_seconds: float
    retrieve_seconds: float
    saved_seconds: float
    programs: tuple[Program, ...]
    traces: TraceReport = NO_TRACES
    notices: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """Executables that were looked up in the cache."""
        return self.hits + self.misses

    @property
    def misses(self) -> int:
        """Executables that were looked up and compiled."""
        return self.stored + self.not_stored

    def to_json(self) -> dict[str, object]:
        """The report as data for ``json.dumps``."""
        fields: dict[str, object] = self._asdict()
        fields["started"] = rfc3339(self.started_ns)
        del fields["started_ns"]
        for name in ("command", "platforms", "notices"):
            fields[name] = list(getattr(self, name))
        fields["reasons"] = {outcome: dict(counts) for outcome, counts in self.reasons.items()}
        fields["programs"] = [program._asdict() for program in self.programs]
        fields["traces"] = self.traces.to_json()
        return {"schema_version": SCHEMA_VERSION, **fields, "requests": self.requests}


def settings(cache_dir: Path, base: Mapping[str, str], *, whatever: bool = False) -> dict[str, str]:
    """What JAX is told by environment variables so that it caches in a directory everything that is worth it.

    What the user has set in ``base`` of thresholds and XLA caches stays as it is, and is not in the result.

    Args:
        cache_dir: the directory.
        base: the environment.
        whatever: whether the user's thresholds count for nothing.
    """
    wanted = {
        _DIRECTORY: str(cache_dir.absolute()),
        **_EVERYTHING,
        # For 0.4.36 <= jax <= 0.10.2 the directory's path is in every key otherwise.
        _XLA_CACHES: "none",
    }
    ours = set(_EVERYTHING) if whatever else {_ENABLE}
    given = wanted.keys() & base.keys() - {_DIRECTORY, *ours}
    return {name: value for name, value in wanted.items() if name not in given}


def environment(cache_dir: Path, log_dir: Path, base: Mapping[str, str], *, whatever: bool = False) -> dict[str, str]:
    """The environment in which a program caches in ``cache_dir``, as `settings` has it, and records in ``log_dir``.

    ``log_dir`` should be on a local disk: every event of JAX is one small write to it.
    """
    env = dict(base)
    if env.get(_OUR_XLA_CACHES) == env.get(_XLA_CACHES):  # a jcache run inside another one
        env.pop(_XLA_CACHES, None)
    wanted = settings(cache_dir, env, whatever=whatever)
    env |= wanted
    if _XLA_CACHES in wanted:
        env[_OUR_XLA_CACHES] = wanted[_XLA_CACHES]  # by which the recorder knows to undo it from jax 0.11 on
    else:
        env.pop(_OUR_XLA_CACHES, None)
    env[_LOG] = str(log_dir.absolute())
    others = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry != str(RECORDER)]
    env["PYTHONPATH"] = os.pathsep.join([str(RECORDER), *others]) if others != [""] else str(RECORDER)
    return env


def recorded(base: Mapping[str, str]) -> bool:
    """Whether a process of this environment is being recorded by `jcache run`."""
    return bool(base.get(_LOG))


BuildSeconds = Callable[[str], float | None]


def unknown(key: str) -> float | None:
    """No build seconds on record for any key."""
    del key
    return None


def new_id(started_ns: int) -> str:
    """The identity of a run that began at a time."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(started_ns // 10**9))}-{secrets.token_hex(3)}"


def collect(
    log_dir: Path,
    *,
    run_id: str,
    command: Sequence[str],
    started_ns: int,
    seconds: float,
    exit_code: int | None,
    signal: int | None = None,
    build_seconds: BuildSeconds = unknown,
) -> RunReport:
    """The report of a run from what its processes have written, whole or torn."""
    return report_of(
        [read(path) for path in sorted(log_dir.glob("*.jsonl"))],
        run_id=run_id,
        command=command,
        started_ns=started_ns,
        seconds=seconds,
        exit_code=exit_code,
        signal=signal,
        build_seconds=build_seconds,
    )


def report_of(
    recordings: Sequence[Recording],
    *,
    run_id: str,
    command: Sequence[str],
    started_ns: int,
    seconds: float,
    exit_code: int | None = None,
    signal: int | None = None,
    build_seconds: BuildSeconds = unknown,
    notices: Sequence[str] = (),
) -> RunReport:
    """The report of a run from the recordings of its processes.

    ``build_seconds`` gives the exact seconds that building an entry once took, where they are on record: JAX stores
    whole seconds, which reads 0 for most entries.
    """
    programs = tuple(program for recording in recordings for program in recording.programs)
    outcomes = Counter(program.outcome for program in programs)
    return RunReport(
        id=run_id,
        command=tuple(command),
        started_ns=started_ns,
        seconds=seconds,
        exit_code=exit_code,
        signal=signal,
        processes=len(recordings),
        jax_version=_one({recording.jax for recording in recordings}),
        jaxlib_version=_one({recording.jaxlib for recording in recordings}),
        platforms=tuple(sorted({recording.platform for recording in recordings} - {""})),
        hits=outcomes[HIT],
        stored=outcomes[STORED],
        not_stored=outcomes[NOT_STORED],
        bypassed=outcomes[BYPASSED],
        reasons=reasons_of(programs),
        trace_seconds=_total(recordings, "trace"),
        lower_seconds=_total(recordings, "lower"),
        compile_seconds=max(0.0, _total(recordings, "compile") - _total(recordings, "retrieve")),
        retrieve_seconds=_total(recordings, "retrieve"),
        saved_seconds=sum(_saved(program, build_seconds) for program in programs),
        programs=programs,
        traces=traces_of(recordings),
        notices=tuple(notices),
    )


def _one(versions: set[str]) -> str | None:
    """A version for people: one, or all of them where a run mixes environments."""
    return ", ".join(sorted(versions - {""})) or None


def _total(recordings: Sequence[Recording], what: str) -> float:
    return sum(recording.seconds[what] for recording in recordings)


def _saved(program: Program, build_seconds: BuildSeconds) -> float:
    if program.outcome != HIT or program.seconds is None:
        return 0.0
    exact = build_seconds(program.key) if program.key is not None else None
    return max(0.0, (exact if exact is not None else program.jax_build_seconds or 0.0) - program.seconds)


def learn(store: Store, report: RunReport) -> None:
    """Tells the ledger what a run stored and hit, and marks the hits as used: an unbounded JAX does not.

    What goes wrong with the ledger, and entries that are not in the root, are told by the store's notices.
    """
    if not report.processes:
        return
    directory = store.root.directory(Kind.EXECUTABLES)
    here = present(directory, report.programs)
    if report.hits + report.stored and not here:
        store.notices.append(
            f"None of the entries hit or stored are in {directory}: the program has set a cache directory of its own."
        )
    store.touch(Kind.EXECUTABLES, {key: None for key, program in here if program.outcome == HIT}, time.time_ns())
    news = news_of(here, lambda key, program: _stored(store.root, key, program.seconds, report))
    store.softly(lambda: store.ledger.record(news))
    store.softly(lambda: store.ledger.add_run(report.id, report.started_ns, json.dumps(report.to_json())))
    if is_bounded(store.root, Kind.EXECUTABLES):  # and wants sidecars
        store.adopt(Kind.EXECUTABLES)


def present(directory: Path, programs: Iterable[Program]) -> list[tuple[str, Program]]:
    """The programs whose entries are in a directory, each with the key under which it is stored."""
    found = []
    for program in programs:
        if program.key:
            keys = (program.key, storable(program.key))
            found += [(key, program) for key in dict.fromkeys(keys) if _file(directory, key)][:1]
    return found


def news_of(here: Iterable[tuple[str, Program]], stored: Callable[[str, Program], Known]) -> list[Known]:
    """What the ledger is to learn of entries: each hit, and what there is to tell of those that were stored."""
    news = []
    for key, program in here:
        if program.outcome == HIT:
            news.append(Known(Kind.EXECUTABLES, key, hits=1))
        elif program.outcome == STORED:
            news.append(stored(key, program))
    return news


def _file(directory: Path, key: str) -> Path | None:
    """The file of an entry; jax <= 0.4.30 gives it no suffix."""
    return next((path for name in (key + ENTRY_SUFFIX, key) if os.path.lexists(path := directory / name)), None)


def _stored(root: Root, key: str, seconds: float | None, report: RunReport) -> Known:
    path = _file(root.directory(Kind.EXECUTABLES), key)
    known = Known(Kind.EXECUTABLES, key, seconds=seconds)
    try:
        taken_ns = os.stat(path).st_ctime_ns if path else None
        data = files.read(path) if path else b""
    except OSError:
        return known
    if not data:  # evicted by the run itself, perhaps
        return known
    return known._replace(
        digest=digest(data),
        bytes=len(data),
        origin="run",
        run=report.id,
        jaxlib=report.jaxlib_version,
        digest_ns=taken_ns,
    )


def report_named(reports: Sequence[dict[str, Any]], wanted: str) -> dict[str, Any]:
    """The stored report of a run, by its id, an unambiguous beginning of it, or ``last``.

    Raises:
        UnknownKey: no run, or more than one, answers to that.
    """
    matching = reports[-1:] if wanted == "last" else [report for report in reports if report["id"].startswith(wanted)]
    if len(matching) != 1:
        how = "Several runs are" if matching else "No run is"
        raise UnknownKey(f"{how} recorded as '{wanted}': `jcache stats` lists them.")
    return matching[0]


def summary(report: RunReport) -> str:
    """The report in a few lines for people."""
    if not report.processes:
        return "jcache: no program that uses JAX was seen (python -E, -I and -S are not watched)."
    counts = f"{report.hits} {_plural('hit', report.hits)}, {report.stored} {_plural('miss', report.stored)} (stored)"
    lines = [f"jcache: {counts}, {report.not_stored} not stored, {report.bypassed} bypassed"]
    for outcome, counter in report.reasons.items():
        lines += [f"  {number} {outcome.replace('_', ' ')}: {reason}" for reason, number in counter.items()]
    spent = {"trace": report.trace_seconds, "lower": report.lower_seconds, "compile": report.compile_seconds}
    spent["retrieve"] = report.retrieve_seconds
    times = ", ".join(f"{name} {format_seconds(value)}" for name, value in spent.items())
    lines.append(f"  {times}; saved {format_seconds(report.saved_seconds)}")
    if report.traces:
        lines += [f"  {line}" for line in trace_lines(report.traces.to_json())]
    return "\n".join(lines)


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else {"hit": "hits", "miss": "misses"}[noun]
