"""Outcomes of the calls of one process that look for a trace or a graph: a value for each call, and counts."""

from collections import Counter
from math import inf
from typing import Any, Final, NamedTuple

HIT: Final = "hit"
STORED: Final = "stored"
NOT_STORED: Final = "not_stored"
BYPASSED: Final = "bypassed"
COMPARING: Final = "one of the starts that compare"  # the reason why what is stored is made again

_OUTCOMES: Final = frozenset({HIT, STORED, NOT_STORED, BYPASSED})
_MAX_ROWS: Final = 1000


class TraceCall(NamedTuple):
    """The first call of a `jcache.jit` function for arguments of certain types.

    Attributes:
        name: name of the function.
        key: key of the trace; None if the call has none.
        outcome: ``hit`` (not traced), ``stored`` or ``not_stored`` (looked up and traced), or ``bypassed`` (left to
            `jax.jit`).
        reason: the reason why the outcome is no better; None if there is none.
        seconds: time of the look-up for a hit, of tracing otherwise.
        spared_seconds: for a hit, the time that tracing took when the trace was stored.
    """

    name: str
    key: str | None
    outcome: str
    reason: str | None = None
    seconds: float = 0.0
    spared_seconds: float = 0.0


class GraphCall(NamedTuple):
    """Calls for the same graph with the same outcome.

    Attributes:
        name: name of the function that builds the graph.
        key: key of the graph; None if the calls have none.
        outcome: ``hit`` (not built), ``stored`` or ``not_stored`` (looked up and not found), or ``bypassed`` (built
            without a look-up).
        reason: the reason why the outcome is no better; None if there is none.
        seconds: total time of the calls for hits, of building otherwise.
        spared_seconds: for hits, the build time of the graph, once for each call.
        times: the number of calls.
    """

    name: str
    key: str | None
    outcome: str
    reason: str | None = None
    seconds: float = 0.0
    spared_seconds: float = 0.0
    times: int = 1

    @property
    def saved_seconds(self) -> float:
        """The time that hits saved; 0 if the build time is not known."""
        return self.spared_seconds - self.seconds if self.outcome == HIT and self.spared_seconds else 0.0


class TraceCalls:
    """The calls of one process for traces.

    Attributes:
        calls: all calls.
        compared: the number of stored traces that were traced again to compare, instead of being served.
        differing: the number of these traces that gave another program.
        news: for each comparison, the function and what is new in the world of its call.
    """

    def __init__(self) -> None:
        self.calls: list[TraceCall] = []
        self.compared = 0
        self.differing = 0
        self.news: list[str] = []

    def add(self, line: dict[str, Any]) -> None:
        """Add a call from its fields; ignore fields of wrong types, which another version of jcache may write."""
        call = TraceCall(*(line.get(name) for name in TraceCall._fields))  # type: ignore[arg-type]
        if _is_well_typed(call):
            self.calls.append(call)

    def compare(self, *, same: bool, name: object, why: object) -> None:
        """Add the result of a comparison.

        Args:
            same: whether it was the same program.
            name: name of the function.
            why: what is new in the world of the call.
        """
        self.compared += 1
        self.differing += not same
        if isinstance(name, str) and isinstance(why, str) and len(self.news) < _MAX_ROWS:
            why = why or "one of the starts that compare"
            self.news.append(f"{name}: {why}, {'same' if same else 'another'} program")


class GraphCalls:
    """The calls of one process for graphs. There may be millions, so equal calls share a row.

    Attributes:
        counts: the number of calls by outcome.
        build_seconds: total time of building.
        load_seconds: total time of hits.
        saved_seconds: the build times of the graphs that were served, less the time of serving them.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.build_seconds = 0.0
        self.load_seconds = 0.0
        self.saved_seconds = 0.0
        self._rows: dict[tuple[object, ...], GraphCall] = {}

    def add(self, line: dict[str, Any]) -> None:
        """Add a call from its fields; ignore fields of wrong types, which another version of jcache may write."""
        call = GraphCall(*(line.get(name) for name in GraphCall._fields))._replace(times=1)  # type: ignore[arg-type]
        if not _is_well_typed(call):
            return
        self.counts[call.outcome] += 1
        if call.outcome == HIT:
            self.load_seconds += call.seconds
        else:
            self.build_seconds += call.seconds
        self.saved_seconds += call.saved_seconds
        known = self._rows.get(call[:4])
        if known is not None:
            seconds, spared = known.seconds + call.seconds, known.spared_seconds + call.spared_seconds
            call = call._replace(seconds=seconds, spared_seconds=spared, times=known.times + 1)
        if known is not None or len(self._rows) < _MAX_ROWS:
            self._rows[call[:4]] = call

    @property
    def rows(self) -> list[GraphCall]:
        """The calls, with equal calls in one row; at most the first 1,000 rows."""
        return list(self._rows.values())


def _is_well_typed(call: TraceCall | GraphCall) -> bool:
    """Return whether the fields have the right types: they may come from a file."""
    name, key, outcome, reason, seconds, spared = call[:6]
    texts = isinstance(name, str) and isinstance(key, str | None) and isinstance(reason, str | None)
    numbers = (isinstance(number, int | float) and 0 <= number < inf for number in (seconds, spared))
    return texts and isinstance(outcome, str) and outcome in _OUTCOMES and all(numbers)
