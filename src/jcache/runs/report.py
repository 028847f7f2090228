"""The report of a recorded run, made from the recordings of its processes.

`jcache.runs.log` reads the lines of the recorder and of `jcache.runs.in_process`. It makes one `Program` of each
executable that the run requested, with one of four outcomes:

    hit         found in the cache
    stored      looked up, compiled, written
    not_stored  looked up, compiled, not written
    bypassed    compiled without a look-up

So requests == hits + stored + not_stored. Calls of `jcache.jit` functions and calls for graphs have the same outcomes.
JAX's own events have neither keys nor reasons, and its ``compile_requests_use_cache`` also counts requests without a
directory, which are bypassed here.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from jcache.errors import UnknownKey
from jcache.runs.call_reports import as_json, count_reasons, saved_text
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED
from jcache.runs.graph_report import NO_GRAPHS, GraphReport, graph_lines, graphs_of
from jcache.runs.log import Program, Recording
from jcache.runs.remote_report import NO_STORE, RemoteReport, fetched_in, remote_lines
from jcache.runs.secrets import without_secrets
from jcache.runs.trace_report import NO_TRACES, TraceReport, trace_lines, traces_of
from jcache.text import command
from jcache.units import format_seconds, rfc3339

SCHEMA_VERSION: Final = 1
NO_PROGRAM_SEEN: Final = (
    "no use of JAX was recorded: the program did not import JAX, or its Python ran with -E, -I, -S or another "
    "PYTHONPATH; a child Python with these has no cache: write PYTHONPATH=DIR:$PYTHONPATH to keep jcache's part"
)


class RunReport(NamedTuple):
    """The use of JAX's cache by one run of a command, over all its processes.

    Seconds are added up over threads and processes, and never counted twice: a compilation while a function is traced
    counts as compiling only.

    Attributes:
        exit_code: the exit code as a shell has it; None while the process runs, or if it is not known.
        saved_seconds: the time of compilation that hits saved, less their retrieval; `total_saved_seconds` also counts
            traces and graphs.
        programs: the executables that the run requested.
        traces: the outcomes of the calls of `jcache.jit` functions.
        graphs: the outcomes of the calls for graphs of a `jcache.GraphCache`.
        remote: the entries that came from a store.
        notices: sentences on what did not go as it should.
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
    graphs: GraphReport = NO_GRAPHS
    remote: RemoteReport = NO_STORE
    notices: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """The number of executables that were looked up in the cache."""
        return self.hits + self.misses

    @property
    def misses(self) -> int:
        """The number of executables that were looked up and compiled."""
        return self.stored + self.not_stored

    @property
    def total_saved_seconds(self) -> float:
        """The total time saved: of compilation, of tracing and of building graphs."""
        return self.saved_seconds + self.traces.saved_seconds + self.graphs.saved_seconds

    def to_json(self) -> dict[str, object]:
        """Return the report as data for ``json.dumps``."""
        fields: dict[str, object] = as_json(self)
        fields["started"] = rfc3339(self.started_ns)
        del fields["started_ns"]
        sums = {"requests": self.requests, "total_saved_seconds": self.total_saved_seconds}
        return {"schema_version": SCHEMA_VERSION, **fields, **sums}


BuildSeconds = Callable[[str], float | None]


def no_build_seconds(key: str) -> float | None:
    """Return None: no build time is on record for any key."""
    del key
    return None


def report_of(
    recordings: Sequence[Recording],
    *,
    run_id: str,
    command: Sequence[str],
    started_ns: int,
    seconds: float,
    exit_code: int | None = None,
    signal: int | None = None,
    build_seconds: BuildSeconds = no_build_seconds,
    notices: Sequence[str] = (),
) -> RunReport:
    """Return the report of a run from the recordings of its processes.

    Args:
        recordings: the recordings.
        run_id: the run's identifier.
        command: the command that was run.
        started_ns: the time when it began, nanoseconds since 1970.
        seconds: duration of the run.
        exit_code: as in `RunReport`.
        signal: as in `RunReport`.
        notices: as in `RunReport`.
        build_seconds: returns the exact build time of an entry by its key, None if it is not on record: JAX itself
            stores whole seconds, which reads 0 for most entries.
    """
    programs = tuple(program for recording in recordings for program in recording.programs)
    outcomes = Counter(program.outcome for program in programs)
    return RunReport(
        id=run_id,
        command=without_secrets(command),
        started_ns=started_ns,
        seconds=seconds,
        exit_code=exit_code,
        signal=signal,
        processes=len(recordings),
        jax_version=_join_versions({recording.jax for recording in recordings}),
        jaxlib_version=_join_versions({recording.jaxlib for recording in recordings}),
        platforms=tuple(sorted({recording.platform for recording in recordings} - {""})),
        hits=outcomes[HIT],
        stored=outcomes[STORED],
        not_stored=outcomes[NOT_STORED],
        bypassed=outcomes[BYPASSED],
        reasons=count_reasons([(program.outcome, program.reason, 1) for program in programs if program.reason]),
        trace_seconds=_total(recordings, "trace"),
        lower_seconds=_total(recordings, "lower"),
        compile_seconds=max(0.0, _total(recordings, "compile") - _total(recordings, "retrieve")),
        retrieve_seconds=_total(recordings, "retrieve"),
        saved_seconds=sum(_saved(program, build_seconds) for program in programs),
        programs=programs,
        traces=traces_of(recordings),
        graphs=graphs_of(recordings),
        remote=fetched_in([recording.fetched for recording in recordings]),
        notices=tuple(notices),
    )


def _join_versions(versions: set[str]) -> str | None:
    """Return the versions as text: one, or all of them if the run mixes environments."""
    return ", ".join(sorted(versions - {""})) or None


def _total(recordings: Sequence[Recording], what: str) -> float:
    return sum(recording.seconds[what] for recording in recordings)


def _saved(program: Program, build_seconds: BuildSeconds) -> float:
    if program.outcome != HIT or program.seconds is None:
        return 0.0
    exact = build_seconds(program.key) if program.key is not None else None
    return max(0.0, (exact if exact is not None else program.jax_build_seconds or 0.0) - program.seconds)


def short_id(identity: str) -> str:
    """Return the last part of a run's id, which tells runs apart but for rare coincidences."""
    return identity.rpartition("-")[2] or identity


def report_named(reports: Sequence[dict[str, Any]], wanted: str, root: Path) -> dict[str, Any]:
    """Return the stored report of a run of a root.

    Args:
        reports: all reports of the root, the latest last.
        wanted: the id of the run, an unambiguous beginning of it, its last part as `jcache stats` prints it, or
            ``last``.
        root: path of the root, for the message.

    Raises:
        UnknownKey: no run, or more than one, has such an id.
    """
    matching: Sequence[dict[str, Any]] = [
        report for report in reports if report["id"].startswith(wanted) or short_id(report["id"]) == wanted
    ]
    matching = reports[-1:] if wanted == "last" else matching
    if len(matching) != 1:
        how = "Several runs are" if matching else "No run is"
        raise UnknownKey(f"{how} recorded as '{wanted}': `{command('stats', root)}` lists them.")
    return matching[0]


def summary(report: RunReport) -> str:
    """Return the report as a few lines of text."""
    ended = (
        []
        if report.signal is None
        else [f"the program was ended by signal {report.signal}{_signal_name(report.signal)}"]
    )
    if not report.processes:
        return "\n  ".join([f"jcache: {NO_PROGRAM_SEEN}.", *ended])
    calls = [*trace_lines(report.traces.to_json()), *graph_lines(report.graphs.to_json())]
    tracing = report.traces.saved_seconds if report.traces else None
    building = report.graphs.saved_seconds if report.graphs else None
    saved = saved_text(report.saved_seconds, tracing, building)
    lines = [*_executable_lines(report, saved), *calls]
    if report.graphs and not report.programs and not report.traces:  # a program of graphs alone
        lines = [*calls, f"saved {format_seconds(report.total_saved_seconds)}"]
    lines += [*remote_lines(report.remote), *ended]
    return "\n".join(f"{'  ' if number else 'jcache: '}{line}" for number, line in enumerate(lines))


def _executable_lines(report: RunReport, saved: str) -> list[str]:
    counts = f"{report.hits} {_plural('hit', report.hits)}, {report.stored} {_plural('miss', report.stored)} (stored)"
    lines = [f"{counts}, {report.not_stored} not stored, {report.bypassed} bypassed"]
    for outcome, counter in report.reasons.items():
        lines += [f"{number} {outcome.replace('_', ' ')}: {reason}" for reason, number in counter.items()]
    spent = {"trace": report.trace_seconds, "lower": report.lower_seconds, "compile": report.compile_seconds}
    spent["retrieve"] = report.retrieve_seconds
    return [*lines, f"{', '.join(f'{name} {format_seconds(value)}' for name, value in spent.items())}; {saved}"]


def _signal_name(number: int) -> str:
    """Return the name of a signal in parentheses; an empty text if it has no name."""
    with suppress(ValueError):
        return f" ({signal.Signals(number).name})"
    return ""


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else {"hit": "hits", "miss": "misses"}[noun]
