"""Make room in a directory under a bound: remove the least recently used entries, but no pinned ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from jcache.errors import LedgerUnavailable
from jcache.layout import Kind, Root
from jcache.store.cache_rules import JCACHE_RULES, CacheRules
from jcache.store.directories import Directories
from jcache.store.ledger import Ledger
from jcache.store.ledger_queue import LedgerQueue
from jcache.store.pins import Pins

if TYPE_CHECKING:
    from jcache.store.lru_index import Occupancy

BUSY_TIMEOUT_S: Final = 0.1  # the wait for another writer of the ledger while the lock is held


class Evictor:
    """Removes entries so that a new one fits under the bound. The lock of the directory must be held.

    Args:
        root: the root.
        max_bytes: bound of each kind's entries together; None for no bound.
        queue: the queue of the ledger, which forgets the removed entries.
        quick_ledger: a ledger that waits for other writers only briefly, because the lock is held meanwhile.
        rules: the rules of the cache.

    Attributes:
        max_bytes: the bound, which may change.
    """

    def __init__(
        self,
        root: Root,
        max_bytes: int | None,
        queue: LedgerQueue,
        quick_ledger: Ledger,
        rules: CacheRules = JCACHE_RULES,
    ) -> None:
        self.max_bytes = max_bytes
        self._root = root
        self._queue = queue
        self._quick_ledger = quick_ledger
        self._rules = rules
        self._occupancy: dict[Kind, Occupancy] = {}
        self._pins: set[tuple[Kind, str]] | None = None

    def close(self) -> None:
        self._quick_ledger.close()

    def occupancy(self, kind: Kind) -> Occupancy:
        """Return the occupancy of a kind's directory."""
        if kind not in self._occupancy:
            from jcache.store.lru_index import Occupancy

            others = partial(self._rules.others, self._root, kind)
            self._occupancy[kind] = Occupancy(self._root, kind, self._quick_ledger, others=others)
        return self._occupancy[kind]

    def fits(self, kind: Kind, size: int) -> bool:
        """Return whether an entry of some size fits without an eviction."""
        return self.occupancy(kind).bytes + size <= (self.max_bytes or 0)

    def can_make_room(self, kind: Kind, size: int) -> bool:
        """Return whether an entry of some size fits beside the pinned entries; if not, nothing may be evicted for it.

        Raises:
            LedgerUnavailable: the pins are not known.
        """
        self._pins = self._current_pins()
        return self.occupancy(kind).of(self._pinned(kind)) + size <= (self.max_bytes or 0)

    def evicting(self, kind: Kind, size: int) -> Iterator[None]:
        """Evict what must go for an entry of some size, a step each."""
        if self.fits(kind, size):
            return
        from jcache.store.removal import unlink

        occupancy = self.occupancy(kind)
        victims = deque(occupancy.victims(self.max_bytes or 0, size, self._pinned(kind)))
        try:
            with Directories(self._root) as directories:
                while victims:
                    entry = victims.popleft()
                    unlink(self._root, entry, directories)
                    occupancy.removed(entry.key)
                    self._queue.forget(kind, entry.key)
                    yield
        finally:
            occupancy.spare(victims)

    def _pinned(self, kind: Kind) -> set[str]:
        return {key for of, key in self._pins or () if of is kind}

    def _current_pins(self) -> set[tuple[Kind, str]]:
        try:
            return Pins(self._root, self._quick_ledger).known(sure=True)
        except LedgerUnavailable as error:
            if error.lost or self._pins is None:
                raise
            return self._pins  # the ledger is busy
