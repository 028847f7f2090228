"""Check a root: its entries, in parallel, the least recently verified first; then the files beside them.

This module changes no file of the cache. It records digests and times of verification in the ledger. A damaged file
that is still young is checked again after a pause, since its writer may be running.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

from jcache import clock
from jcache.entry import is_young
from jcache.errors import LedgerUnavailable
from jcache.findings import Damage, Finding
from jcache.layout import Kind
from jcache.store.entries import EntrySequence, batches, in_order, joined
from jcache.store.ledger import Known, holds_from
from jcache.store.lineage import read_lineage
from jcache.store.listing import Listing
from jcache.store.roots import is_bounded
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION, CheckResult, Claim, check
from jcache.verify.last_verification import record_verification
from jcache.verify.ledger_records import RECORDS_AT_ONCE, LedgerRecords
from jcache.verify.neighbours import check_neighbours, describe_unlisted, is_clock_behind
from jcache.verify.permissions import Exposure, check_directories, check_entries
from jcache.verify.pool import Batch, check_batches
from jcache.verify.result import Verification, VerifyRequest

_PAUSE_S: Final = 0.5
_BATCH_BYTES: Final = 8 << 20
_BATCH_ENTRIES: Final = 128
_KINDS: Final = tuple(Kind)
_NOTHING: Final = (None, None, None)
_TRANSIENT: Final = frozenset({Damage.MISSING_SIDECAR, Damage.ORPHANED_SIDECAR, Damage.SIDECAR_SIZE})
_CLOCK_IS_BEHIND: Final = "This machine's clock is behind the recorded times of use: set it, and verify again."

Progress = Callable[[int, int], None]


def verify(store: Store, request: VerifyRequest, progress: Progress = lambda _done, _all: None) -> Verification:
    """Check a root.

    Args:
        store: store of the root.
        request: what to check, and how.
        progress: called with the bytes that are checked so far, and with those of all entries.

    Raises:
        CannotWrite: a directory of the root cannot be read.
        JcacheError: a process that checked entries was killed.
    """
    started = clock.monotonic()
    verifier = _Verifier(store, request)
    deadline = None if request.max_seconds is None else started + request.max_seconds
    verifier.check_entries(progress, deadline)
    verifier.check_neighbours()
    result = verifier.result
    result.findings.sort(key=lambda finding: (finding.path, finding.damage))
    result.seconds = clock.monotonic() - started
    result.quick = request.quick
    result.complete = set(request.kinds) == set(Kind) and result.checked == result.entries and not request.quick
    record_verification(store, result, result.findings)
    return result


class _Verifier:
    def __init__(self, store: Store, request: VerifyRequest) -> None:
        self.result = Verification()
        self._store = store
        self._request = request
        self._exposures: dict[Kind, Counter[Exposure]] = {kind: Counter() for kind in request.kinds}
        self._records = LedgerRecords(store, request.kinds, self.result.findings)
        self._listings = {kind: self._list(kind) for kind in request.kinds}

    # -- entries

    def check_entries(self, progress: Progress, deadline: float | None) -> None:
        """Check the requested entries; record the results even if the check is interrupted."""
        entries = joined(self._listings.values())
        rows = self._candidates(entries)
        sizes = entries.numbers("bytes")
        total = sum(map(sizes.__getitem__, rows))
        done = 0
        unsure: list[CheckResult] = []
        try:
            for batch, some in check_batches(
                self._batches(self._claims(entries, rows), deadline),
                quick=self._request.quick,
                processes=self._request.processes,
                bytes_=total,
                entries=len(rows),
            ):
                for checked in some:
                    if self._is_unsure(checked):
                        unsure.append(checked)
                    else:
                        self._add_result(checked)
                done += batch.bytes
                progress(done, total)
            self._check_again(unsure)
        finally:
            self._records.finish(len(entries))

    def _candidates(self, entries: EntrySequence) -> Sequence[int]:
        """Return the rows of the entries to check: those verified longest ago first, equal ones as in the ledger."""
        request, verified = self._request, array("q")
        for kind, listing in self._listings.items():
            if request.subset is None and request.max_seconds is None and self._records.are_alike(kind, len(listing)):
                verified.frombytes(bytes(verified.itemsize * len(listing)))
                continue
            for keys in batches(listing.columns.keys, RECORDS_AT_ONCE):
                known = self._records.facts(kind, ("verified_ns",), keys)
                verified.extend(known.get(key, _NOTHING)[0] or 0 for key in keys)
        sizes = entries.numbers("bytes")
        self.result.entries, self.result.bytes = len(entries), sum(sizes)
        rows = in_order(
            range(len(entries)), entries.key_at, verified, entries.numbers("kind"), entries.numbers("place")
        )
        return rows if request.subset is None else rows[: request.subset.count([sizes[row] for row in rows])]

    def _claims(self, entries: EntrySequence, rows: Sequence[int]) -> Iterator[tuple[Claim, int]]:
        """Yield entries to check, with what the ledger knows of them, and their bytes."""
        adapter, sizes, kinds = self._store.root.adapter, entries.numbers("bytes"), entries.numbers("kind")
        for some in batches(rows, RECORDS_AT_ONCE):
            for code, of_kind in groupby(some, kinds.__getitem__):
                kind, keys = _KINDS[code], {entries.key_at(row): row for row in of_kind}
                known = self._records.of_bytes(kind, list(keys))
                for key, row in keys.items():
                    digest, taken_ns, checks = known.get(key, _NOTHING)
                    passed = checks == CHECKS_VERSION
                    yield Claim(kind, key, digest, taken_ns or 0, self._records.copied_ns, passed, adapter), sizes[row]

    def _batches(self, candidates: Iterator[tuple[Claim, int]], deadline: float | None) -> Iterator[Batch]:
        """Yield the candidates in batches of up to 8 MiB, until the deadline."""
        claims: list[Claim] = []
        size = 0
        for claim, more in candidates:
            if deadline is not None and clock.monotonic() >= deadline:
                break
            other = claims and claims[0].kind is not claim.kind
            if other or size + more > _BATCH_BYTES or len(claims) >= _BATCH_ENTRIES:
                yield self._batch(claims, size)
                claims, size = [], 0
            claims.append(claim)
            size += more
        yield self._batch(claims, size)

    def _batch(self, claims: list[Claim], size: int) -> Batch:
        kind = claims[0].kind if claims else Kind.EXECUTABLES
        return Batch(self._store.root.directory(kind), claims, size)

    def _is_unsure(self, checked: CheckResult) -> bool:
        if checked.being_written:
            return True
        if checked.finding is None or checked.finding.stamp is None:
            return False
        return is_young(checked.finding.stamp.written_ns, clock.now_ns(), self._request.grace_ns)

    def _check_again(self, unsure: list[CheckResult]) -> None:
        if unsure:
            clock.sleep(_PAUSE_S)
        for before in unsure:
            claim = before.claim
            checked = check(self._store.root.directory(claim.kind), claim, quick=self._request.quick)
            if checked.being_written or (checked.finding and checked.stamp != before.stamp):
                self.result.being_written += 1
            else:
                self._add_result(checked)

    def _add_result(self, checked: CheckResult) -> None:
        if checked.gone:
            self._records.gone(checked.claim)
            return
        claim, stamp, result = checked.claim, checked.stamp, self.result
        size = stamp.bytes if stamp else 0
        result.checked += 1
        result.checked_bytes += size
        result.rewritten += checked.rewritten
        if checked.exposure is not None:
            self._exposures[claim.kind][checked.exposure] += 1
        if checked.finding is not None:
            result.findings.append(checked.finding)
            about = Known(claim.kind, claim.key, verified_ns=self._records.verified_ns, checks=0)  # no version passed
            self._records.add(about)
            return
        result.unchanged += claim.passed and not checked.rewritten
        result.sound.append(claim)
        if checked.opaque is not None:
            result.opaque[checked.opaque] += 1
        version = CHECKS_VERSION if checked.passed else None
        taken_ns = None if checked.taken_ns is None else holds_from(checked.taken_ns, self._records.copied_ns)
        if claim.digest == checked.digest and claim.digest_ns == taken_ns and (claim.passed or version is None):
            self._records.unchanged(claim.kind, claim.key)
            return
        about = Known(claim.kind, claim.key, checked.digest, size, digest_ns=taken_ns, checks=version)
        self._records.add(about._replace(verified_ns=self._records.verified_ns))

    # -- files beside the entries

    def check_neighbours(self) -> None:
        """Check sidecars, temporary files, names that make JAX's put fail, permissions, links and pins."""
        around = [finding for kind in self._listings for finding in self._check_directory(kind)]
        if any(finding.damage in _TRANSIENT for finding in around):
            clock.sleep(_PAUSE_S)
            for kind in self._listings:
                self._listings[kind] = self._list(kind)
            still = {(f.damage, f.path) for kind in self._listings for f in self._check_directory(kind)}
            around = [finding for finding in around if (finding.damage, finding.path) in still]
        root = self._store.root
        with suppress(OSError):
            unlisted = None if root.plain else describe_unlisted(root, os.listdir(root.path))
            if unlisted is not None:
                self._store.queue.notice(f"{unlisted}.")
        around += check_directories(root)
        for kind, exposures in self._exposures.items():
            around += check_entries(root.directory(kind), kind, exposures, pattern=root.layout.entry_pattern)
        around += self._dangling()
        around += self._pins()
        for finding in around:
            (self.result.notes if finding.is_note else self.result.findings).append(finding)

    def _dangling(self) -> Iterator[Finding]:
        """Yield notes on traces with broken links, except those that may be unfinished."""
        listing = self._listings.get(Kind.TRACES)
        if listing is None or not len(listing):
            return
        entries = {entry.key: entry for entry in listing}
        now_ns = clock.now_ns()
        lineage = read_lineage(self._store, remember=not self._records.lost)
        for (kind, key), evidence in lineage.dangling():
            entry = entries.get(key)
            if entry is not None and not is_young(entry.created_ns, now_ns, self._request.grace_ns):
                path = self._store.path(entry)
                yield Finding(damage=Damage.DANGLING, path=path, evidence=evidence, kind=kind, key=key, is_note=True)

    def _pins(self) -> Iterator[Finding]:
        try:
            self._store.pins.known(sure=True)
        except LedgerUnavailable as error:
            yield Finding(damage=Damage.PINS, path=self._store.root.pins, evidence=str(error))

    def _check_directory(self, kind: Kind) -> Iterator[Finding]:
        unbounded = not is_bounded(self._store.root, kind)
        now_ns, listing = clock.now_ns(), self._listings[kind]
        behind = is_clock_behind(listing.columns.recency, now_ns)
        if behind:
            self._store.queue.notice(_CLOCK_IS_BEHIND)
        return check_neighbours(listing, now_ns, self._request.grace_ns, unbounded=unbounded, behind=behind)

    # -- the ledger, which may fail

    def _list(self, kind: Kind) -> Listing:
        """Return the listing of a directory; save no snapshot if the ledger is damaged, since that would replace it."""
        return self._store.listing(kind, remember=not self._records.lost)
