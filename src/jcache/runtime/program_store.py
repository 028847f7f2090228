"""The store that a program writes to: several threads use it, forked children inherit it, and it never waits long."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from jcache.errors import LedgerUnavailable
from jcache.layout import Kind, Root
from jcache.runtime.threads_ledger import ThreadsLedger
from jcache.store.cache_rules import JCACHE_RULES, CacheRules
from jcache.store.economics import Spending, Spent
from jcache.store.evictor import BUSY_TIMEOUT_S
from jcache.store.ledger import UNVERIFIED, Known
from jcache.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jcache.entry import Entry
    from jcache.findings import Finding
    from jcache.store.put_result import PutResult

_QUARANTINE_TIMEOUT_S: Final = 1.0
_LOCK_RETRY_S: Final = 0.05


class ProgramStore:
    """The store of a program.

    Args:
        root: the root.
        max_bytes: bound of the entries' total size; None for no bound.
        lock_timeout: seconds to wait for the directory's lock.
        rules: the rules of the cache.

    Attributes:
        root: the root.
        threads_ledger: the root's ledger.
    """

    def __init__(
        self, root: Root, *, max_bytes: int | None, lock_timeout: float, rules: CacheRules = JCACHE_RULES
    ) -> None:
        self.root = root
        self.threads_ledger = ThreadsLedger(root.ledger)
        self._store = Store(
            root,
            max_bytes=max_bytes,
            lock_timeout=lock_timeout,
            lock_retry=_LOCK_RETRY_S,
            ledger=self.threads_ledger,
            quick_ledger=ThreadsLedger(root.ledger, busy_timeout=BUSY_TIMEOUT_S),
            rules=rules,
        )
        self._spending = Spending()
        self._is_ledger_unavailable = False

    @property
    def max_bytes(self) -> int | None:
        """Bound of the entries' total size; None for no bound."""
        return self._store.max_bytes

    @max_bytes.setter
    def max_bytes(self, value: int | None) -> None:
        self._store.max_bytes = value

    @property
    def writes_recency(self) -> bool:
        """Whether an entry gets a sidecar."""
        return self._store.writes_recency

    def put(self, kind: Kind, key: str, data: bytes, *, seconds: float | None, origin: str) -> PutResult:
        """Store an entry unless its key is there already; arguments and errors are those of `EntryWriter.put`."""
        return self._store.writer.put(kind, key, data, seconds=seconds, origin=origin)

    def digest_on_record(self, kind: Kind, key: str) -> str | None:
        """Return the digest of an entry's file in the ledger; None if there is none that was taken in this root."""
        if self._is_ledger_unavailable:
            return None
        try:
            known = self.threads_ledger.known(kind, [key]).get(key)
            copied_ns = self.threads_ledger.copied_ns()
        except LedgerUnavailable:
            self._is_ledger_unavailable = True  # a second try might wait again
            return None
        if known is None or known.checks == UNVERIFIED or (copied_ns or 0) >= (known.digest_ns or 0):
            return None
        return known.digest

    def entries(self, kind: Kind) -> Sequence[Entry]:
        """Return the entries of a kind."""
        return self._store.entries([kind])

    def count(self, kind: Kind) -> int:
        """Return the number of entries of a kind."""
        return self._store.catalog.count(kind)

    def clear(self, kind: Kind) -> None:
        """Remove all entries of a kind; raise as `Maintenance.execute`."""
        self._store.maintenance.remove(self.entries(kind))

    def learn(self, news: Known | Spent) -> None:
        """Keep a record for the next flush."""
        if isinstance(news, Known):
            self._store.queue.add(news)
        else:
            self._spending.add(news)

    def flush(self) -> None:
        """Write all pending records to the ledger, unless the root itself is gone."""
        self._store.queue.flush()
        spending, self._spending = self._spending, Spending()
        if spending and os.path.isdir(self.root.path):
            self._store.queue.attempt(lambda: self.threads_ledger.record_economics(spending))

    def close(self) -> None:
        """Flush, and close the ledger."""
        self.flush()
        self._store.close()

    def quarantine(self, finding: Finding, now_ns: int) -> bool:
        """Move a damaged entry to quarantine, if its file is still the one that was checked.

        Args:
            finding: the damage.
            now_ns: the time of the quarantine, nanoseconds since 1970.

        Returns:
            Whether the entry was moved.

        Raises:
            OSError, JcacheError: the entry cannot be moved, or another process holds the lock for over a second.
        """
        from jcache.findings import Stamp
        from jcache.store.quarantine import Quarantine

        kind, key = finding.kind, finding.key
        if kind is None or key is None:
            raise ValueError("only what has a key goes to quarantine")
        with self._store.locks.hold(kind, at_most=_QUARANTINE_TIMEOUT_S):
            try:
                if finding.stamp is not None and Stamp.of(os.lstat(finding.path)) != finding.stamp:
                    return False
                Quarantine(self.root).take(finding, now_ns)
            except FileNotFoundError:
                return False
        queue = self._store.queue
        queue.drop(kind, key)
        queue.attempt(lambda: queue.ledger.discredit([(kind, key)]))
        return True
