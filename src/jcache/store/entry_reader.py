"""Read the file system's data of entries into columns: the part of a listing that runs once for each entry."""

import os
import stat
from collections.abc import Container, Iterable, Mapping
from itertools import islice
from typing import Final

from jcache.entry import NO_SIDECAR, Columns, Snapshot
from jcache.layout import (
    ENTRY_SUFFIX,
    SIDECAR_SUFFIX,
    are_files_of_keys,
    is_key,
)
from jcache.layout.key_list import KeyList
from jcache.store.access_times import AccessTimes
from jcache.store.sidecar import LATEST_NS, read_recency

_AT_ONCE: Final = 4096  # names that are looked at together


def storable_ns(time_ns: int) -> int:
    """Return a time of the file system, or the nearest one that a column and a sidecar can hold."""
    return min(max(time_ns, 0), LATEST_NS)


def _classify(names: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the keys of entries, the keys of sidecars, and the other names."""
    entries: list[str] = []
    sidecars: list[str] = []
    others: list[str] = []
    for name in names:
        ending = name[-6:]
        (entries if ending == ENTRY_SUFFIX else sidecars if ending == SIDECAR_SUFFIX else others).append(name)
    return _keys(entries, others), _keys(sidecars, others), others


def _keys(names: list[str], others: list[str]) -> list[str]:
    """Return the keys in names with a suffix; add the names without a key to the others."""
    if are_files_of_keys(names):  # mostly so, and over 100,000 names three times as fast
        return [name[:-6] for name in names]
    keys: list[str] = []
    for name in names:
        if is_key(name[:-6]):
            keys.append(name[:-6])
        else:
            others.append(name)
    return keys


class EntryReader:
    """Reads sizes and times of entries in an open directory.

    Attributes:
        descriptor: of the directory.
        times: the meaning of access times in it.
        rejected: names of entries that are no regular files.
    """

    def __init__(self, descriptor: int, times: AccessTimes) -> None:
        self.descriptor = descriptor
        self.times = times
        self.rejected: list[str] = []

    def read(self, keys: Iterable[str]) -> Columns:
        """Return the columns of some entries, as far as they are there."""
        columns = Columns.empty()
        self._append(columns, keys)
        self._add_recency(columns, 0, {})
        return columns

    def scan(self, known: Mapping[str, tuple[int, int]]) -> tuple[Columns, list[str]]:
        """Return the columns of all entries, and the names of other files, sidecars without an entry among them.

        Args:
            known: recency and modification time of sidecars that are not to be read again, by key.
        """
        columns, sidecars, others = Columns.empty(), KeyList(), list[str]()
        with os.scandir(self.descriptor) as items:
            while some := [item.name for item in islice(items, _AT_ONCE)]:
                entries, beside, rest = _classify(some)
                self._append(columns, entries)
                sidecars.extend(beside)
                others += rest
        if sidecars:
            which = None if len(sidecars) >= len(columns.keys) else frozenset(sidecars)
            found = self._add_recency(columns, 0, known, which)
            if found < len(sidecars):
                others += (key + SIDECAR_SUFFIX for key in sidecars if self.status(key + ENTRY_SUFFIX) is None)
        return columns, others

    def refresh(self, old: Snapshot) -> Columns:
        """Return the old columns with present data, where the names have not changed."""
        limit = old.settled_before_ns
        keep = [created < limit for created in old.columns.created]
        columns = old.columns
        if not all(keep):
            again = [key for key, kept in zip(columns.keys, keep, strict=True) if not kept]
            columns = columns.where(keep)
        self._refresh_recency(columns, limit)
        if not all(keep):
            count = len(columns.keys)
            self._append(columns, again)
            self._add_recency(columns, count, {})
        return columns

    def _refresh_recency(self, columns: Columns, limit: int) -> None:
        if columns.sidecars.count(NO_SIDECAR) == len(columns.keys):
            return
        for i, (key, changed) in enumerate(zip(columns.keys, columns.sidecars, strict=True)):
            if changed != NO_SIDECAR:
                known = (columns.recency[i], changed) if changed < limit else None
                columns.recency[i], columns.sidecars[i] = self._recency(key, columns.created[i], known)

    def _append(self, columns: Columns, keys: Iterable[str]) -> None:
        """Add the rows of entries, without what their sidecars say."""
        lstat, descriptor, used_ns = os.lstat, self.descriptor, self.times.used_ns
        found, sizes, made, used, sidecars, accessed, changed = columns
        there: list[str] = []
        for key in keys:
            try:
                status = lstat(key + ENTRY_SUFFIX, dir_fd=descriptor)
            except OSError:
                continue  # vanished between the listing and here
            if not stat.S_ISREG(status.st_mode):
                self.rejected.append(key + ENTRY_SUFFIX)
                continue
            written, touched = status.st_mtime_ns, status.st_ctime_ns
            if not (0 <= written <= LATEST_NS and 0 <= touched <= LATEST_NS):
                written, touched = storable_ns(written), storable_ns(touched)
            there.append(key)
            sizes.append(status.st_size)
            made.append(written)
            accessed.append(used_ns(status))
            changed.append(touched)
        found.extend(there)
        used.extend(made[len(used) :])
        sidecars.extend([NO_SIDECAR] * len(there))

    def _add_recency(
        self,
        columns: Columns,
        first: int,
        known: Mapping[str, tuple[int, int]],
        which: Container[str] | None = None,
    ) -> int:
        """Write into rows of columns what sidecars say; return how many there are.

        Args:
            columns: the columns.
            first: the first of the rows.
            known: recency and modification time of settled sidecars, by key.
            which: keys of the entries that may have sidecars; None for all.
        """
        count = 0
        for row, key in enumerate(islice(columns.keys, first, None), first):
            if which is None or key in which:
                columns.recency[row], changed = self._recency(key, columns.created[row], known.get(key))
                columns.sidecars[row] = changed
                count += changed != NO_SIDECAR
        return count

    def _recency(self, key: str, created: int, known: tuple[int, int] | None = None) -> tuple[int, int]:
        """Return the recency and the sidecar's modification time; read the file only if that time has changed."""
        name = key + SIDECAR_SUFFIX
        try:
            status = os.lstat(name, dir_fd=self.descriptor)
        except OSError:
            return created, NO_SIDECAR
        changed = storable_ns(status.st_mtime_ns)
        if known and known[1] == changed:
            return known
        recency = read_recency(name, directory=self.descriptor) if stat.S_ISREG(status.st_mode) else None
        return (recency if recency is not None else created), changed

    def status(self, name: str) -> os.stat_result | None:
        try:
            return os.lstat(name, dir_fd=self.descriptor)
        except OSError:
            return None


def settled_sidecars(old: Snapshot) -> dict[str, tuple[int, int]]:
    """Return recency and modification time of the settled sidecars of a snapshot, by key."""
    limit = old.settled_before_ns
    keys, _, created, recency, sidecars, _, _ = old.columns
    if max(sidecars, default=NO_SIDECAR) == NO_SIDECAR:
        return {}
    rows = zip(keys, created, recency, sidecars, strict=True)
    return {key: (used, changed) for key, made, used, changed in rows if 0 <= changed < limit and used != made}
