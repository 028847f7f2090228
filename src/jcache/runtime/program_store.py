"""The store of a program: used by several threads, inherited by forked children, and never waiting long.

SQLite's connections belong to the thread that made them and must not cross a fork. So each thread of each process has
its own; the one that made the ledger keeps its connection, the others close theirs after each use.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from jcache import clock
from jcache.errors import Locked
from jcache.forking import TellInChild
from jcache.layout import ENTRY_SUFFIX, SIDECAR_SUFFIX, Kind, Root
from jcache.runtime.debounce import Debouncer
from jcache.store import files
from jcache.store.directories import opened
from jcache.store.economics import Spending, Spent
from jcache.store.ledger import Known, Ledger
from jcache.store.pins import Pins
from jcache.store.store import Outcome, Store

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from jcache.findings import Finding

T = TypeVar("T")

_BUSY_TIMEOUT_S, _BUSY_TIMEOUT_UNDER_LOCK_S = 0.5, 0.1
_QUARANTINE_TIMEOUT_S: Final = 1.0
_FLUSH_INTERVAL_S: Final = 1.0  # seconds
_LOCK_RETRY_S: Final = 0.05
_LOCK_BACKOFF_S: Final = 60.0


class _ThreadState:
    """What a `Ledger` keeps, of one thread."""

    __slots__ = ("database", "writable")

    def __init__(self) -> None:
        self.database: sqlite3.Connection | None = None
        self.writable = False


class ThreadsLedger(Ledger):
    """A ledger that several threads may use at once, and a forked child as well."""

    def __init__(self, path: Path, *, busy_timeout: float = _BUSY_TIMEOUT_S) -> None:
        self._states: dict[tuple[int, int], _ThreadState] = {}
        self._owner_thread = threading.get_ident()
        super().__init__(path, busy_timeout=busy_timeout)

    @property
    def _state(self) -> _ThreadState:
        return self._states.setdefault((os.getpid(), threading.get_ident()), _ThreadState())

    @property
    def _database(self) -> sqlite3.Connection | None:
        return self._state.database

    @_database.setter
    def _database(self, database: sqlite3.Connection | None) -> None:
        self._state.database = database

    @property
    def _writable(self) -> bool:
        return self._state.writable

    @_writable.setter
    def _writable(self, writable: bool) -> None:
        self._state.writable = writable

    def _read(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        try:
            return super()._read(action)
        finally:
            self._close_unless_owner()

    def _write(self, action: Callable[[sqlite3.Connection], T], *, anew: bool = True) -> T:
        try:
            return super()._write(action, anew=anew)
        finally:
            self._close_unless_owner()

    def _close_unless_owner(self) -> None:
        if threading.get_ident() != self._owner_thread:
            self.close()
            self._states.pop((os.getpid(), threading.get_ident()), None)


class ProgramStore(Store):
    """The store of a program.

    Args:
        root: which root.
        max_bytes: bound of the entries together; None for no bound.
        lock_timeout: seconds to wait for the directory's lock.
        always_recency: whether entries get sidecars without a bound, too.
    """

    def __init__(self, root: Root, *, max_bytes: int | None, lock_timeout: float, always_recency: bool = True) -> None:
        super().__init__(root, max_bytes=max_bytes, lock_timeout=lock_timeout)
        self.threads_ledger = ThreadsLedger(root.ledger)
        self.ledger: Ledger = self.threads_ledger
        self.pins = Pins(root, self.ledger)
        self._quick_ledger = ThreadsLedger(root.ledger, busy_timeout=_BUSY_TIMEOUT_UNDER_LOCK_S)
        self.last_learnt: deque[Known] = deque(maxlen=1)
        self.writes_recency = always_recency or max_bytes is not None
        self._lock_backoff_until = 0.0
        self._spending = Spending()

    def flush(self) -> None:
        """Writes to the ledger what has been last_learnt, unless the root itself is gone."""
        spending, self._spending = self._spending, Spending()
        if os.path.isdir(self.root.path):
            super().flush()
            if spending:
                self.softly(lambda: self.ledger.record_economics(spending))
        else:
            self._news, self._evicted = [], set()

    def learn(self, news: Known | Spent) -> None:
        if isinstance(news, Known):
            self._learn(news)
        else:
            self._spending.add(news)

    def count(self, kind: Kind) -> int:
        """How many entries of a kind there are."""
        return len(self.listing(kind))

    @contextmanager
    def _locked(self, kind: Kind, *, at_most: float | None = None) -> Iterator[None]:
        """Waits in full for a lock that could be had lately, and hardly for one that could not."""
        now = clock.monotonic()
        try:
            with super()._locked(kind, at_most=_LOCK_RETRY_S if now < self._lock_backoff_until else at_most):
                yield
        except Locked:
            self._lock_backoff_until = clock.monotonic() + _LOCK_BACKOFF_S
            raise

    def close(self) -> None:
        self.flush()
        self.ledger.close()
        self._quick_ledger.close()

    def quarantine(self, finding: Finding, now_ns: int) -> bool:
        """Takes a damaged entry out of the way, if it is still the one that was looked at.

        Raises:
            OSError, JcacheError: it cannot be moved, or the lock not be had soon.
        """
        from jcache.findings import Stamp
        from jcache.store.quarantine import Quarantine

        kind, key = finding.kind, finding.key
        if kind is None or key is None:
            raise ValueError("only what has a key goes to quarantine")
        with self._locked(kind, at_most=_QUARANTINE_TIMEOUT_S):
            try:
                if finding.stamp is not None and Stamp.of(os.lstat(finding.path)) != finding.stamp:
                    return False
                Quarantine(self.root).take(finding, now_ns)
            except FileNotFoundError:
                return False
        self._news = [known for known in self._news if (known.kind, known.key) != (kind, key)]
        self.softly(lambda: self.ledger.discredit([(kind, key)]))
        return True

    def _learn(self, known: Known) -> None:
        self.last_learnt.append(known)
        super()._learn(known)

    def _publish(self, kind: Kind, directory: int, temporary: str, key: str, size: int) -> Outcome:
        if self.writes_recency:
            return super()._publish(kind, directory, temporary, key, size)
        stored = self._give_name(kind, directory, temporary, key + ENTRY_SUFFIX)
        return Outcome.STORED if stored else Outcome.PRESENT


class WriteQueue:
    """Where the threads of a program hand in what is to be stored, one after the other.

    Args:
        make: makes the store, once for each process.
        kind: of the entries.
    """

    def __init__(self, make: Callable[[], ProgramStore], kind: Kind) -> None:
        self._make = make
        self._bound: tuple[int | None] | None = None  # that has come to hold in place of that of `make`
        self._kind = kind
        self._mutex = threading.Lock()
        self._pending_uses: dict[str, int] = {}  # since the last put, what was served again
        self._touched_keys: set[str] = set()
        self._pending: deque[Known | Spent] = deque()
        self._debouncer = Debouncer(self._try_flush)
        self._parent_stores: list[ProgramStore] = []  # never closed: a connection of our parent is not ours to close
        self.store = make()
        _QUEUES.add(self)

    def set_bound(self, max_bytes: int | None) -> None:
        """Has another bound hold from the next put on; None for none."""
        with self._mutex:
            self._bound = (max_bytes,)
            self.store.max_bytes = max_bytes

    def put(self, key: str, data: bytes, *, seconds: float | None, origin: str) -> tuple[Outcome, Known | None]:
        """Stores an entry, and tells what has been last_learnt of it.

        Raises:
            OSError, JcacheError: it could not be stored.
        """
        with self._mutex:
            if self.store.max_bytes is not None:
                self._write_recency()
            self.store.last_learnt.clear()
            outcome = self.store.put(self._kind, key, data, seconds=seconds, origin=origin)
            if outcome is Outcome.STORED:
                self._debouncer.schedule(_FLUSH_INTERVAL_S)
            return outcome, self.store.last_learnt[0] if self.store.last_learnt else None

    def quarantine(self, finding: Finding) -> bool:
        """Takes a damaged entry out of the way; raises as `ProgramStore.quarantine`."""
        with self._mutex:
            return self.store.quarantine(finding, clock.now_ns())

    def clear(self) -> None:
        """Removes all entries; raises as `Store.remove`."""
        with self._mutex:
            self.store.remove(self.store.entries([self._kind]))

    def count(self) -> int:
        """How many entries there are; raises as `Store.listing`."""
        return self.store.count(self._kind)

    def mark_used(self, key: str) -> None:
        """Marks an entry as used: the first time in its sidecar, later only before the next bounded put."""
        if not self.store.writes_recency:
            return
        now = clock.now_ns()
        if key in self._touched_keys:
            self._pending_uses[key] = now
            return
        self._touched_keys.add(key)
        self._write(key, now)

    def learn(self, news: Known | Spent) -> None:
        """Keeps what has been last_learnt from reading, for the next flush, and never waits."""
        self._pending.append(news)
        self._debouncer.schedule(_FLUSH_INTERVAL_S)

    def flush(self) -> None:
        """Writes what has been last_learnt to the ledger, softly.

        It happens a moment after each put anyway: a process that is killed, as most jobs are, tells nothing later, and
        an entry whose digest nobody knows cannot be told from a damaged one.
        """
        with self._mutex:
            self._learn_pending()
            self.store.flush()

    def _try_flush(self) -> None:
        """The same, between two puts."""
        if not self._mutex.acquire(blocking=False):
            self._debouncer.schedule(_FLUSH_INTERVAL_S)
            return
        try:
            self._learn_pending()
            self.store.flush()
        finally:
            self._mutex.release()

    def close(self) -> None:
        with self._mutex:
            self._learn_pending()
            self.store.close()

    def after_fork(self) -> None:
        """Begins anew in a forked child: its parent flushes what it has last_learnt, and keeps its connections."""
        self._mutex = threading.Lock()
        self._pending.clear()
        self._parent_stores.append(self.store)
        self.store = self._make()
        if self._bound is not None:
            self.store.max_bytes = self._bound[0]

    def _learn_pending(self) -> None:
        while self._pending:
            self.store.learn(self._pending.popleft())

    def _write_recency(self) -> None:
        while self._pending_uses:
            self._write(*self._pending_uses.popitem())

    def _write(self, key: str, now: int) -> None:
        root = self.store.root
        with suppress(OSError), opened(root, root.directory(self._kind)) as directory:  # it may be read-only
            files.write_recency(key + SIDECAR_SUFFIX, now, directory=directory)


_QUEUES: Final = TellInChild(WriteQueue.after_fork)
