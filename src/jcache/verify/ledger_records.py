"""What the ledger knows of entries that are checked, and what the checks tell it; a ledger that fails is reported."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from jcache import clock
from jcache.errors import InvalidValue, LedgerUnavailable
from jcache.findings import Damage, Finding
from jcache.layout import Kind
from jcache.store import ledger_verified
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify.checks import Claim

RECORDS_AT_ONCE: Final = 20_000


class LedgerRecords:
    """The records of one verification.

    Args:
        store: store of the root.
        kinds: kinds of the entries to check.
        findings: receives a finding if the ledger is damaged.

    Attributes:
        copied_ns: time at which the root was copied, nanoseconds since 1970; None if it was not copied.
        lost: whether the ledger is damaged: then nothing is recorded, since only a repair replaces it.
        verified_ns: time of the verification.
    """

    def __init__(self, store: Store, kinds: Iterable[Kind], findings: list[Finding]) -> None:
        self.copied_ns: int | None = None
        self.lost = False
        self.verified_ns = clock.now_ns()
        self._store = store
        self._findings = findings
        self._news: list[Known] = []
        self._unchanged: list[tuple[Kind, str]] = []
        self._digests = dict.fromkeys(kinds, 0)
        self._asked = 0
        with self._reporting():
            store.ledger.check()
            self.copied_ns = store.ledger.copied_ns()

    def facts(self, kind: Kind, names: tuple[str, ...], keys: list[str]) -> dict[str, tuple[Any, ...]]:
        """Return some columns of records, as `Ledger.facts` does; nothing if the ledger fails."""
        if not self.lost:
            with self._reporting():
                return self._store.ledger.facts(kind, names, keys)
        return {}

    def of_bytes(self, kind: Kind, keys: list[str]) -> dict[str, tuple[Any, ...]]:
        """Return digest, time of the digest and version of the passed checks of entries that are checked now."""
        known = self.facts(kind, ("digest", "digest_ns", "checks"), keys)
        self._asked += len(keys)
        self._digests[kind] += sum(digest_ns is not None for _, digest_ns, _ in known.values())
        return known

    def are_alike(self, kind: Kind, entries: int) -> bool:
        """Return whether all entries of a kind were verified by one run, or none was, so that none comes first."""
        if not self.lost:
            with self._reporting():
                count, first_ns, last_ns = ledger_verified.times(self._store.ledger, kind)
                return count == 0 or (count == entries and first_ns == last_ns)
        return True

    def add(self, known: Known) -> None:
        """Record what a check has told."""
        self._news.append(known)
        self._write_many()

    def unchanged(self, kind: Kind, key: str) -> None:
        """Record that an entry was found as it is on record."""
        self._unchanged.append((kind, key))
        self._write_many()

    def gone(self, claim: Claim) -> None:
        """Have the ledger looked through for what is gone."""
        self._digests[claim.kind] -= claim.digest is not None

    def finish(self, entries: int) -> None:
        """Record what is left, and that entries on record have gone.

        Args:
            entries: number of entries that might have been checked.
        """
        self._write()
        ledger = self._store.ledger
        for kind, digests in self._digests.items() if not self.lost else ():
            with self._reporting():
                if self._asked < entries or ledger_verified.count_digests(ledger, kind) != digests:
                    for keys in ledger_verified.with_digests(ledger, kind):
                        ledger.discredit([(kind, key) for key in keys if not self._exists(kind, key)])

    def _write_many(self) -> None:
        if len(self._news) + len(self._unchanged) >= RECORDS_AT_ONCE:
            self._write()

    def _write(self) -> None:
        news, unchanged = self._news, self._unchanged
        self._news, self._unchanged = [], []
        if not self.lost:
            with self._reporting():
                if unchanged:
                    ledger_verified.record(self._store.ledger, unchanged, self.verified_ns)
                if news:
                    self._store.ledger.record(news, anew=False)

    def _exists(self, kind: Kind, key: str) -> bool:
        try:
            return os.path.lexists(self._store.root.place(kind, key))
        except InvalidValue:  # the ledger may hold anything, such as a malformed key
            return False

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Report that the ledger fails in the block, and go on after it: damage is a finding, all else a notice."""
        try:
            yield
        except LedgerUnavailable as error:
            if not error.lost:
                self._store.queue.notice(str(error))
            elif not self.lost:
                self.lost = True
                path = self._store.root.ledger
                self._findings.append(Finding(damage=Damage.LEDGER, path=path, evidence=str(error)))
