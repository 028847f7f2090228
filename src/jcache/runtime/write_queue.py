"""The queue in front of a program's store: it serializes the puts of all threads, and batches writes to the ledger."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jcache import clock
from jcache.forking import TellInChild
from jcache.layout import SIDECAR_SUFFIX, Kind, Root
from jcache.runtime.debounce import Debouncer
from jcache.store.directories import opened
from jcache.store.put_result import Outcome, PutResult
from jcache.store.sidecar import write_recency

if TYPE_CHECKING:
    from jcache.findings import Finding
    from jcache.runtime.program_store import ProgramStore
    from jcache.store.economics import Spent
    from jcache.store.ledger import Known

_FLUSH_INTERVAL_S: Final = 1.0


class WriteQueue:
    """The one writer to a program's store; several threads may use it.

    Args:
        make: makes the store, once in each process.
        kind: the kind of the entries.

    Attributes:
        store: the store of this process.
    """

    def __init__(self, make: Callable[[], ProgramStore], kind: Kind) -> None:
        self._make = make
        self._bound: tuple[int | None] | None = None  # replaces the bound of `make`, if set
        self._kind = kind
        self._mutex = threading.Lock()
        self._pending_uses: dict[str, int] = {}  # keys that were served again since the last put, with the time
        self._touched_keys: set[str] = set()
        self._pending: deque[Known | Spent] = deque()
        self._debouncer = Debouncer(self._try_flush)
        self._parent_stores: list[ProgramStore] = []  # never closed: a parent's connection is not ours to close
        self.store = make()
        _QUEUES.add(self)

    def set_bound(self, max_bytes: int | None) -> None:
        """Set the bound that holds from the next put on; None for no bound."""
        with self._mutex:
            self._bound = (max_bytes,)
            self.store.max_bytes = max_bytes

    def put(self, key: str, data: bytes, *, seconds: float | None, origin: str) -> PutResult:
        """Store an entry.

        Args:
            key: the key.
            data: the bytes to store.
            seconds: the time that building the entry took; None if it is not known.
            origin: origin of the entry, for the ledger.

        Raises:
            OSError, JcacheError: the entry could not be stored.
        """
        with self._mutex:
            if self.store.max_bytes is not None:
                self._write_pending_uses()
            result = self.store.put(self._kind, key, data, seconds=seconds, origin=origin)
            if result.outcome is Outcome.STORED:
                self._debouncer.schedule(_FLUSH_INTERVAL_S)
            return result

    def quarantine(self, finding: Finding) -> bool:
        """Move a damaged entry to quarantine; return and raise as `ProgramStore.quarantine`."""
        with self._mutex:
            return self.store.quarantine(finding, clock.now_ns())

    def clear(self) -> None:
        """Remove all entries; raise as `Maintenance.execute`."""
        with self._mutex:
            self.store.clear(self._kind)

    def count(self) -> int:
        """Return the number of entries; raise as `Catalog.listing`."""
        return self.store.count(self._kind)

    def mark_used(self, key: str) -> None:
        """Mark an entry as used: the first time in its sidecar at once, later only before the next bounded put."""
        if not self.store.writes_recency:
            return
        now = clock.now_ns()
        if key in self._touched_keys:
            self._pending_uses[key] = now
            return
        self._touched_keys.add(key)
        self._write_use(key, now)

    def digest_on_record(self, key: str) -> str | None:
        """Return what `ProgramStore.digest_on_record` does, without waiting for a lock."""
        return self.store.digest_on_record(self._kind, key)

    def learn(self, news: Known | Spent) -> None:
        """Keep a record for the next flush, without waiting for a lock."""
        self._pending.append(news)
        self._debouncer.schedule(_FLUSH_INTERVAL_S)

    def flush(self) -> None:
        """Write all pending records to the ledger; a failure is ignored.

        This also happens `_FLUSH_INTERVAL_S` after each put: a process that is killed, as most jobs are, cannot write
        at exit, and an entry without a digest on record cannot be told from a damaged one.
        """
        with self._mutex:
            self._learn_pending()
            self.store.flush()

    def _try_flush(self) -> None:
        """Flush, or try again later if a put is in progress."""
        if not self._mutex.acquire(blocking=False):
            self._debouncer.schedule(_FLUSH_INTERVAL_S)
            return
        try:
            self._learn_pending()
            self.store.flush()
        finally:
            self._mutex.release()

    def close(self) -> None:
        """Flush, and close the store."""
        with self._mutex:
            self._learn_pending()
            self.store.close()

    def after_fork(self) -> None:
        """Start with a new store in a forked child: the parent writes its own records and keeps its connections."""
        self._mutex = threading.Lock()
        self._pending.clear()
        self._parent_stores.append(self.store)
        self.store = self._make()
        if self._bound is not None:
            self.store.max_bytes = self._bound[0]

    def _learn_pending(self) -> None:
        while self._pending:
            self.store.learn(self._pending.popleft())

    def _write_pending_uses(self) -> None:
        while self._pending_uses:
            self._write_use(*self._pending_uses.popitem())

    def _write_use(self, key: str, now_ns: int) -> None:
        root = self.store.root
        with suppress(OSError), opened(root, root.directory(self._kind)) as directory:  # it may be read-only
            write_recency(key + SIDECAR_SUFFIX, now_ns, directory=directory)


def flush_all(root: Root) -> None:
    """Write all pending records of this process to the ledger of a root; a failure is ignored."""
    for queue in _QUEUES:
        if queue.store.root == root:
            queue.flush()


_QUEUES: Final = TellInChild(WriteQueue.after_fork)
