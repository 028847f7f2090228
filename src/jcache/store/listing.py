"""List a directory of entries in columns, so that 100,000 entries cost little time and memory.

Reading a directory is a `listdir` and an `lstat` for each entry. From 10,000 entries on, the ledger remembers the
columns (a *snapshot*), and a later reading only looks at what can have changed since:

- everything but what old sidecars say, unless the directory's modification time is still the one of the snapshot: an
  entry may have been removed and written again under its name;
- else the entries that were written less than two seconds before the snapshot was taken: JAX writes in place, so their
  size may not have been final;
- and the sidecars, which JAX rewrites in place on each bounded hit.

So every number is current, but for the size of an older entry that somebody changed in place, which no writer of
entries does and `jcache verify` is there to find; and for access times, which are looked at again on request.
"""

import os
import stat
from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from math import isnan
from pathlib import Path
from typing import Final, Protocol

from jcache import clock
from jcache.entry import NO_SIDECAR, SETTLED_NS, Columns, Entry, Neighbour, Snapshot
from jcache.layout import JAX, FileKind, Kind, Layout, Root, member
from jcache.store.access_times import AHEAD, NEVER, NOT_KEPT, UNKNOWN, AccessTimes, access_times
from jcache.store.directories import open_below
from jcache.store.entries import KIND_CODES, EntrySequence
from jcache.store.entry_reader import EntryReader, settled_sidecars, storable_ns
from jcache.store.file_tree import tree_size
from jcache.store.files import read
from jcache.store.foreign_listing import fill_foreign

SNAPSHOT_FROM: Final = 10_000


class Snapshots(Protocol):
    """Storage of snapshots: the ledger."""

    def load_snapshot(self, directory: str) -> Snapshot | None: ...
    def save_snapshot(self, directory: str, snapshot: Snapshot) -> None: ...
    def drop_snapshot(self, directory: str) -> None: ...


@dataclass(slots=True, eq=False)
class Listing(EntrySequence):
    """The entries of one kind and what lies beside them; other programs' neighbours are listed with graphs.

    Attributes:
        seconds: build seconds of each entry, not a number where they are unknown; None if nobody has looked.
        pinned: keys of pinned entries; None if they are unknown.
        times: what access times tell here.
        accessed_ns: as of when they are known, nanoseconds since 1970; None for now.
        legacy_used: what access times tell of the legacy entries.
    """

    kind: Kind
    directory: Path
    layout: Layout = JAX
    columns: Columns = field(default_factory=Columns.empty)
    seconds: "array[float] | None" = None
    pinned: Collection[str] | None = ()
    legacy: list[Entry] = field(default_factory=list)
    neighbours: list[Neighbour] = field(default_factory=list)
    changed_ns: int = 0
    times: AccessTimes = NOT_KEPT
    accessed_ns: int | None = None
    legacy_used: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns.keys)

    @property
    def bytes(self) -> int:
        """Bytes of the entries' files, without sidecars, as JAX counts against ``max_size``."""
        return sum(self.columns.sizes)

    @property
    def sidecars(self) -> int:
        return len(self) - self.columns.sidecars.count(NO_SIDECAR)

    def member(self, name: str) -> tuple[FileKind, str]:
        """Return what a file name in the directory stands for, and the key of its entry."""
        return self.layout.member(name)

    def _item(self, at: int) -> Entry:
        c, seconds = self.columns, None if self.seconds is None else self.seconds[at]
        return self._made(
            c.keys[at], c.sizes[at], c.created[at], c.recency[at], c.sidecars[at], c.accessed[at], seconds
        )

    def key_at(self, at: int) -> str:
        """Return the key of the entry at a place from 0 on."""
        return self.columns.keys[at]

    def at(self, rows: Collection[int]) -> Iterator[Entry]:
        """Return the entries at some places from 0 on."""
        columns = (map(column.__getitem__, rows) for column in self.columns[:-1])
        return map(self._made, *columns, repeat(None) if self.seconds is None else map(self.seconds.__getitem__, rows))

    def numbers(self, name: str) -> "array[int]":
        """Return a number of each entry, as `EntrySequence.numbers` does."""
        columns, within_ns = self.columns, self.times.within_ns or 0
        match name:
            case "bytes":
                return columns.sizes
            case "created_ns":
                return columns.created
            case "recency_ns":
                return self.used()
            case "place":
                return columns.keys.places()
            case "kind":
                return array("q", [KIND_CODES[self.kind]]) * len(self)
            case _:  # latest_ns
                times = zip(columns.recency, columns.accessed, strict=True)
                return array("q", (read + within_ns if read > used else used for used, read in times))

    def rows_with(self, name: str) -> Iterable[int]:
        """Return the places of entries, as `EntrySequence.rows_with` does."""
        nobody = name == "legacy" or (name == "pinned" and not self.pinned) or (name == "unknown" and not self.unknown)
        return () if nobody else EntrySequence.rows_with(self, name)

    def __iter__(self) -> Iterator[Entry]:
        return map(self._made, *self.columns[:-1], repeat(None) if self.seconds is None else self.seconds)

    def _made(
        self, key: str, size: int, made: int, used: int, sidecar: int, accessed: int, seconds: float | None
    ) -> Entry:
        pinned = None if self.pinned is None else key in self.pinned
        known = None if seconds is None or isnan(seconds) else seconds
        entry = Entry(self.kind, key, size, made, used, sidecar != NO_SIDECAR, False, known, pinned)  # noqa: FBT003
        return entry if NEVER <= accessed <= used else self._with_use(entry, accessed)

    def looked_at(self, entry: Entry) -> Entry:
        """Return an entry with its present access time."""
        try:
            status = os.lstat(self.directory / entry.file_name)
        except OSError:
            return entry
        return self._with_use(entry, self.times.used_ns(status))

    def _with_use(self, entry: Entry, accessed: int) -> Entry:
        if accessed > entry.recency_ns:
            return entry._replace(recency_ns=accessed, within_ns=self.times.within_ns or 0, unknown=False)
        if accessed < NEVER and entry.recency_ns == entry.created_ns:  # which a sidecar of use never says
            return entry._replace(unknown=True)
        return entry

    def used(self) -> "array[int]":
        """Return the last use of each entry, as far as it is known."""
        recency, accessed = self.columns.recency, self.columns.accessed
        return array("q", map(max, recency, accessed)) if max(accessed, default=0) > 0 else recency

    @property
    def unknown(self) -> int:
        """Number of entries whose last use is unknown."""
        c = self.columns
        if min(c.accessed, default=NEVER) >= NEVER:
            return 0
        return sum(a < NEVER and r == m for a, r, m in zip(c.accessed, c.recency, c.created, strict=True))

    def changed_since(self, time_ns: int) -> int:
        """Return the number of entries whose files are new, or were changed in any way, since a time."""
        changed = self.columns.changed
        return sum(each >= time_ns for each in changed) if max(changed, default=0) >= time_ns else 0

    @property
    def why_unknown(self) -> str:
        """Reason why the last use of entries is unknown, as the end of a sentence."""
        if not len(self) and not self.legacy:
            return ""
        used = {time for time in (UNKNOWN, AHEAD) if time in self.columns.accessed}
        return self.times.why_unknown({*self.legacy_used, *used})


def read_listing(
    kind: Kind,
    directory: Path,
    snapshots: Snapshots | None = None,
    *,
    root: Root | None = None,
    uses: bool = False,
    only: Iterable[str] | None = None,
) -> Listing:
    """Read a directory of entries; one that does not exist is empty.

    Args:
        kind: what its entries hold.
        directory: where.
        snapshots: the ledger, for directories with many entries.
        root: in which no link is followed: a directory behind one is empty.
        uses: whether access times are to be those of now where a snapshot remembers them.
        only: keys of the entries to read, whatever else is there; None for all entries, and the files beside them.

    Raises:
        OSError: the directory cannot be read.
    """
    listing = Listing(kind, directory)
    try:
        if root is None:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            descriptor = open_below(root.path, *directory.relative_to(root.path).parts)
    except (FileNotFoundError, NotADirectoryError):
        return listing
    try:
        listing.times = access_times(descriptor, root)
        reader = EntryReader(descriptor, listing.times)
        if only is not None:
            listing.columns = reader.read(dict.fromkeys(only))
            return listing
        _fill(listing, reader, snapshots, uses=uses and listing.times.within_ns is not None)
    finally:
        os.close(descriptor)
    return listing


def _fill(listing: Listing, reader: "EntryReader", snapshots: Snapshots | None, *, uses: bool) -> None:
    read_ns, is_first = clock.now_ns(), False
    listing.changed_ns = storable_ns(os.fstat(reader.descriptor).st_mtime_ns)
    old = snapshots.load_snapshot(str(listing.directory)) if snapshots else None
    same = old is not None and old.names_final and old.changed_ns == listing.changed_ns
    if old and same and not uses:
        listing.columns, others, remember = reader.refresh(old), old.others, old.unsettled
        if listing.times.within_ns is not None:
            listing.accessed_ns = old.read_ns
    else:
        before = None if old is None else old.columns.fingerprint()
        known = {} if old is None else settled_sidecars(old)
        is_first, old = old is None, None  # its columns need not be in memory any more
        listing.columns, others = reader.scan(known)
        quiet = listing.changed_ns < read_ns - SETTLED_NS
        changed = quiet and not (same and before == listing.columns.fingerprint())
        remember = len(listing) >= SNAPSHOT_FROM and (is_first or changed)
    others += reader.rejected
    if snapshots and remember:
        snapshots.save_snapshot(str(listing.directory), Snapshot(listing.changed_ns, read_ns, listing.columns, others))
    elif snapshots and not is_first and len(listing) < SNAPSHOT_FROM:
        snapshots.drop_snapshot(str(listing.directory))
    _describe_others(listing, reader, others)


def is_legacy(path: Path) -> bool:
    """Return whether a file with a legacy name holds an executable; other tools use such names, too."""
    from jcache.formats.executable import HEAD_BYTES, may_be_executable

    try:
        return may_be_executable(read(path, HEAD_BYTES))
    except OSError:
        return False


def _describe_others(listing: Listing, reader: EntryReader, others: list[str]) -> None:
    for name in others:
        what, key = member(name)
        status = reader.status(name)
        if status is None or what is FileKind.OURS:
            continue
        if what is FileKind.LEGACY and is_legacy(listing.directory / name):
            made = storable_ns(status.st_mtime_ns)
            entry = Entry(listing.kind, key, status.st_size, made, made, sidecar=False, legacy=True)
            listing.legacy_used.append(used := listing.times.used_ns(status))
            listing.legacy.append(listing._with_use(entry, used))
        elif what in (FileKind.AUTOTUNE, FileKind.KERNELS) and not stat.S_ISLNK(status.st_mode):
            listing.neighbours.append(Neighbour(name, what, *tree_size(listing.directory / name)))
        else:
            known = what in (FileKind.SIDECAR, FileKind.TEMPORARY)
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            listing.neighbours.append(Neighbour(name, what if known else FileKind.UNKNOWN, 1, size))


def list_root(root: Root, kind: Kind, snapshots: Snapshots | None = None, *, uses: bool = False) -> Listing:
    """List the entries of one kind in a root, and the files beside them; links below the root are not followed.

    Args:
        root: which.
        kind: of these entries.
        snapshots: as in `read_listing`.
        uses: as there.

    Raises:
        OSError: a directory cannot be read.
    """
    if root.layout.follows_jax:
        return read_listing(kind, root.directory(kind), snapshots, root=root, uses=uses)
    listing = Listing(kind, root.path, root.adapter)
    fill_foreign(listing, root, root.adapter)
    return listing
