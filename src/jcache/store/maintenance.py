"""What keeps a root in order: plans executed, sidecars made, XLA's sub-caches removed, and what is learnt on the way.

Entries are removed under the lock, in short batches, each file before its sidecar: a sidecar alone harms nobody.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from jcache import clock
from jcache.entry import GRACE_NS, Entry
from jcache.errors import CannotWrite, LedgerUnavailable
from jcache.layout import ENTRY_SUFFIX, LOCK_NAME, SIDECAR_SUFFIX, XLA_NAMES, Kind, Member, Root
from jcache.store import files
from jcache.store.access_times import note_moved
from jcache.store.directories import Directories, is_link, is_there, opened
from jcache.store.ledger import Known, Ledger
from jcache.store.listing import Listing, list_root
from jcache.store.locking import DEFAULT_TIMEOUT, in_batches, locked
from jcache.store.pins import Pins
from jcache.text import command

if TYPE_CHECKING:  # and imported where they are used: `jcache info` needs none of them, and is to start fast
    from jcache.store.policy import Plan, Verdict
    from jcache.store.quarantine import Quarantine
    from jcache.store.quarantine_record import Record
    from jcache.store.removal import Removal

T = TypeVar("T")
Progress = Callable[[Sequence[T]], Iterable[T]]

_FLUSH_EVERY: Final = 64
_MANY: Final = 4096


class Upkeep:
    """A root, its locks and its ledger.

    Args:
        root: which root.
        lock_timeout: seconds to wait for a directory's lock.
        waiting: is told, as a sentence, whom we wait for.

    Attributes:
        max_bytes: bound of each kind's entries, None for no bound.
        ledger: what is known of the root's entries.
        pins: what must stay.
        notices: what went wrong with the ledger and was gone on without, as sentences.
    """

    def __init__(
        self, root: Root, *, lock_timeout: float = DEFAULT_TIMEOUT, waiting: Callable[[str], None] | None = None
    ) -> None:
        self.root = root
        self.max_bytes: int | None = None
        self.ledger = Ledger(root.ledger, outside=root.state_path is not None)
        self.pins = Pins(root, self.ledger)
        self.notices: list[str] = []
        self._why_unknown: dict[Kind, str] = {}
        self._lock_timeout = lock_timeout
        self._waiting = waiting
        self._news: list[Known] = []
        self._evicted: set[tuple[Kind, str]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what has been learnt to the ledger, if it can be written, and close it."""
        self.flush()
        self.ledger.close()
        if (notice := note_moved(self.root)) is not None:
            self.notice(notice)

    def listing(self, kind: Kind, *, remember: bool = True, uses: bool = False) -> Listing:
        """Return the listing of a kind's directory.

        Args:
            kind: which.
            remember: whether the ledger may keep a large one's snapshot.
            uses: whether the last uses are to be those of now, also in a large one.

        Raises:
            CannotWrite: the directory cannot be read.
        """
        directory = self.root.directory(kind)
        if directory != self.root.path and is_link(self.root, directory):
            self.notice(f"{directory} is a symbolic link, which is not followed: name what it points to as --root.")
        for name in self.root.layout.directories:
            if (self.root.path / name).is_symlink():
                self.notice(f"{self.root.path / name} is a symbolic link, which is not followed.")
        with files.refusal(f"read {directory}"):
            listing = list_root(self.root, kind, self.ledger if remember else None, uses=uses)
        self._why_unknown[kind] = listing.why_unknown
        return listing

    def why_unknown(self, kinds: Iterable[Kind]) -> str:
        """Return why the last use of entries of listed kinds is unknown, as the end of a sentence."""
        return "; ".join(dict.fromkeys(self._why_unknown[kind] for kind in kinds))

    def path(self, entry: Entry) -> Path:
        return self.root.place(entry.kind, entry.key, legacy=entry.legacy)

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
        from jcache.store.removal import Removal, removing

        removal = Removal()
        pins = self.pins.copy() if plan.victims else set()
        for kind in (Kind.TRACES, Kind.EXECUTABLES, Kind.GRAPHS):  # what names others first
            victims = [verdict for verdict in plan.victims if verdict.entry.kind is kind]
            if victims:
                self._remove_in_batches(kind, removing(self.root, progress(victims), removal, pins, plan.because))
            if victims or any(verdict.entry.kind is kind for verdict in plan.kept):
                try:
                    removal.adopted += self.adopt(kind, sweep=True)
                except CannotWrite as error:  # what was to make room has made it
                    if not _is_full(error):
                        raise
                    mend = command("verify --repair", self.root.path)
                    self.notice(f"{error} `{mend}` makes them once there is room.")
        for entry in (*removal.removed, *removal.gone):
            self._unlearn(entry.kind, entry.key)
        self.flush()
        return removal

    def remove(self, entries: Iterable[Entry]) -> Removal:
        """Remove entries, whenever they were last used."""
        from jcache.store.policy import Plan, Reason, Verdict

        return self.execute(Plan(tuple(Verdict(entry, Reason.CLEARED) for entry in entries)))

    def adopt(self, kind: Kind, *, record: bool = True, sweep: bool = False) -> int:
        """Make the sidecars that are missing, of what is known of their last use; return how many.

        JAX <= 0.11.1 fails every bounded put as long as one entry lacks its sidecar, so a bound can only be turned on
        over an unbounded cache after this.

        Args:
            kind: in whose directory.
            record: whether to read those entries, and record their digests, so that a later change of them is found.
            sweep: whether to remove the sidecars that a killed process has left without their entries.
        """
        if not self.root.layout.has_sidecars:
            return 0
        listing = self.listing(kind, uses=True)
        missing = [entry for entry in listing.entries() if not entry.sidecar]
        orphans = [one.name for one in listing.neighbours if sweep and one.member is Member.SIDECAR]
        if orphans:
            from jcache.store.removal import sweeping

            with files.refusal(f"remove sidecars in {self.root.directory(kind)}"):
                self.in_batches(kind, sweeping(self.root, kind, orphans))
        made: list[Entry] = []

        def making() -> Iterator[None]:
            with opened(self.root, self.root.directory(kind)) as directory:
                for entry in missing:
                    name = entry.key + SIDECAR_SUFFIX
                    if is_there(entry.key + ENTRY_SUFFIX, directory) and not is_there(name, directory):
                        files.write_recency(name, entry.recency_ns, directory=directory)
                        made.append(entry)
                    yield

        if missing:
            with files.refusal(f"make sidecars in {self.root.directory(kind)}"):
                self.in_batches(kind, making())
        if record:
            self._record_digests(kind, made)
        return len(made)

    def _record_digests(self, kind: Kind, entries: Sequence[Entry]) -> None:
        """Record the digests of entries that have none yet, but not of one that may still be being written."""
        from jcache.formats.digest import digest

        known = self.softly(lambda: self.ledger.known(kind, [entry.key for entry in entries])) or {}
        settled_ns = clock.now_ns() - GRACE_NS
        with Directories(self.root) as directories:
            for entry in entries:
                about = known.get(entry.key)
                if entry.created_ns < settled_ns and (about is None or about.digest is None):
                    with suppress(OSError):
                        name, directory = directories.of(self.path(entry))
                        taken_ns = os.lstat(name, dir_fd=directory).st_ctime_ns
                        data = files.read(name, directory=directory)
                        self._learn(Known(kind, entry.key, digest(data), len(data), origin="adopt", digest_ns=taken_ns))

    def restore(self, quarantine: Quarantine, record: Record, *, replace: bool = False) -> None:
        """Put an entry back from quarantine; the ledger then says of its bytes what it said before they went there.

        So an entry that had been changed is found again, and no program gets it; what no digest was on record of is
        checked as if it had never been seen.

        Raises:
            JcacheError: there is an entry of that key again, and not to be replaced.
            OSError: it cannot be moved.
        """
        kind, key = record.kind, record.key
        known = (self.softly(lambda: self.ledger.known(kind, [key])) or {}).get(key)
        self.softly(lambda: self.ledger.discredit([(kind, key)]))  # before: we may be killed in between
        try:
            with self._locked(kind):
                taken_ns = quarantine.restore(record, replace=replace, on_record=known)
        except BaseException:
            if known is not None:  # the entry that is there stays, and its digest as well; hits would be added up
                self.softly(lambda: self.ledger.record([known._replace(hits=0, pinned_ns=None)]))
            raise
        self.adopt(kind, record=False)  # there is a lock file now, as where each entry needs a sidecar
        if record.expected is not None:
            size = record.bytes if record.expected == record.digest else None
            self._learn(Known(kind, key, record.expected, size, origin="restored", digest_ns=taken_ns))

    def remove_xla(self) -> int:
        """Remove XLA's autotune directory and kernel file beside the executables; return their bytes."""
        from jcache.store.removal import set_aside_xla

        executables = self.root.directory(Kind.EXECUTABLES)
        if not self.root.layout.follows_jax or not os.path.isdir(executables):
            return 0
        with files.refusal(f"remove XLA's sub-caches of {executables}"), opened(self.root, executables) as directory:
            if not any(is_there(name, directory) for name in XLA_NAMES):
                return 0
            with self._locked(Kind.EXECUTABLES):
                aside = list(set_aside_xla(directory))
            return sum(files.remove_tree(name, directory=directory) for name in aside)

    # -- locks and the ledger

    def softly(self, action: Callable[[], T]) -> T | None:
        """Return the result of an action on the ledger; if it fails, add a notice and return None."""
        try:
            return action()
        except LedgerUnavailable as error:
            self.notice(str(error))
            return None

    def notice(self, text: str) -> None:
        """Add a sentence to the notices, once."""
        if text not in self.notices:
            self.notices.append(text)

    def _locked(self, kind: Kind, *, at_most: float | None = None) -> AbstractContextManager[None]:
        self._mark(kind)
        timeout = self._lock_timeout if at_most is None else min(self._lock_timeout, at_most)
        return locked(self.root, kind, timeout=timeout, waiting=self._waiting)

    def _mark(self, kind: Kind) -> None:
        """Record that a lock file, before it is made, is only jcache's, or else that there is a bound."""
        if not self.root.layout.follows_jax:
            with files.refusal(f"make {self.root.state}"), opened(self.root, self.root.state, make=True):
                pass
        elif self.max_bytes is not None:
            self.bounded()
        elif kind is Kind.EXECUTABLES and not os.path.lexists(self.root.directory(kind) / LOCK_NAME):
            mark = self.root.unbounded_mark
            with suppress(OSError), opened(self.root, mark.parent, make=True) as state:
                files.touch(mark.name, directory=state)

    def bounded(self) -> None:
        """Record that entries are put under a bound from now on."""
        mark = self.root.unbounded_mark
        with suppress(OSError), opened(self.root, mark.parent) as state:
            os.unlink(mark.name, dir_fd=state)

    def in_batches(self, kind: Kind, steps: Iterator[None]) -> None:
        """Run steps under the lock of a kind's directory, letting it go for others every so often."""
        self._mark(kind)
        in_batches(self.root, kind, steps, timeout=self._lock_timeout, waiting=self._waiting)

    def _remove_in_batches(self, kind: Kind, steps: Iterator[None]) -> None:
        """Run removals as `in_batches` does, also on a full disk, where a missing lock file cannot be made.

        Nobody holds what is not there, so that an entry may go without, until the lock can be had.
        """
        while True:
            try:
                return self.in_batches(kind, steps)
            except CannotWrite as error:
                if not _is_full(error) or os.path.lexists(self.root.locks(kind) / LOCK_NAME):
                    raise
            if next(steps, steps) is steps:  # there was no more to remove
                return None

    def _learn(self, known: Known) -> None:
        self._news.append(known)
        if len(self._news) + len(self._evicted) >= _FLUSH_EVERY:
            self.flush()

    def learn_all(self, news: Iterable[Known]) -> None:
        """Queue records of many entries, and write them to the ledger in large batches."""
        self._news += news
        if len(self._news) >= _MANY:
            self.flush()

    def _unlearn(self, kind: Kind, key: str) -> None:
        """Forget what is known of an entry that is gone: it would be wrong for a new one of that key."""
        self._evicted.add((kind, key))
        self._news = [known for known in self._news if (known.kind, known.key) != (kind, key)]

    def flush(self) -> None:
        """Write what has been learnt to the ledger, if it can be written."""
        evicted, self._evicted = self._evicted, set()
        news, self._news = self._news, []
        if (evicted or news) and not os.path.isdir(self.root.pins):
            self.softly(self.pins.copy)
        if evicted:
            self.softly(lambda: self.ledger.forget(evicted))
        if news:
            self.softly(lambda: self.ledger.record(news))


def _is_full(error: CannotWrite) -> bool:
    """Return whether the disk or a quota is full."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.ENOSPC, errno.EDQUOT)
