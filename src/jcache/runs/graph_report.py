"""Report on the calls for graphs of a `jcache.GraphCache`, for one run or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jcache.frozen import Frozen
from jcache.runs.call_reports import as_json, count_reasons, counts_line, reason_lines
from jcache.runs.calls import BYPASSED, HIT, NOT_STORED, STORED, GraphCall
from jcache.runs.log import Recording
from jcache.units import format_seconds

COUNTS: Final = ("hits", "stored", "not_stored", "bypassed")
SECONDS: Final = ("build_seconds", "load_seconds", "saved_seconds")
_WORDS: Final = {STORED: "built", NOT_STORED: "not stored", BYPASSED: "without the cache"}


class GraphReport(NamedTuple):
    """The outcomes of a run's calls for graphs.

    Attributes:
        hits: number of calls that were served without building.
        stored: number of calls that looked up a graph, built it and stored it.
        not_stored: number of calls that looked up a graph, did not find it and stored nothing.
        bypassed: number of calls that built a graph without a look-up.
        reasons: for each outcome, the number of calls by function and reason.
        build_seconds: total time of building.
        load_seconds: total time of hits, each from the call until the value is returned.
        saved_seconds: the build times of the graphs that were served, less the time of serving them.
        calls: the calls; those of one graph and outcome are added up; at most the first 1,000.
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
        """Return whether there were any calls."""
        return bool(self.calls)

    def to_json(self) -> dict[str, object]:
        """Return the report as data for ``json.dumps``."""
        fields: dict[str, object] = as_json(self)
        return fields


NO_GRAPHS: Final = GraphReport()


def graphs_of(recordings: Sequence[Recording]) -> GraphReport:
    """Return the report on the graphs of a run, from the recordings of its processes."""
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
    """Return a few lines of text on a report that is data for ``json.dumps``; none if there were no calls."""
    if not any(graphs[name] for name in COUNTS):
        return []
    first = counts_line("graphs", graphs, "without the cache")
    first += f"; built in {format_seconds(graphs['build_seconds'])}, loaded in {format_seconds(graphs['load_seconds'])}"
    return [first, *reason_lines(graphs, _WORDS)]
