"""Entries as values: one entry, the files beside entries, and all entries of a directory in columns."""

import os
from array import array
from itertools import compress
from typing import Final, NamedTuple

from jcache.layout import ENTRY_SUFFIX, FileKind, Kind, are_files_of_keys, name_of

SETTLED_NS: Final = 2_000_000_000  # the age from which on a modification time cannot stay the same after a change
GRACE_NS: Final = 60_000_000_000  # for unfinished files: JAX writes in place, and large entries slowly
NO_SIDECAR: Final = -1


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

    keys: list[str]
    sizes: "array[int]"
    created: "array[int]"
    recency: "array[int]"
    sidecars: "array[int]"  # modification time of the sidecar, or NO_SIDECAR
    accessed: "array[int]"  # access time of the entry, or what `AccessTimes.used_ns` says instead
    changed: "array[int]"  # change time of the entry: no copy and no command sets it to an earlier time

    @classmethod
    def empty(cls) -> "Columns":
        return cls([], *(array("q") for _ in range(6)))

    @property
    def are_sound(self) -> bool:
        """Whether columns that come from a file hold keys only, and no negative size or time."""
        names = [f"{key}{ENTRY_SUFFIX}" for key in self.keys]
        lowest = min((min(column, default=0) for column in (self.sizes, self.created, self.recency)), default=0)
        lowest = min(lowest, 2 + min(self.accessed, default=0))  # where AHEAD is -2
        return lowest >= 0 and "/" not in "".join(self.keys) and (not names or are_files_of_keys(names))

    def where(self, keep: list[bool]) -> "Columns":
        """Return the rows whose flag is true."""
        keys, *numbers = self
        return Columns(list(compress(keys, keep)), *(array("q", compress(column, keep)) for column in numbers))


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
        times = recency + accessed + changed  # three in one, since the ledger stores four columns
        numbers = sizes, created, times, sidecars
        return self.changed_ns, self.read_ns, _join(keys), *(column.tobytes() for column in numbers), _join(self.others)

    @classmethod
    def unpacked(cls, changed_ns: int, read_ns: int, keys: bytes, *rest: bytes) -> "Snapshot | None":
        """Return the snapshot that was packed; None where the columns do not fit together."""
        *numbers, others = rest
        sizes, created, times, sidecars = map(_numbers, numbers)
        count = len(times) // 3
        recency, accessed, changed = times[:count], times[count : 2 * count], times[2 * count :]
        columns = Columns(_split(keys), sizes, created, recency, sidecars, accessed, changed)
        if len({len(column) for column in columns}) != 1 or not columns.are_sound or b"/" in others:
            return None
        return cls(changed_ns, read_ns, columns, _split(others))


def _join(names: list[str]) -> bytes:
    return os.fsencode("\0".join(names))


def _split(names: bytes) -> list[str]:
    return os.fsdecode(names).split("\0") if names else []


def _numbers(column: bytes) -> "array[int]":
    numbers = array("q")
    if len(column) % numbers.itemsize == 0:
        numbers.frombytes(column)
    return numbers
