"""Report on the calls of `jcache.jit` functions, for one run or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jcache.frozen import Frozen
from jcache.runs.call_reports import as_json, count_reasons, counts_line, reason_lines
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED, TraceCall
from jcache.runs.log import Recording

COUNTS: Final = ("hits", "stored", "not_stored", "bypassed", "compared", "differing")
SECONDS: Final = ("seconds", "saved_seconds")
COMPARED: Final = "compared"
_WORDS: Final = {
    COMPARED: "traced and compared",
    STORED: "traced anew",
    NOT_STORED: "not stored",
    BYPASSED: "left to jax.jit",
}


class TraceReport(NamedTuple):
    """The outcomes of the first call of each of a run's `jcache.jit` functions for arguments of certain types.

    Attributes:
        hits: number of calls that were not traced.
        stored: number of calls that looked up a trace, traced and stored the trace.
        not_stored: number of calls that looked up a trace and traced only.
        bypassed: number of calls that were left to `jax.jit`.
        compared: number of stored traces that were traced again to compare, instead of being served.
        differing: number of these traces that gave another program.
        reasons: for each outcome, the number of calls by function and reason.
        seconds: total time of looking up the hits.
        saved_seconds: the time of tracing that hits saved, less the time of looking them up.
        calls: all calls.
    """

    hits: int = 0
    stored: int = 0
    not_stored: int = 0
    bypassed: int = 0
    compared: int = 0
    differing: int = 0
    reasons: Mapping[str, Mapping[str, int]] = Frozen({})
    seconds: float = 0.0
    saved_seconds: float = 0.0
    calls: tuple[TraceCall, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there were any calls."""
        return bool(self.calls)

    def to_json(self) -> dict[str, object]:
        """Return the report as data for ``json.dumps``."""
        fields: dict[str, object] = as_json(self)
        return fields


NO_TRACES: Final = TraceReport()


def traces_of(recordings: Sequence[Recording]) -> TraceReport:
    """Return the report on the traces of a run, from the recordings of its processes."""
    calls = tuple(call for recording in recordings for call in recording.traces.calls)
    outcomes = Counter(call.outcome for call in calls)
    reasons = [(call.outcome, f"{call.name}: {call.reason}", 1) for call in calls if call.reason]
    hits = [call for call in calls if call.outcome == HIT]
    return TraceReport(
        hits=len(hits),
        stored=outcomes[STORED],
        not_stored=outcomes[NOT_STORED],
        bypassed=outcomes[BYPASSED],
        compared=sum(recording.traces.compared for recording in recordings),
        differing=sum(recording.traces.differing for recording in recordings),
        reasons=count_reasons([*reasons, *((COMPARED, news, 1) for each in recordings for news in each.traces.news)]),
        seconds=sum(call.seconds for call in hits),
        saved_seconds=sum(max(0.0, call.spared_seconds - call.seconds) for call in hits),
        calls=calls,
    )


def trace_lines(traces: Mapping[str, Any]) -> list[str]:
    """Return a few lines of text on a report that is data for ``json.dumps``; none if there were no calls."""
    if not any(traces[name] for name in COUNTS):
        return []
    first = counts_line("traces", traces, "left to jax.jit")
    if traces["compared"]:
        first += f"; {traces['compared']} traced again to compare, {traces['differing'] or 'none'} differing"
    return [first, *reason_lines(traces, _WORDS)]
