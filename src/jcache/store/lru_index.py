"""How full a directory of entries is, kept current through our own puts, so that a bounded put needs no scan.

JAX's own bounded put stats and reads the whole directory each time. Here the directory is read when it is first
needed and when another process has changed it: when its modification time is not the one we left. Since the system's
clock ticks every few milliseconds, and two changes within one tick would look the same, we leave it a time of our own,
to the nanosecond; where that is not ours to set, the directory is read once a minute as well. In between, the bytes are
a running total and the order of eviction is a heap. A recency in the heap may be out of date, because a hit rewrites a
sidecar and not the directory; recency only ever grows, so the top of the heap is looked up again before it is believed,
and the victims are exactly the least recently used ones.
"""

import heapq
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final

from jcache import clock
from jcache.entry import NO_SIDECAR, SETTLED_NS, Entry
from jcache.layout import ENTRY_SUFFIX, SIDECAR_SUFFIX, Kind, Root
from jcache.store.access_times import NOT_KEPT
from jcache.store.directories import opened
from jcache.store.eviction import Excess, make_room
from jcache.store.listing import Snapshots, list_root
from jcache.store.sidecar import read_recency, write_recency

REREAD_AFTER_S: Final = 60.0


class Occupancy:
    """The occupancy of one kind's directory. What changes its numbers wants the directory's lock to be held.

    Args:
        root: whose entries.
        kind: what they hold.
        snapshots: the ledger, for large directories.
        others: tells of the entries whose names are no keys, where they count as well.
    """

    def __init__(
        self,
        root: Root,
        kind: Kind,
        snapshots: Snapshots | None,
        *,
        others: Callable[[], Iterable[Entry]] = tuple,
    ) -> None:
        self.bytes = 0
        self._kind = kind
        self._root = root
        self._directory = root.directory(kind)
        self._missing: list[tuple[str, int]] = []
        self._snapshots = snapshots
        self._others = others
        self._times = NOT_KEPT
        self._heap: list[tuple[int, str]] = []
        self._sizes: dict[str, tuple[int, int]] = {}  # key → bytes, created_ns
        self._changed_ns: int | None = None
        self._ours = False  # whether that time is one of our own making
        self._read = 0.0  # when, by `clock.monotonic`

    @property
    def undisturbed(self) -> bool:
        """Whether nobody else has changed the directory since we did or read it."""
        known = self._ours or clock.monotonic() - self._read < REREAD_AFTER_S
        return known and self._time_of_directory() == self._changed_ns

    def refresh(self) -> None:
        """Read the directory again if somebody else changed it. This needs no lock, which is then held for less."""
        if self.undisturbed:
            return
        if clock.now_ns() - self._time_of_directory() < SETTLED_NS:
            self.left_by_us()  # so that a change while we read is seen, whatever the tick
        listing = list_root(self._root, self._kind, self._snapshots)
        self._changed_ns = listing.changed_ns
        self._read = clock.monotonic()
        self._times = listing.times
        keys, sizes, created, _, sidecars, _, _ = listing.columns
        recency = listing.used()
        self._sizes = dict(zip(keys, zip(sizes, created, strict=True), strict=True))
        self._heap = list(zip(recency, keys, strict=True))
        heapq.heapify(self._heap)
        self.bytes = sum(sizes)
        self._missing = [(keys[i], recency[i]) for i, sidecar in enumerate(sidecars) if sidecar == NO_SIDECAR]
        for entry in self._others():
            self.added(entry.key, entry.bytes, entry.recency_ns)
            if not entry.sidecar:
                self._missing.append((entry.key, entry.recency_ns))

    def adopting(self) -> Iterator[None]:
        """Give each entry the sidecar that JAX expects, a step each."""
        with opened(self._root, self._directory) as directory:
            while self._missing:
                key, recency_ns = self._missing.pop()
                with suppress(OSError):  # something else has the name; JAX may stumble over it, we need not
                    write_recency(key + SIDECAR_SUFFIX, recency_ns, directory=directory)
                yield

    def left_by_us(self) -> None:
        """Take the directory's present state for our own doing."""
        mark = clock.now_ns()
        with opened(self._root, self._directory) as directory:
            status = os.fstat(directory)
            with suppress(PermissionError):
                os.utime(directory, ns=(status.st_atime_ns, mark))
                status = os.fstat(directory)
        self._changed_ns = status.st_mtime_ns
        self._ours = self._changed_ns == mark

    def _time_of_directory(self) -> int:
        return os.stat(self._directory, follow_symlinks=self._directory == self._root.path).st_mtime_ns

    def of(self, keys: Collection[str]) -> int:
        """Return bytes of some of the entries."""
        return sum(self._sizes[key][0] for key in keys if key in self._sizes)

    def victims(self, bound: int, more: int, pinned: Collection[str] = ()) -> list[Entry]:
        """Return the least recently used entries that must go for ``more`` bytes to fit; pinned ones stay."""
        spared: list[Entry] = []

        def candidates() -> Iterator[Entry]:
            for entry in self._least_recent():
                if entry.key in pinned:
                    spared.append(entry)
                else:
                    yield entry

        chosen = list(make_room(candidates(), Excess(0, self.bytes + more - bound)))
        self.spare(spared)
        return chosen

    def spare(self, entries: Iterable[Entry]) -> None:
        """Take back victims that stay for now."""
        for entry in entries:
            heapq.heappush(self._heap, (entry.recency_ns, entry.key))

    def added(self, key: str, size: int, recency_ns: int) -> None:
        self._sizes[key] = size, recency_ns
        heapq.heappush(self._heap, (recency_ns, key))
        self.bytes += size

    def removed(self, key: str) -> None:
        self.bytes -= self._sizes.pop(key)[0]

    def forget(self) -> None:
        """Take nothing for known any more."""
        self._changed_ns = None

    def _least_recent(self) -> Iterator[Entry]:
        while self._heap:
            recency, key = heapq.heappop(self._heap)
            known = self._sizes.get(key)
            if known is None:
                continue
            told = read_recency(self._directory / (key + SIDECAR_SUFFIX))
            now = max(told or 0, self._accessed(key))
            if now > recency:
                heapq.heappush(self._heap, (now, key))
                continue
            size, created = known
            yield Entry(self._kind, key, size, created, recency, sidecar=told is not None)

    def _accessed(self, key: str) -> int:
        """Return when plain JAX, which may write no sidecar, has read an entry, by its access time."""
        try:
            return self._times.used_ns(os.lstat(self._directory / (key + ENTRY_SUFFIX)))
        except OSError:
            return 0
