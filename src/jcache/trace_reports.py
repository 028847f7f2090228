"""What became of the calls of `jcache.jit` functions: of one run, and of many together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from jcache.frozen import Frozen
from jcache.outcomes import BYPASSED, HIT, NOT_STORED, STORED
from jcache.recording import Program, Recording
from jcache.trace_calls import TraceCall
from jcache.units import format_seconds

COUNTS: Final = ("hits", "stored", "not_stored", "bypassed", "compared", "differing")
SECONDS: Final = ("seconds", "saved_seconds")
_LONG: Final = 240  # characters of a reason
_MOST_REASONS: Final = 8
_WORDS: Final = {STORED: "traced anew", NOT_STORED: "not stored", BYPASSED: "left to jax.jit"}
_DIGEST: Final = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{16}(?:[0-9a-f]{40})?\b")


class TraceReport(NamedTuple):
    """What became of the first calls of a run's `jcache.jit` functions, for arguments of certain types.

    Attributes:
        hits: that were not traced.
        stored: that were looked up, traced, and their traces stored.
        not_stored: that were looked up and traced only.
        bypassed: that were left to `jax.jit`.
        compared: traces that would have been served, and were traced to compare.
        differing: how many of them gave another program.
        reasons: of each outcome, the function and why, and how often.
        seconds: that looking up the hits took.
        saved_seconds: of tracing that hits saved, less looking them up.
        calls: each of them.
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
        """Whether there were any."""
        return bool(self.calls)

    def to_json(self) -> dict[str, object]:
        """The report as data for ``json.dumps``."""
        fields: dict[str, object] = self._asdict()
        fields["reasons"] = {outcome: dict(counts) for outcome, counts in self.reasons.items()}
        return fields | {"calls": [call._asdict() for call in self.calls]}


NO_TRACES: Final = TraceReport()


def traces_of(recordings: Sequence[Recording]) -> TraceReport:
    """What the processes of a run did with traces."""
    calls = tuple(call for recording in recordings for call in recording.traces.calls)
    outcomes = Counter(call.outcome for call in calls)
    hits = [call for call in calls if call.outcome == HIT]
    return TraceReport(
        hits=len(hits),
        stored=outcomes[STORED],
        not_stored=outcomes[NOT_STORED],
        bypassed=outcomes[BYPASSED],
        compared=sum(recording.traces.compared for recording in recordings),
        differing=sum(recording.traces.differing for recording in recordings),
        reasons=reasons_of([call._replace(reason=call.reason and f"{call.name}: {call.reason}") for call in calls]),
        seconds=sum(call.seconds for call in hits),
        saved_seconds=sum(max(0.0, call.spared_seconds - call.seconds) for call in hits),
        calls=calls,
    )


def reasons_of(asked: Sequence[Program] | Sequence[TraceCall]) -> Mapping[str, Mapping[str, int]]:
    """Why there were no better outcomes, and how often, by outcome."""
    counts: dict[str, Counter[str]] = {}
    for one in asked:
        if one.reason is not None:
            counts.setdefault(one.outcome, Counter())[one.reason] += 1
    frozen = {outcome: Frozen(dict(counter.most_common())) for outcome, counter in counts.items()}
    return Frozen(frozen)


def traces_in_all(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The counts of many reports' traces together; reports of before there were traces have none."""
    found = [report.get("traces") or {} for report in reports]
    reasons: dict[str, Counter[str]] = {}
    for traces in found:
        for outcome, counts in traces.get("reasons", {}).items():
            reasons.setdefault(outcome, Counter()).update(counts)
    return {
        **{name: sum(traces.get(name, 0) for traces in found) for name in COUNTS},
        **{name: sum(traces.get(name, 0.0) for traces in found) for name in SECONDS},
        "reasons": {outcome: dict(counts.most_common()) for outcome, counts in reasons.items()},
    }


def _short(reason: str) -> str:
    """A reason with the beginnings of digests only, and of what is very long."""
    text = _DIGEST.sub(r"\1…", reason)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def trace_lines(traces: Mapping[str, Any]) -> list[str]:
    """The counts of traces, as data for ``json.dumps``, in a few lines for people; none where nothing was counted."""
    if not any(traces[name] for name in COUNTS):
        return []
    hits, stored = traces["hits"], traces["stored"]
    first = f"traces: {hits} {'hit' if hits == 1 else 'hits'}, "
    first += f"{stored} {'miss' if stored == 1 else 'misses'} (stored), "
    first += f"{traces['not_stored']} not stored, {traces['bypassed']} left to jax.jit"
    first += f"; saved {format_seconds(traces['saved_seconds'])} of tracing"
    if traces["compared"]:
        first += f"; {traces['compared']} traced again to compare, {traces['differing'] or 'none'} differing"
    lines = [first]
    for outcome, counts in traces["reasons"].items():
        shown = list(counts.items())[:_MOST_REASONS]
        what = _WORDS.get(outcome, outcome)
        lines += [f"  {number} {what}: {_short(reason)}" for reason, number in shown]
        if len(counts) > len(shown):
            more = len(counts) - len(shown)
            lines.append(f"  and {more} more {'reason' if more == 1 else 'reasons'} (--json lists them)")
    return lines
