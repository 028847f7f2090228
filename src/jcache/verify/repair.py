"""Acts on findings: damaged entries to quarantine, sidecars made, what killed writers left removed.

Each step is done under the directory's lock, in short batches, and only if the file is still the one that was looked
at. What was written less than the grace period ago is left alone: it may still be in the making.
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
from jcache.store.maintenance import Progress
from jcache.store.quarantine import Quarantine
from jcache.store.quarantine_record import Record
from jcache.store.sidecar import read_recency, write_recency
from jcache.store.store import Store
from jcache.units import format_age
from jcache.verify import last_verification
from jcache.verify.checks import Claim, fault_in
from jcache.verify.neighbours import FUTURE_NS


class Outcome(StrEnum):
    """The outcome of a finding's repair."""

    QUARANTINED = "quarantined"
    SIDECAR_MADE = "sidecar made"
    REMOVED = "removed"
    BEGUN_ANEW = "begun anew"
    LEFT = "left"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Repaired:
    """A finding, and what became of it.

    Attributes:
        finding: which.
        outcome: what was done.
        reason: why it was left, or could not be mended.
        record: of an entry that went to quarantine.
    """

    finding: Finding
    outcome: Outcome
    reason: str | None = None
    record: Record | None = None

    @property
    def mended(self) -> bool:
        return self.outcome not in (Outcome.LEFT, Outcome.FAILED)


class LeftAlone(Exception):
    """A finding that must not be acted on now, and why."""


def repair(
    store: Store, findings: Sequence[Finding], *, grace_ns: int, progress: Progress[Finding] = iter
) -> list[Repaired]:
    """Mend what can be mended.

    Args:
        store: of the root.
        findings: of `jcache.verify.verification.verify`.
        grace_ns: what was written less than this ago is left alone.
        progress: is given the findings, and passes them on.

    Raises:
        CannotWrite: the root cannot be changed at all.
        Locked: a lock could not be had in time.
        LedgerUnavailable: a damaged ledger cannot be replaced.
    """
    repairer = _Repairer(store, Quarantine(store.root), Directories(store.root), grace_ns)
    for finding in findings:
        if finding.remedy is Remedy.BEGIN_ANEW:
            store.ledger.begin_anew()
            repairer.done.append(Repaired(finding, Outcome.BEGUN_ANEW))
        elif finding.remedy is Remedy.BY_HAND:
            repairer.done.append(Repaired(finding, Outcome.LEFT, finding.advice))
    for kind in Kind:
        ours = [f for f in findings if f.kind is kind and f.remedy not in (Remedy.BEGIN_ANEW, Remedy.BY_HAND)]
        if ours:
            with files.refusal(f"repair {store.root.directory(kind)}"):
                store.locks.in_batches(kind, repairer.steps(progress(ours)))
            try:  # there is a lock file now, as in a bounded directory, where each entry needs its sidecar
                store.maintenance.adopt(kind)
            except CannotWrite as error:
                store.queue.notice(str(error))
    repairer.quarantine.sweep(clock.now_ns() - grace_ns)
    build_lock.sweep(store.root, clock.now_ns() - grace_ns)
    quarantined = [(r.record.kind, r.record.key) for r in repairer.done if r.record is not None]
    store.queue.attempt(lambda: store.ledger.discredit(quarantined))
    return repairer.done


def damage_of(store: Store, quarantine: Quarantine, record: Record) -> str | None:
    """Return the damage of an entry in quarantine, as a sentence; None for a sound one that was replaced.

    Raises:
        OSError: it cannot be read.
    """
    if record.damage is not Damage.REPLACED:
        return record.evidence
    data = quarantine.read(record)
    if record.expected is not None and digest(data) != record.expected:
        return f"Its digest {shown(digest(data))} is not {shown(record.expected)} as on record."
    fault = fault_in(Claim(record.kind, record.key, adapter=store.root.adapter), data)
    return None if fault is None else fault.evidence


def put_back(store: Store, quarantine: Quarantine, record: Record, *, damage: str | None, replace: bool) -> None:
    """Restore an entry from quarantine.

    Args:
        store: of the root.
        quarantine: of the root.
        record: which entry.
        damage: what is wrong with it, as `damage_of` tells: `jcache info` knows of it then.
        replace: whether an entry that has its key now comes there in its stead.

    Raises:
        JcacheError: there is an entry of that key again, and not to be replaced.
        OSError: it cannot be moved.
    """
    store.maintenance.restore(quarantine, record, replace=replace)
    if damage is not None and record.damage is not Damage.STALE:
        path = store.root.directory(record.kind) / record.file_name
        last_verification.add(store.root, Finding(damage=record.damage, path=path, evidence=damage))


@dataclass(slots=True)
class _Repairer:
    store: Store
    quarantine: Quarantine
    directories: Directories
    grace_ns: int
    done: list[Repaired] = field(default_factory=list)

    def steps(self, findings: Iterable[Finding]) -> Iterator[None]:
        """Act on findings of one kind, a step each, with the lock held."""
        with self.directories:
            for finding in findings:
                try:
                    self.done.append(self._act(finding))
                except LeftAlone as reason:
                    self.done.append(Repaired(finding, Outcome.LEFT, str(reason)))
                except FileNotFoundError:
                    self.done.append(Repaired(finding, Outcome.REMOVED, "gone by itself"))
                except OSError as error:
                    self.done.append(Repaired(finding, Outcome.FAILED, error.strerror or str(error)))
                yield

    def _act(self, finding: Finding) -> Repaired:
        if finding.remedy is Remedy.MAKE_SIDECAR:
            self._make_sidecar(finding)
            return Repaired(finding, Outcome.SIDECAR_MADE)
        self._check(finding)
        if finding.remedy is Remedy.QUARANTINE:
            return Repaired(finding, Outcome.QUARANTINED, record=self.quarantine.take(finding, clock.now_ns()))
        name, directory = self.directories.of(finding.path)
        if finding.damage is Damage.ORPHANED_SIDECAR and is_there(f"{finding.key}{ENTRY_SUFFIX}", directory):
            raise LeftAlone("whose entry has come meanwhile")
        file_tree.remove_tree(name, directory=directory)
        return Repaired(finding, Outcome.REMOVED)

    def _check(self, finding: Finding) -> None:
        """Raise LeftAlone unless the file is the one that was looked at, and old enough."""
        name, directory = self.directories.of(finding.path)
        status = os.lstat(name, dir_fd=directory)
        if finding.stamp is not None and Stamp.of(status) != finding.stamp:
            raise LeftAlone("changed since it was looked at")
        if is_young(status.st_mtime_ns, clock.now_ns(), self.grace_ns):
            raise LeftAlone(f"written less than {format_age(self.grace_ns)} ago, perhaps not finished: try again then")

    def _make_sidecar(self, finding: Finding) -> None:
        now = clock.now_ns()
        name, directory = self.directories.of(finding.path)
        status = os.lstat(f"{finding.key}{ENTRY_SUFFIX}", dir_fd=directory)
        written = max(status.st_mtime_ns, access_times(directory, self.store.root).used_ns(status))
        recency = read_recency(name, directory=directory)
        if recency is not None and recency <= now + FUTURE_NS:
            return  # JAX has made it meanwhile
        write_recency(name, written if written <= now else now, directory=directory)
