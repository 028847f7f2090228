"""Repair findings: move damaged entries to quarantine, make sidecars, and remove files that killed writers left.

Each repair holds the directory's lock, in short batches, and is done only if the file has not changed since the check.
A file that was written within the grace period is left alone, since it may be unfinished.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from jcache import clock
from jcache.entry import is_young
from jcache.errors import CannotWrite
from jcache.findings import Damage, Finding, Remedy, Stamp
from jcache.formats.digest import digest, shown
from jcache.layout import ENTRY_SUFFIX, Kind
from jcache.store import build_lock, file_tree, files
from jcache.store.access_times import access_times
from jcache.store.directories import Directories, is_there
from jcache.store.progress import Progress
from jcache.store.quarantine import Quarantine
from jcache.store.quarantine_record import QuarantineRecord
from jcache.store.sidecar import read_recency, write_recency
from jcache.store.store import Store
from jcache.units import format_age
from jcache.verify import last_verification
from jcache.verify.checks import Claim, fault_of_claim
from jcache.verify.neighbours import CLOCK_TOLERANCE_NS


class RepairOutcome(StrEnum):
    """The outcome of a finding's repair."""

    QUARANTINED = "quarantined"
    SIDECAR_MADE = "sidecar made"
    REMOVED = "removed"
    BEGUN_ANEW = "begun anew"
    LEFT = "left"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RepairResult:
    """Result of repairing a finding.

    Attributes:
        finding: the finding.
        outcome: what was done.
        reason: why the finding was left alone or could not be repaired.
        record: quarantine record of an entry that was moved to quarantine.
    """

    finding: Finding
    outcome: RepairOutcome
    reason: str | None = None
    record: QuarantineRecord | None = None

    @property
    def mended(self) -> bool:
        return self.outcome not in (RepairOutcome.LEFT, RepairOutcome.FAILED)


class _LeftAlone(Exception):
    """The finding must not be repaired now; the text says why."""


def repair(
    store: Store, findings: Sequence[Finding], *, grace_ns: int, progress: Progress[Finding] = iter
) -> list[RepairResult]:
    """Repair the findings that can be repaired.

    Args:
        store: store of the root.
        findings: findings of `jcache.verify.verification.verify`.
        grace_ns: files younger than this, in nanoseconds, are left alone.
        progress: receives the findings and yields them.

    Raises:
        CannotWrite: the root cannot be changed at all.
        Locked: another process held a lock for too long.
        LedgerUnavailable: a damaged ledger cannot be replaced.
    """
    repairer = _Repairer(store, Quarantine(store.root), Directories(store.root), grace_ns)
    for finding in findings:
        if finding.remedy is Remedy.BEGIN_ANEW:
            store.ledger.begin_anew()
            repairer.done.append(RepairResult(finding, RepairOutcome.BEGUN_ANEW))
        elif finding.remedy is Remedy.BY_HAND:
            repairer.done.append(RepairResult(finding, RepairOutcome.LEFT, finding.advice))
    for kind in Kind:
        ours = [f for f in findings if f.kind is kind and f.remedy not in (Remedy.BEGIN_ANEW, Remedy.BY_HAND)]
        if ours:
            with files.refusal(f"repair {store.root.directory(kind)}"):
                store.locks.in_batches(kind, repairer.steps(progress(ours)))
            try:  # the repair made a lock file; JAX then takes the directory as bounded, where entries need sidecars
                store.maintenance.adopt(kind)
            except CannotWrite as error:
                store.queue.notice(str(error))
    repairer.quarantine.sweep(clock.now_ns() - grace_ns)
    build_lock.sweep(store.root, clock.now_ns() - grace_ns)
    quarantined = [(r.record.kind, r.record.key) for r in repairer.done if r.record is not None]
    store.queue.attempt(lambda: store.ledger.discredit(quarantined))
    return repairer.done


def damage_of(store: Store, quarantine: Quarantine, record: QuarantineRecord) -> str | None:
    """Return the damage of an entry in quarantine, as a sentence; None for a sound entry that was replaced.

    Raises:
        OSError: the entry cannot be read.
    """
    if record.damage is not Damage.REPLACED:
        return record.evidence
    data = quarantine.read(record)
    if record.expected is not None and digest(data) != record.expected:
        return f"Its digest is {shown(digest(data))}, but {shown(record.expected)} is on record."
    fault = fault_of_claim(Claim(record.kind, record.key, adapter=store.root.adapter), data)
    return None if fault is None else fault.evidence


def restore(
    store: Store, quarantine: Quarantine, record: QuarantineRecord, *, damage: str | None, replace: bool
) -> None:
    """Restore an entry from quarantine.

    Args:
        store: store of the root.
        quarantine: quarantine of the root.
        record: record of the entry.
        damage: damage of the entry, from `damage_of`; `jcache info` will report it.
        replace: whether to move an existing entry of the same key to quarantine.

    Raises:
        JcacheError: an entry of the same key exists, and ``replace`` is false.
        OSError: the entry cannot be moved.
    """
    store.maintenance.restore(quarantine, record, replace=replace)
    if damage is not None and record.damage is not Damage.STALE:
        path = store.root.directory(record.kind) / record.file_name
        last_verification.add_finding(store.root, Finding(damage=record.damage, path=path, evidence=damage))


@dataclass(slots=True)
class _Repairer:
    store: Store
    quarantine: Quarantine
    directories: Directories
    grace_ns: int
    done: list[RepairResult] = field(default_factory=list)

    def steps(self, findings: Iterable[Finding]) -> Iterator[None]:
        """Repair findings of one kind, one in each step; the caller holds the lock."""
        with self.directories:
            for finding in findings:
                try:
                    self.done.append(self._repair(finding))
                except _LeftAlone as reason:
                    self.done.append(RepairResult(finding, RepairOutcome.LEFT, str(reason)))
                except FileNotFoundError:
                    self.done.append(RepairResult(finding, RepairOutcome.REMOVED, "already gone"))
                except OSError as error:
                    self.done.append(RepairResult(finding, RepairOutcome.FAILED, error.strerror or str(error)))
                yield

    def _repair(self, finding: Finding) -> RepairResult:
        if finding.remedy is Remedy.MAKE_SIDECAR:
            self._make_sidecar(finding)
            return RepairResult(finding, RepairOutcome.SIDECAR_MADE)
        self._check(finding)
        if finding.remedy is Remedy.QUARANTINE:
            return RepairResult(
                finding, RepairOutcome.QUARANTINED, record=self.quarantine.take(finding, clock.now_ns())
            )
        name, directory = self.directories.of(finding.path)
        if finding.damage is Damage.ORPHANED_SIDECAR and is_there(f"{finding.key}{ENTRY_SUFFIX}", directory):
            raise _LeftAlone("has an entry now")
        file_tree.remove_tree(name, directory=directory)
        return RepairResult(finding, RepairOutcome.REMOVED)

    def _check(self, finding: Finding) -> None:
        """Raise _LeftAlone unless the file is unchanged since the check, and old enough."""
        name, directory = self.directories.of(finding.path)
        status = os.lstat(name, dir_fd=directory)
        if finding.stamp is not None and Stamp.of(status) != finding.stamp:
            raise _LeftAlone("changed since it was checked")
        if is_young(status.st_mtime_ns, clock.now_ns(), self.grace_ns):
            raise _LeftAlone(f"written less than {format_age(self.grace_ns)} ago, maybe unfinished: try again later")

    def _make_sidecar(self, finding: Finding) -> None:
        now = clock.now_ns()
        name, directory = self.directories.of(finding.path)
        status = os.lstat(f"{finding.key}{ENTRY_SUFFIX}", dir_fd=directory)
        written = max(status.st_mtime_ns, access_times(directory, self.store.root).used_ns(status))
        recency = read_recency(name, directory=directory)
        if recency is not None and recency <= now + CLOCK_TOLERANCE_NS:
            return  # JAX has made it meanwhile
        write_recency(name, written if written <= now else now, directory=directory)
