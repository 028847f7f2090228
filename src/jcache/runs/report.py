"""The report of a recorded run, made of what its processes have written or said.

`jcache.runs.log` reads what the recorder wrote, as it does what `jcache.runs.in_process` hears in its own process: one
`Program` per executable that the run asked for, with one of four outcomes:

    hit         found in the cache
    stored      looked up, compiled, written
    not_stored  looked up, compiled, not written
    bypassed    compiled without a look-up

so that requests == hits + stored + not_stored; calls of `jcache.jit` functions, and those that ask for graphs, have the
same outcomes. JAX's own events
count neither keys nor reasons, and its ``compile_requests_use_cache`` also counts requests without a directory, which
are bypassed here.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from jcache.errors import UnknownKey
from jcache.runs.call_reports import reasons_of, saved_text
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED
from jcache.runs.graph_report import NO_GRAPHS, GraphReport, graph_lines, graphs_of
from jcache.runs.log import Program, Recording, read
from jcache.runs.trace_report import NO_TRACES, TraceReport, trace_lines, traces_of
from jcache.text import command
from jcache.units import format_seconds, rfc3339

SCHEMA_VERSION: Final = 1
UNSEEN: Final = (
    "no program that uses JAX or jcache was seen (a Python with -E, -I or -S, or with a PYTHONPATH of its own, is not "
    "watched, and has no cache unless it is the command itself)"
)


class RunReport(NamedTuple):
    """What one run of a command did with JAX's cache, over all its processes.

    Seconds are added up over threads and processes, and never counted twice: what is compiled while a function is
    traced counts as compiling only.

    Attributes:
        exit_code: as a shell would say it; None while the process still runs, or where it is not known.
        saved_seconds: of compilation that hits saved, less their retrieval; `total_saved_seconds` has all.
        programs: the executables that were asked for.
        traces: what became of the calls of `jcache.jit` functions.
        graphs: what became of the calls that ask a `jcache.GraphCache` for graphs.
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
    graphs: GraphReport = NO_GRAPHS
    notices: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """Executables that were looked up in the cache."""
        return self.hits + self.misses

    @property
    def misses(self) -> int:
        """Executables that were looked up and compiled."""
        return self.stored + self.not_stored

    @property
    def total_saved_seconds(self) -> float:
        """Time saved in all: of compilation, of tracing and of building graphs."""
        return self.saved_seconds + self.traces.saved_seconds + self.graphs.saved_seconds

    def to_json(self) -> dict[str, object]:
        """The report as data for ``json.dumps``."""
        fields: dict[str, object] = self._asdict()
        fields["started"] = rfc3339(self.started_ns)
        del fields["started_ns"]
        for name in ("command", "platforms", "notices"):
            fields[name] = list(getattr(self, name))
        fields["reasons"] = {outcome: dict(counts) for outcome, counts in self.reasons.items()}
        fields["programs"] = [program._asdict() for program in self.programs]
        fields |= {"traces": self.traces.to_json(), "graphs": self.graphs.to_json()}
        sums = {"requests": self.requests, "total_saved_seconds": self.total_saved_seconds}
        return {"schema_version": SCHEMA_VERSION, **fields, **sums}


BuildSeconds = Callable[[str], float | None]


def unknown(key: str) -> float | None:
    """No build seconds on record for any key."""
    del key
    return None


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
        reasons=reasons_of([(program.outcome, program.reason, 1) for program in programs if program.reason]),
        trace_seconds=_total(recordings, "trace"),
        lower_seconds=_total(recordings, "lower"),
        compile_seconds=max(0.0, _total(recordings, "compile") - _total(recordings, "retrieve")),
        retrieve_seconds=_total(recordings, "retrieve"),
        saved_seconds=sum(_saved(program, build_seconds) for program in programs),
        programs=programs,
        traces=traces_of(recordings),
        graphs=graphs_of(recordings),
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


def report_named(reports: Sequence[dict[str, Any]], wanted: str, root: Path) -> dict[str, Any]:
    """The stored report of a run of a root, by its id, an unambiguous beginning of it, or ``last``.

    Raises:
        UnknownKey: no run, or more than one, answers to that.
    """
    matching = reports[-1:] if wanted == "last" else [report for report in reports if report["id"].startswith(wanted)]
    if len(matching) != 1:
        how = "Several runs are" if matching else "No run is"
        raise UnknownKey(f"{how} recorded as '{wanted}': `{command('stats', root)}` lists them.")
    return matching[0]


def summary(report: RunReport) -> str:
    """The report in a few lines for people."""
    ended = [] if report.signal is None else [f"the program was ended by signal {report.signal}{_name(report.signal)}"]
    if not report.processes:
        return "\n  ".join([f"jcache: {UNSEEN}.", *ended])
    calls = [*trace_lines(report.traces.to_json()), *graph_lines(report.graphs.to_json())]
    tracing = report.traces.saved_seconds if report.traces else None
    building = report.graphs.saved_seconds if report.graphs else None
    saved = saved_text(report.saved_seconds, tracing, building)
    lines = [*_of_executables(report, saved), *calls]
    if report.graphs and not report.programs and not report.traces:  # a program of graphs alone
        lines = [*calls, f"saved {format_seconds(report.total_saved_seconds)}"]
    lines += ended
    return "\n".join(f"{'  ' if number else 'jcache: '}{line}" for number, line in enumerate(lines))


def _of_executables(report: RunReport, saved: str) -> list[str]:
    counts = f"{report.hits} {_plural('hit', report.hits)}, {report.stored} {_plural('miss', report.stored)} (stored)"
    lines = [f"{counts}, {report.not_stored} not stored, {report.bypassed} bypassed"]
    for outcome, counter in report.reasons.items():
        lines += [f"{number} {outcome.replace('_', ' ')}: {reason}" for reason, number in counter.items()]
    spent = {"trace": report.trace_seconds, "lower": report.lower_seconds, "compile": report.compile_seconds}
    spent["retrieve"] = report.retrieve_seconds
    return [*lines, f"{', '.join(f'{name} {format_seconds(value)}' for name, value in spent.items())}; {saved}"]


def _name(number: int) -> str:
    """The name of a signal, in parentheses; nothing of one without a name."""
    with suppress(ValueError):
        return f" ({signal.Signals(number).name})"
    return ""


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else {"hit": "hits", "miss": "misses"}[noun]
