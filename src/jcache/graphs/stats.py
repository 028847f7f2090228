"""Counts of what a `GraphCache` has done in this process."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Final

from jcache.forking import TellInChild
from jcache.frozen import Frozen
from jcache.store.economics import Economics, in_all
from jcache.units import format_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphStats:
    """What a `GraphCache` has done in this process since it was made.

    Attributes:
        hits: calls that were served from the cache.
        misses: calls that were looked up and not served, damaged and stale graphs included.
        builds: how often a function ran, calls without a key included.
        stored: graphs that were written.
        not_stored: graphs that were not written, by reason.
        build_seconds: seconds of all builds.
        load_seconds: seconds of all hits, from the call to the value.
        saved_seconds: seconds that building the served graphs had taken, less the seconds of serving them.
        functions: the figures of each function, by name; see `slower`.
    """

    hits: int = 0
    misses: int = 0
    builds: int = 0
    stored: int = 0
    not_stored: Mapping[str, int] = Frozen({})
    build_seconds: float = 0.0
    load_seconds: float = 0.0
    saved_seconds: float = 0.0
    functions: Mapping[str, Economics] = Frozen({})

    @property
    def slower(self) -> tuple[str, ...]:
        """The functions whose graphs take longer to load than to build: they are better off without a cache."""
        return tuple(name for name, economics in self.functions.items() if economics.is_slower)

    def __str__(self) -> str:
        lines = [
            f"{self.hits} hits, {self.misses} misses; {self.builds} built in {format_seconds(self.build_seconds)}, "
            f"{self.stored} stored; saved {format_seconds(self.saved_seconds)}",
            *(f"{number} not stored: {reason}" for reason, number in self.not_stored.items()),
            *(verdict for name, each in self.functions.items() if (verdict := each.verdict(name))),
        ]
        return "\n".join(lines)


class GraphTally:
    """The running counts for `GraphStats`; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._not_stored: Counter[str] = Counter()
        self._functions: dict[str, Economics] = {}
        _TALLIES.add(self)

    def spent(self, name: str, economics: Economics) -> None:
        with self._lock:
            self._functions[name] = self._functions.get(name, Economics()).plus(economics)

    def missed(self) -> None:
        with self._lock:
            self._counts["misses"] += 1

    def stored(self) -> None:
        with self._lock:
            self._counts["stored"] += 1

    def not_stored(self, reason: str) -> None:
        with self._lock:
            self._not_stored[reason] += 1

    def renew_lock(self) -> None:
        """Replace the lock in a forked child: a thread of the parent may have held it."""
        self._lock = Lock()

    def snapshot(self) -> GraphStats:
        with self._lock:
            total = in_all(self._functions)
            return GraphStats(
                hits=total.loads,
                misses=self._counts["misses"],
                builds=total.builds,
                stored=self._counts["stored"],
                not_stored=Frozen(dict(self._not_stored)),
                build_seconds=total.build_seconds,
                load_seconds=total.load_seconds,
                saved_seconds=total.saved_seconds,
                functions=Frozen(dict(self._functions)),
            )


_TALLIES: Final = TellInChild(GraphTally.renew_lock)
