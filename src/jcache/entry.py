"""Entries as values: one entry, the files beside entries, and all entries of a directory in columns."""

import os
from array import array
from collections.abc import Sequence
from functools import reduce
from itertools import compress
from operator import xor
from typing import Final, NamedTuple

from jcache.layout import ENTRY_SUFFIX, FileKind, Kind, name_of
from jcache.layout.key_list import KeyList

SETTLED_NS: Final = 2_000_000_000  # the age from which on a modification time cannot stay the same after a change
GRACE_NS: Final = 60_000_000_000  # for unfinished files: JAX writes in place, and large entries slowly
NO_SIDECAR: Final = -1
_LEVEL: Final = 1  # of zlib


def is_young(written_ns: int, now_ns: int, grace_ns: int = GRACE_NS) -> bool:
    """Return whether a file of this modification time may still be unfinished; one from the future is finished."""
    return 0 <= now_ns - written_ns < grace_ns


class Entry(NamedTuple):
    """One entry: the file of a key and its sidecar.

    Attributes:
        kind: the kind of its content.
        key: ``<name>-<64 hex>``; a legacy entry of jax <= 0.4.16 is ``<64 hex>`` alone.
        bytes: size of the entry's file.
        created_ns: modification time of the file, nanoseconds since 1970.
        recency_ns: time of its last use, nanoseconds since 1970: the later one of the sidecar's time and the file's
            access time; ``created_ns`` where neither is known.
        sidecar: whether it has a sidecar.
        legacy: whether it was written by jax <= 0.4.30, and so is never hit by a later one.
        seconds: build time on record in the ledger; None where there is none.
        pinned: whether prune must keep it; None where that is not known, and nothing may be removed.
        unknown: whether its last use is unknown, so that ``recency_ns`` is the time of writing.
        within_ns: how much later than ``recency_ns`` the last use may be: a day where ``recency_ns`` is an access time,
            which most file systems update once a day.
    """

    kind: Kind
    key: str
    bytes: int
    created_ns: int
    recency_ns: int
    sidecar: bool
    legacy: bool = False
    seconds: float | None = None
    pinned: bool | None = False
    unknown: bool = False
    within_ns: int = 0

    @property
    def latest_ns(self) -> int:
        """The latest time at which it may have been used last, nanoseconds since 1970."""
        return self.recency_ns + self.within_ns

    @property
    def name(self) -> str:
        """Name of the function; empty for a legacy ``<64 hex>``."""
        return name_of(self.key)

    @property
    def file_name(self) -> str:
        return self.key if self.legacy else self.key + ENTRY_SUFFIX


class Neighbour(NamedTuple):
    """Files beside the entries: XLA's sub-caches, sidecars without an entry, temporary and unknown files."""

    name: str
    member: FileKind
    files: int
    bytes: int


class Columns(NamedTuple):
    """The entries of a directory, one column each; the n-th item of every column belongs to the n-th key."""

    keys: KeyList
    sizes: "array[int]"
    created: "array[int]"
    recency: "array[int]"
    sidecars: "array[int]"  # modification time of the sidecar, or NO_SIDECAR
    accessed: "array[int]"  # access time of the entry, or what `AccessTimes.used_ns` says instead
    changed: "array[int]"  # change time of the entry: no copy and no command sets it to an earlier time

    @classmethod
    def empty(cls) -> "Columns":
        return cls(KeyList(), *(array("q") for _ in range(6)))

    @property
    def are_sound(self) -> bool:
        """Whether columns that come from a file have no negative size or time."""
        lowest = min((min(column, default=0) for column in (self.sizes, self.created, self.recency)), default=0)
        return min(lowest, 2 + min(self.accessed, default=0)) >= 0  # where AHEAD is -2

    def fingerprint(self) -> int:
        """Return a number that other columns hardly ever have."""
        import zlib

        keys, *numbers = self
        return reduce(lambda before, column: zlib.crc32(column, before), numbers, zlib.crc32(keys.packed()))

    def where(self, keep: Sequence[bool]) -> "Columns":
        """Return the rows whose flag is true."""
        keys, *numbers = self
        return Columns(keys.where(keep), *(array("q", compress(column, keep)) for column in numbers))


class Snapshot(NamedTuple):
    """The columns of a directory at one time.

    Attributes:
        changed_ns: the directory's modification time just before it was read.
        read_ns: time of reading.
        columns: entries of the directory.
        others: names of files that are neither entries nor sidecars.
    """

    changed_ns: int
    read_ns: int
    columns: Columns
    others: list[str]

    @property
    def names_final(self) -> bool:
        """Whether the directory had not changed for so long that the same modification time means the same names."""
        return self.changed_ns < self.settled_before_ns

    @property
    def settled_before_ns(self) -> int:
        """The time from which on a file may have been incomplete when the snapshot was taken."""
        return self.read_ns - SETTLED_NS

    @property
    def unsettled(self) -> bool:
        return max(self.columns.created, default=0) >= self.settled_before_ns

    def packed(self) -> tuple[object, ...]:
        """Return the two times, then each column and the other names as bytes, for `unpacked` on this machine."""
        keys, sizes, created, recency, sidecars, accessed, changed = self.columns
        import zlib

        # The ledger has four columns. Most files were used and changed when they were written: a difference of nothing.
        times = _differences(recency, created) + accessed + _differences(changed, created)
        numbers = (zlib.compress(column, _LEVEL) for column in (sizes, created, times, sidecars))
        return self.changed_ns, self.read_ns, keys.packed(), *numbers, _join(self.others)

    @classmethod
    def unpacked(cls, changed_ns: int, read_ns: int, packed_keys: bytes, *rest: bytes) -> "Snapshot | None":
        """Return the snapshot that was packed; None where the columns do not fit together."""
        *packed, others = rest
        keys = KeyList.unpacked(packed_keys)
        if keys is None or b"/" in others:
            return None
        count = len(keys)
        sizes, created, times, sidecars = map(_numbers, packed, (count, count, 3 * count, count))
        if sizes is None or created is None or times is None or sidecars is None:
            return None
        recency, changed = (_differences(column, created) for column in (times[:count], times[2 * count :]))
        columns = Columns(keys, sizes, created, recency, sidecars, times[count : 2 * count], changed)
        return cls(changed_ns, read_ns, columns, _split(others)) if columns.are_sound else None


def _differences(column: "array[int]", other: "array[int]") -> "array[int]":
    """Return what makes a column of another one and, of that, the column again."""
    return array("q", map(xor, column, other))


def _join(names: list[str]) -> bytes:
    return os.fsencode("\0".join(names))


def _split(names: bytes) -> list[str]:
    return os.fsdecode(names).split("\0") if names else []


def _numbers(packed: bytes, count: int) -> "array[int] | None":
    """Return so many numbers that were compressed; None for others."""
    import zlib

    numbers = array("q")
    try:
        data = zlib.decompressobj().decompress(packed, count * numbers.itemsize + 1)
    except zlib.error:
        return None
    if len(data) != count * numbers.itemsize:
        return None
    numbers.frombytes(data)
    return numbers
