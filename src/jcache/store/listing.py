"""What lies in one directory of entries, in columns, so that 100,000 entries cost little time and memory.

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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from jcache import clock
from jcache.entry import NO_SIDECAR, SETTLED_NS, Columns, Entry, Neighbour, Snapshot
from jcache.layout import (
    ENTRY_SUFFIX,
    JAX,
    SIDECAR_SUFFIX,
    Kind,
    Layout,
    Member,
    Root,
    are_files_of_keys,
    is_key,
    member,
)
from jcache.store.access_times import NEVER, NOT_KEPT, AccessTimes, access_times
from jcache.store.directories import open_below
from jcache.store.files import LATEST_NS, read, read_recency, tree_size

SNAPSHOT_FROM: Final = 10_000


class Snapshots(Protocol):
    """Where snapshots are kept: the ledger."""

    def load_snapshot(self, directory: str) -> Snapshot | None: ...
    def save_snapshot(self, directory: str, snapshot: Snapshot) -> None: ...


@dataclass(slots=True)
class Listing:
    """The entries of one kind and what lies beside them; other programs' neighbours are listed with graphs.

    Attributes:
        times: what access times tell here.
        accessed_ns: as of when they are known, nanoseconds since 1970; None for now.
        legacy_used: what access times tell of the legacy entries.
    """

    kind: Kind
    directory: Path
    layout: Layout = JAX
    columns: Columns = field(default_factory=Columns.empty)
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

    def member(self, name: str) -> tuple[Member, str]:
        """What a file name in the directory stands for, and the key it belongs to."""
        return self.layout.member(name)

    def entry(self, index: int) -> Entry:
        c = self.columns
        made, used, accessed = c.created[index], c.recency[index], c.accessed[index]
        entry = Entry(self.kind, c.keys[index], c.sizes[index], made, used, c.sidecars[index] != NO_SIDECAR)
        return self._with_use(entry, accessed)

    def looked_at(self, entry: Entry) -> Entry:
        """An entry with its access time as it is now."""
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

    def used(self) -> Iterator[int]:
        """The last use of each entry, as far as it is known."""
        recency, accessed = self.columns.recency, self.columns.accessed
        return map(max, recency, accessed) if max(accessed, default=0) > 0 else iter(recency)

    @property
    def unknown(self) -> int:
        """How many entries there are whose last use nobody knows."""
        c = self.columns
        if min(c.accessed, default=NEVER) >= NEVER:
            return 0
        return sum(a < NEVER and r == m for a, r, m in zip(c.accessed, c.recency, c.created, strict=True))

    @property
    def why_unknown(self) -> str:
        """Why the last use of entries is unknown, as the end of a sentence."""
        return self.times.why_unknown({*self.legacy_used, *self.columns.accessed})

    def entries(self) -> Iterator[Entry]:
        return map(self.entry, range(len(self)))


def read_listing(
    kind: Kind,
    directory: Path,
    snapshots: Snapshots | None = None,
    *,
    root: Root | None = None,
    uses: bool = False,
) -> Listing:
    """Reads a directory of entries; one that does not exist is empty.

    Args:
        kind: what its entries hold.
        directory: where.
        snapshots: the ledger, for directories with many entries.
        root: in which no link is followed: a directory behind one is empty.
        uses: whether access times are to be those of now where a snapshot remembers them.

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
        _fill(listing, _Reader(descriptor, listing.times), snapshots, uses=uses and listing.times.within_ns is not None)
    finally:
        os.close(descriptor)
    return listing


def _fill(listing: Listing, reader: "_Reader", snapshots: Snapshots | None, *, uses: bool) -> None:
    read_ns = clock.now_ns()
    listing.changed_ns = _kept_ns(os.fstat(reader.descriptor).st_mtime_ns)
    old = snapshots.load_snapshot(str(listing.directory)) if snapshots else None
    if old and not uses and old.names_final and old.changed_ns == listing.changed_ns:
        listing.columns, others, remember = reader.refresh(old), old.others, old.unsettled
        if listing.times.within_ns is not None:
            listing.accessed_ns = old.read_ns
    else:
        present, others = _classify(os.listdir(reader.descriptor))
        listing.columns = reader.read(present, old)
        quiet = listing.changed_ns < read_ns - SETTLED_NS
        same = old is not None and old.names_final and old.changed_ns == listing.changed_ns
        known = same and old is not None and old.columns == listing.columns
        remember = len(present) >= SNAPSHOT_FROM and (old is None or (quiet and not known))
    others += reader.rejected
    if snapshots and remember:
        snapshots.save_snapshot(str(listing.directory), Snapshot(listing.changed_ns, read_ns, listing.columns, others))
    _describe_others(listing, reader, others)


def _kept_ns(time_ns: int) -> int:
    """A time of the file system's, or the nearest that columns of 64 bits and sidecars hold."""
    return min(max(time_ns, 0), LATEST_NS)


def _classify(names: Iterable[str]) -> tuple[dict[str, bool], list[str]]:
    """Keys of the entries, each with whether it has a sidecar, and the other names."""
    entries: list[str] = []
    sidecars: list[str] = []
    others: list[str] = []
    for name in names:
        ending = name[-6:]
        (entries if ending == ENTRY_SUFFIX else sidecars if ending == SIDECAR_SUFFIX else others).append(name)
    present = dict.fromkeys(_keys(entries, others), False)
    for key in _keys(sidecars, others):
        if key in present:
            present[key] = True
        else:
            others.append(key + SIDECAR_SUFFIX)
    return present, others


def _keys(names: list[str], others: list[str]) -> list[str]:
    """The keys of names with a suffix; a name that is no key's is one of the others."""
    if are_files_of_keys(names):  # mostly so, and over 100,000 names three times as fast
        return [name[:-6] for name in names]
    keys: list[str] = []
    for name in names:
        if is_key(name[:-6]):
            keys.append(name[:-6])
        else:
            others.append(name)
    return keys


class _Reader:
    """Stats entries relative to an open directory.

    Attributes:
        descriptor: the directory.
        times: what access times tell in it.
        rejected: names of entries that are no regular files.
    """

    def __init__(self, descriptor: int, times: AccessTimes) -> None:
        self.descriptor = descriptor
        self.times = times
        self.rejected: list[str] = []

    def read(self, present: dict[str, bool], old: Snapshot | None) -> Columns:
        """The columns of the keys present, each with whether it has a sidecar; what old sidecars say is known."""
        columns = Columns.empty()
        self._append(columns, present.items(), _sidecars(old) if old else {})
        return columns

    def refresh(self, old: Snapshot) -> Columns:
        """The old columns brought up to date, where the names are the old ones."""
        limit = old.settled_before_ns
        keys, _, made, _, sidecars, _ = old.columns
        keep = [created < limit for created in made]
        again = [(key, s != NO_SIDECAR) for key, s, k in zip(keys, sidecars, keep, strict=True) if not k]
        columns = old.columns if not again else old.columns.where(keep)
        self._refresh_recency(columns, limit)
        self._append(columns, again, {})
        return columns

    def _refresh_recency(self, columns: Columns, limit: int) -> None:
        if columns.sidecars.count(NO_SIDECAR) == len(columns.keys):
            return
        for i, changed in enumerate(columns.sidecars):
            if changed != NO_SIDECAR:
                known = (columns.recency[i], changed) if changed < limit else None
                columns.recency[i], columns.sidecars[i] = self._recency(columns.keys[i], columns.created[i], known)

    def _append(self, columns: Columns, present: Iterable[tuple[str, bool]], known: dict[str, tuple[int, int]]) -> None:
        lstat, descriptor, used_ns = os.lstat, self.descriptor, self.times.used_ns
        keys, sizes, made, used, sidecars, accessed = columns
        for key, has_sidecar in present:
            try:
                status = lstat(key + ENTRY_SUFFIX, dir_fd=descriptor)
            except OSError:
                continue  # vanished between the listing and here
            if not stat.S_ISREG(status.st_mode):
                self.rejected.append(key + ENTRY_SUFFIX)
                continue
            created = status.st_mtime_ns
            if not 0 <= created <= LATEST_NS:
                created = _kept_ns(created)
            recency, sidecar = self._recency(key, created, known.get(key)) if has_sidecar else (created, NO_SIDECAR)
            keys.append(key)
            sizes.append(status.st_size)
            made.append(created)
            used.append(recency)
            sidecars.append(sidecar)
            accessed.append(used_ns(status))

    def _recency(self, key: str, created: int, known: tuple[int, int] | None = None) -> tuple[int, int]:
        """Recency and the sidecar's modification time; the file is read only if that time is not the known one."""
        name = key + SIDECAR_SUFFIX
        try:
            status = os.lstat(name, dir_fd=self.descriptor)
        except OSError:
            return created, NO_SIDECAR
        changed = _kept_ns(status.st_mtime_ns)
        if known and known[1] == changed:
            return known
        recency = read_recency(name, directory=self.descriptor) if stat.S_ISREG(status.st_mode) else None
        return (recency if recency is not None else created), changed

    def status(self, name: str) -> os.stat_result | None:
        try:
            return os.lstat(name, dir_fd=self.descriptor)
        except OSError:
            return None


def _sidecars(old: Snapshot) -> dict[str, tuple[int, int]]:
    """Recency and modification time of the sidecars that a snapshot knows for certain, by key."""
    limit = old.settled_before_ns
    keys, _, created, recency, sidecars, _ = old.columns
    rows = zip(keys, created, recency, sidecars, strict=True)
    return {key: (used, changed) for key, made, used, changed in rows if 0 <= changed < limit and used != made}


def is_legacy(path: Path) -> bool:
    """Whether a file named ``<64 hex>`` or ``<name>-<64 hex>`` holds an executable; other tools name files so, too."""
    from jcache.formats.envelope import HEAD_BYTES, may_be_executable

    try:
        return may_be_executable(read(path, HEAD_BYTES))
    except OSError:
        return False


def _describe_others(listing: Listing, reader: _Reader, others: list[str]) -> None:
    for name in others:
        what, key = member(name)
        status = reader.status(name)
        if status is None or what is Member.OURS:
            continue
        if what is Member.LEGACY and is_legacy(listing.directory / name):
            made = _kept_ns(status.st_mtime_ns)
            entry = Entry(listing.kind, key, status.st_size, made, made, sidecar=False, legacy=True)
            listing.legacy_used.append(used := listing.times.used_ns(status))
            listing.legacy.append(listing._with_use(entry, used))
        elif what in (Member.AUTOTUNE, Member.KERNELS) and not stat.S_ISLNK(status.st_mode):
            listing.neighbours.append(Neighbour(name, what, *tree_size(listing.directory / name)))
        else:
            known = what in (Member.SIDECAR, Member.TEMPORARY)
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            listing.neighbours.append(Neighbour(name, what if known else Member.UNKNOWN, 1, size))
