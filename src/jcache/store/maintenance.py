"""Maintenance of a root: execute plans, make missing sidecars, restore from quarantine, remove XLA's sub-caches.

Entries are removed under the lock, in short batches, each file before its sidecar: a sidecar alone harms nobody.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jcache import clock
from jcache.entry import GRACE_NS, NO_SIDECAR, Entry
from jcache.errors import CannotWrite
from jcache.layout import ENTRY_SUFFIX, LOCK_NAME, SIDECAR_SUFFIX, XLA_NAMES, FileKind, Kind, Root
from jcache.store import file_tree, files
from jcache.store.catalog import Catalog
from jcache.store.directories import Directories, is_there, opened
from jcache.store.entries import Entries, Picked, batches, in_order
from jcache.store.ledger import Known
from jcache.store.ledger_queue import LedgerQueue
from jcache.store.locking import RootLocks
from jcache.store.policy import Plan, Reason, Verdict, Verdicts
from jcache.store.progress import Progress
from jcache.store.removal import Removal, removing, set_aside_xla, sweeping
from jcache.store.sidecar import begin_recency
from jcache.text import command

if TYPE_CHECKING:
    from jcache.store.quarantine import Quarantine
    from jcache.store.quarantine_record import QuarantineRecord

_AT_ONCE: Final = 20_000  # entries whose digests are recorded together


class Maintenance:
    """Maintenance of a root's entries.

    Args:
        root: the root.
        locks: its locks.
        queue: the queue of its ledger.
        catalog: its entries.
    """

    def __init__(self, root: Root, locks: RootLocks, queue: LedgerQueue, catalog: Catalog) -> None:
        self._root = root
        self._locks = locks
        self._queue = queue
        self._catalog = catalog

    def execute(self, plan: Plan, *, progress: Progress[Verdict] = iter) -> Removal:
        """Remove the victims of a plan, in short batches under the lock, but not those used or pinned meanwhile.

        The entries that stay are given sidecars where they have none, so that a bounded JAX can go on.

        Args:
            plan: what goes and what stays.
            progress: is given the victims of each kind, and passes them on.

        Raises:
            CannotWrite: the root cannot be changed at all.
            Locked: the lock could not be had in time.
            LedgerUnavailable: what is pinned cannot be known now; nothing has changed then.
        """
        removal = Removal(plan.victims)
        pins = self._queue.pins.copy() if plan.victims else set()
        places, kept = plan.victims.by_kind(), plan.kept.by_kind()
        for kind in (Kind.TRACES, Kind.EXECUTABLES, Kind.GRAPHS):  # what names others first
            if some := places[kind]:
                victims = zip(some, progress(plan.victims.at(some)), strict=True)
                self._remove_in_batches(kind, removing(self._root, victims, removal, pins, plan.because))
            if some or kept[kind]:
                try:
                    removal.adopted += self.adopt(kind, sweep=True)
                except CannotWrite as error:  # what was to make room has made it
                    if not _is_full(error):
                        raise
                    mend = command("verify --repair", self._root.path)
                    self._queue.notice(f"{error} `{mend}` makes them once there is room.")
        self._queue.forget_all(Entries((removal.removed, removal.gone)))
        return removal

    def remove(self, entries: Iterable[Entry]) -> Removal:
        """Remove entries, whenever they were last used."""
        return self.execute(Plan(Verdicts.of(Verdict(entry, Reason.CLEARED) for entry in entries)))

    def adopt(self, kind: Kind, *, record: bool = True, sweep: bool = False) -> int:
        """Make the sidecars that are missing, of what is known of their last use; return how many.

        JAX <= 0.11.1 fails every bounded put as long as one entry lacks its sidecar, so a bound can only be turned on
        over an unbounded cache after this.

        Args:
            kind: in whose directory.
            record: whether to read those entries, and record their digests, so that a later change of them is found.
            sweep: whether to remove the sidecars that a killed process has left without their entries.
        """
        if not self._root.layout.has_sidecars:
            return 0
        listing = self._catalog.listing(kind, remember=False, uses=True)
        missing = array("q", (row for row, time in enumerate(listing.columns.sidecars) if time == NO_SIDECAR))
        orphans = [one.name for one in listing.neighbours if sweep and one.member is FileKind.SIDECAR]
        if orphans:
            with files.refusal(f"remove sidecars in {self._root.directory(kind)}"):
                self._locks.in_batches(kind, sweeping(self._root, kind, orphans))
        made = array("q")

        def making() -> Iterator[None]:
            with opened(self._root, self._root.directory(kind)) as directory:
                for row, entry in zip(missing, Picked(listing, missing), strict=True):
                    name = entry.key + SIDECAR_SUFFIX
                    if is_there(entry.key + ENTRY_SUFFIX, directory) and begin_recency(
                        name, entry.recency_ns, directory
                    ):
                        made.append(row)
                    yield

        if missing:
            with files.refusal(f"make sidecars in {self._root.directory(kind)}"):
                self._locks.in_batches(kind, making())
        if record:
            rows = in_order(made, listing.key_at, listing.numbers("place"))  # as the ledger has them
            for entries in batches(Picked(listing, rows), _AT_ONCE):
                self._record_digests(kind, entries)
        return len(made)

    def _record_digests(self, kind: Kind, entries: Sequence[Entry]) -> None:
        """Record the digests of entries that have none yet, but not of one that may still be being written."""
        from jcache.formats.digest import digest

        ledger, keys = self._queue.ledger, [entry.key for entry in entries]
        known = self._queue.attempt(lambda: ledger.facts(kind, ("digest",), keys)) or {}
        settled_ns = clock.now_ns() - GRACE_NS
        news: list[Known] = []
        with Directories(self._root) as directories:
            for entry in entries:
                if entry.created_ns < settled_ns and known.get(entry.key, (None,))[0] is None:
                    with suppress(OSError):
                        name, directory = directories.of_entry(kind, entry.key)
                        taken_ns = os.lstat(name, dir_fd=directory).st_ctime_ns
                        data = files.read(name, directory=directory)
                        news.append(Known(kind, entry.key, digest(data), len(data), origin="adopt", digest_ns=taken_ns))
        self._queue.add_many(news)

    def restore(self, quarantine: Quarantine, record: QuarantineRecord, *, replace: bool = False) -> None:
        """Put an entry back from quarantine; the ledger then says of its bytes what it said before they went there.

        So an entry that had been changed is found again, and no program gets it; what no digest was on record of is
        checked as if it had never been seen.

        Raises:
            JcacheError: there is an entry of that key again, and not to be replaced.
            OSError: it cannot be moved.
        """
        kind, key = record.kind, record.key
        known = (self._queue.attempt(lambda: self._queue.ledger.known(kind, [key])) or {}).get(key)
        self._queue.attempt(lambda: self._queue.ledger.discredit([(kind, key)]))  # before: we may be killed in between
        try:
            with self._locks.hold(kind):
                taken_ns = quarantine.restore(record, replace=replace, on_record=known)
        except BaseException:
            if known is not None:  # the entry that is there stays, and its digest as well; hits would be added up
                self._queue.attempt(lambda: self._queue.ledger.record([known._replace(hits=0, pinned_ns=None)]))
            raise
        self.adopt(kind, record=False)  # there is a lock file now, as where each entry needs a sidecar
        if record.expected is not None:
            size = record.bytes if record.expected == record.digest else None
            self._queue.add(Known(kind, key, record.expected, size, origin="restored", digest_ns=taken_ns))

    def remove_xla(self) -> int:
        """Remove XLA's autotune directory and kernel file beside the executables; return their bytes."""
        executables = self._root.directory(Kind.EXECUTABLES)
        if not self._root.layout.follows_jax or not os.path.isdir(executables):
            return 0
        with files.refusal(f"remove XLA's sub-caches of {executables}"), opened(self._root, executables) as directory:
            if not any(is_there(name, directory) for name in XLA_NAMES):
                return 0
            with self._locks.hold(Kind.EXECUTABLES):
                aside = list(set_aside_xla(directory))
            return sum(file_tree.remove_tree(name, directory=directory) for name in aside)

    def _remove_in_batches(self, kind: Kind, steps: Iterator[None]) -> None:
        """Run removals as `in_batches` does, also on a full disk, where a missing lock file cannot be made.

        Nobody holds what is not there, so that an entry may go without, until the lock can be had.
        """
        while True:
            try:
                return self._locks.in_batches(kind, steps)
            except CannotWrite as error:
                if not _is_full(error) or os.path.lexists(self._root.locks(kind) / LOCK_NAME):
                    raise
            if next(steps, steps) is steps:  # there was no more to remove
                return None


def _is_full(error: CannotWrite) -> bool:
    """Return whether the disk or a quota is full."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
