"""The store that a program writes to: several threads use it, forked children inherit it, and it never waits long."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from jcache import clock
from jcache.errors import Locked
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.runtime.threads_ledger import ThreadsLedger
from jcache.store.economics import Spending, Spent
from jcache.store.ledger import Known, Ledger
from jcache.store.pins import Pins
from jcache.store.store import Outcome, Store

if TYPE_CHECKING:
    from jcache.findings import Finding

_BUSY_TIMEOUT_UNDER_LOCK_S: Final = 0.1
_QUARANTINE_TIMEOUT_S: Final = 1.0
_LOCK_RETRY_S: Final = 0.05  # the wait for a lock that timed out within the last `_LOCK_BACKOFF_S`
_LOCK_BACKOFF_S: Final = 60.0


class ProgramStore(Store):
    """The store of a program.

    Args:
        root: the root.
        max_bytes: bound of the entries' total size; None for no bound.
        lock_timeout: seconds to wait for the directory's lock.
        always_recency: whether entries get sidecars without a bound, too.

    Attributes:
        threads_ledger: the root's ledger.
        writes_recency: whether an entry gets a sidecar.
        last_learnt: the last record that a put made for the ledger, if any.
    """

    def __init__(self, root: Root, *, max_bytes: int | None, lock_timeout: float, always_recency: bool = True) -> None:
        super().__init__(root, max_bytes=max_bytes, lock_timeout=lock_timeout)
        self.threads_ledger = ThreadsLedger(root.ledger)
        self.ledger: Ledger = self.threads_ledger
        self.pins = Pins(root, self.ledger)
        self._quick = ThreadsLedger(root.ledger, busy_timeout=_BUSY_TIMEOUT_UNDER_LOCK_S)
        self.last_learnt: deque[Known] = deque(maxlen=1)
        self.writes_recency = always_recency or max_bytes is not None
        self._lock_backoff_until = 0.0
        self._spending = Spending()

    def flush(self) -> None:
        """Write all pending records to the ledger, unless the root itself is gone."""
        spending, self._spending = self._spending, Spending()
        if os.path.isdir(self.root.path):
            super().flush()
            if spending:
                self.softly(lambda: self.ledger.record_economics(spending))
        else:
            self._news, self._evicted = [], set()

    def learn(self, news: Known | Spent) -> None:
        """Keep a record for the next flush."""
        if isinstance(news, Known):
            self._learn(news)
        else:
            self._spending.add(news)

    def count(self, kind: Kind) -> int:
        """Return the number of entries of a kind."""
        return len(self.listing(kind))

    @contextmanager
    def _locked(self, kind: Kind, *, at_most: float | None = None) -> Iterator[None]:
        """Wait for the lock: `_LOCK_RETRY_S` if it timed out lately, else the full timeout."""
        now = clock.monotonic()
        try:
            with super()._locked(kind, at_most=_LOCK_RETRY_S if now < self._lock_backoff_until else at_most):
                yield
        except Locked:
            self._lock_backoff_until = clock.monotonic() + _LOCK_BACKOFF_S
            raise

    def close(self) -> None:
        """Flush, and close the ledger."""
        self.flush()
        self.ledger.close()
        self._quick.close()

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
