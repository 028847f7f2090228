"""What became of the calls that ask a `jcache.GraphCache` for graphs: of one run, and of many together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jcache.frozen import Frozen
from jcache.runs.call_reports import count_reasons, counts_line, reason_lines
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED, GraphCall
from jcache.runs.log import Recording
from jcache.units import format_seconds

COUNTS: Final = ("hits", "stored", "not_stored", "bypassed")
SECONDS: Final = ("build_seconds", "load_seconds", "saved_seconds")
_WORDS: Final = {STORED: "built", NOT_STORED: "not stored", BYPASSED: "without the cache"}


class GraphReport(NamedTuple):
    """What became of a run's calls that ask for graphs.

    Attributes:
        hits: that were served and not built.
        stored: that were looked up, built, and their graphs stored.
        not_stored: that were looked up and not found, and stored nothing.
        bypassed: that were built without a look-up.
        reasons: of each outcome, the function and why, and how often.
        build_seconds: that building took.
        load_seconds: that hits took, from the call to the value.
        saved_seconds: what building the graphs that were served had taken, less what serving them took.
        calls: those of one graph and outcome in one; of more than a thousand only the first.
    """

    hits: int = 0
    stored: int = 0
    not_stored: int = 0
    bypassed: int = 0
    reasons: Mapping[str, Mapping[str, int]] = Frozen({})
    build_seconds: float = 0.0
    load_seconds: float = 0.0
    saved_seconds: float = 0.0
    calls: tuple[GraphCall, ...] = ()

    def __bool__(self) -> bool:
        """Whether there were any."""
        return bool(self.calls)

    def to_json(self) -> dict[str, object]:
        """The report as data for ``json.dumps``."""
        fields: dict[str, object] = self._asdict()
        fields["reasons"] = {outcome: dict(counts) for outcome, counts in self.reasons.items()}
        return fields | {"calls": [call._asdict() for call in self.calls]}


NO_GRAPHS: Final = GraphReport()


def graphs_of(recordings: Sequence[Recording]) -> GraphReport:
    """What the processes of a run did with graphs."""
    each = [recording.graphs for recording in recordings]
    outcomes = sum((graphs.counts for graphs in each), Counter[str]())
    calls = tuple(call for graphs in each for call in graphs.rows)
    return GraphReport(
        hits=outcomes[HIT],
        stored=outcomes[STORED],
        not_stored=outcomes[NOT_STORED],
        bypassed=outcomes[BYPASSED],
        reasons=count_reasons([(one.outcome, f"{one.name}: {one.reason}", one.times) for one in calls if one.reason]),
        build_seconds=sum(graphs.build_seconds for graphs in each),
        load_seconds=sum(graphs.load_seconds for graphs in each),
        saved_seconds=sum(graphs.saved_seconds for graphs in each),
        calls=calls,
    )


def graph_lines(graphs: Mapping[str, Any]) -> list[str]:
    """The counts of graphs, as data for ``json.dumps``, in a few lines for people; none where nothing was counted."""
    if not any(graphs[name] for name in COUNTS):
        return []
    first = counts_line("graphs", graphs, "without the cache")
    first += f"; built in {format_seconds(graphs['build_seconds'])}, loaded in {format_seconds(graphs['load_seconds'])}"
    return [first, *reason_lines(graphs, _WORDS)]
