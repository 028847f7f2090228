"""What a `GraphCache` reports of its calls: counts, warnings, and lines for `jcache run`, if it records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jcache import clock
from jcache.graphs.roots import GRAPHS
from jcache.graphs.stats import GraphTally
from jcache.runs.calls import BYPASSED, NOT_STORED, GraphCall
from jcache.runs.observers import is_recorded, tell_graph
from jcache.runtime.explain import why_missed
from jcache.runtime.warn import warn_once
from jcache.store.economics import Economics

if TYPE_CHECKING:
    from jcache.graphs.keyed_call import KeyedCall

_EXPLAINING_S: Final = 1.0  # a cache spends no more on finding out why graphs were missed


class Told:
    """The reports of one cache.

    Attributes:
        tally: the counts.
    """

    def __init__(self) -> None:
        self.tally = GraphTally()
        self._explained_s = 0.0

    def warn(self, function: Callable[..., Any], reason: object, text: str) -> None:
        """Warn about the graph of a function, once for each reason."""
        name = name_of_function(function)
        warn_once((name, getattr(function, "__module__", None), reason), f"The graph of `{name}` {text}")

    def tell(
        self, call: KeyedCall, outcome: str, reason: str | None, seconds: float = 0.0, spared: float = 0.0
    ) -> None:
        """Report the outcome of a call."""
        tell_graph(GraphCall(call.fingerprint.name, call.key, outcome, reason, seconds, spared))

    def tell_not_loaded(self, function: Callable[..., Any], call: KeyedCall | str, why: str | None) -> None:
        """Report a call of `load` that found no graph."""
        if isinstance(call, str):
            tell_graph(GraphCall(name_of_function(function), None, BYPASSED, why))
        else:
            self.tell(call, NOT_STORED, f"it is not built here: {why or self.why_missed(call)}")

    def tell_built_without(self, function: Callable[..., Any], reason: str, seconds: float) -> None:
        """Report a function that ran without the cache."""
        name = name_of_function(function)
        self.tally.spent(name, Economics(builds=1, build_seconds=seconds))
        tell_graph(GraphCall(name, None, BYPASSED, reason, seconds))

    def why_missed(self, call: KeyedCall) -> str:
        """Return how a call differs from the most similar stored graph, if there is time to find out."""
        if not is_recorded() or self._explained_s > _EXPLAINING_S:
            return "none of its key was there"
        started, taken = clock.monotonic(), call.fingerprint
        try:
            return why_missed(call.store.root, GRAPHS, taken.name, call.key, taken.parts)
        except Exception as error:  # noqa: BLE001  whatever it is, the program goes on
            return f"what was there cannot be compared: {error!r}"
        finally:
            self._explained_s += clock.monotonic() - started


def name_of_function(function: Callable[..., Any]) -> str:
    """Return what a function is called in messages."""
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)
