"""What became of the calls of one process that ask for traces or graphs: a value for each, and their counts."""

from collections import Counter
from math import inf
from typing import Any, Final, NamedTuple

HIT: Final = "hit"
STORED: Final = "stored"
NOT_STORED: Final = "not_stored"
BYPASSED: Final = "bypassed"


_OUTCOMES: Final = frozenset({HIT, STORED, NOT_STORED, BYPASSED})
_MAX_ROWS: Final = 1000


class TraceCall(NamedTuple):
    """The first call of a `jcache.jit` function for arguments of certain types.

    Attributes:
        name: of the function.
        key: of the trace; None where the call has none.
        outcome: ``hit`` (it was not traced), ``stored`` or ``not_stored`` (looked up and traced), or ``bypassed``: left
            to `jax.jit`.
        reason: why it is none of the better ones.
        seconds: looking it up took, of a hit; else tracing.
        spared_seconds: of a hit: tracing had taken.
    """

    name: str
    key: str | None
    outcome: str
    reason: str | None = None
    seconds: float = 0.0
    spared_seconds: float = 0.0


class GraphCall(NamedTuple):
    """Calls that ask for one graph and have the same outcome.

    Attributes:
        name: of the function that builds it.
        key: of the graph; None where the calls have none.
        outcome: ``hit`` (it was not built), ``stored`` or ``not_stored`` (looked up and not found), or ``bypassed``:
            built without a look-up.
        reason: why it is none of the better ones.
        seconds: that the calls took, of hits; else building.
        spared_seconds: of hits: building had taken, each time.
        times: how many calls.
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
        """What hits have saved; 0 where nobody knows what building took."""
        return self.spared_seconds - self.seconds if self.outcome == HIT and self.spared_seconds else 0.0


class TraceCalls:
    """The calls of one process for traces.

    Attributes:
        calls: each of them.
        compared: how many traces that would have been served were traced to compare.
        differing: how many of these gave another program.
    """

    def __init__(self) -> None:
        self.calls: list[TraceCall] = []
        self.compared = 0
        self.differing = 0

    def add(self, line: dict[str, Any]) -> None:
        """Takes in the fields of a call; those of another jcache, which says something else, are passed over."""
        call = TraceCall(*(line.get(name) for name in TraceCall._fields))  # type: ignore[arg-type]
        if _is_well_typed(call):
            self.calls.append(call)

    def compare(self, *, same: bool) -> None:
        """Takes in what comparing a trace gave."""
        self.compared += 1
        self.differing += not same


class GraphCalls:
    """The calls of one process for graphs, which may be millions: those that are alike in one row.

    Attributes:
        counts: how many had each outcome.
        build_seconds: that building took.
        load_seconds: that hits took.
        saved_seconds: what building the graphs that were served had taken, less what serving them took.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.build_seconds = 0.0
        self.load_seconds = 0.0
        self.saved_seconds = 0.0
        self._rows: dict[tuple[object, ...], GraphCall] = {}

    def add(self, line: dict[str, Any]) -> None:
        """Takes in the fields of a call; those of another jcache, which says something else, are passed over."""
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
        """The calls, those that are alike in one; of very many only the first."""
        return list(self._rows.values())


def _is_well_typed(call: TraceCall | GraphCall) -> bool:
    """Whether the fields are of the right types: they may come from a file."""
    name, key, outcome, reason, seconds, spared = call[:6]
    texts = isinstance(name, str) and isinstance(key, str | None) and isinstance(reason, str | None)
    numbers = (isinstance(number, int | float) and 0 <= number < inf for number in (seconds, spared))
    return texts and isinstance(outcome, str) and outcome in _OUTCOMES and all(numbers)
