"""What a program's cache did, counted: one exact sentence for each number."""

import errno
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from threading import Lock
from typing import Final, NamedTuple

from jcache.errors import JcacheError, LedgerUnavailable, Locked
from jcache.frozen import Frozen


class Refusal(StrEnum):
    """Why an entry was not stored, in words."""

    TOO_LARGE = "larger than the cache may grow"
    PINNED = "what is pinned leaves no room for it"
    PINS_UNKNOWN = "what is pinned is not known"
    NOT_ALLOWED = "only process 0 writes"
    READ_ONLY = "the cache cannot be written"
    FULL = "the disk, or the quota, is full"
    LOCKED = "another process held the lock for too long"
    FAILED = "the write failed"


_REFUSALS: Final = {
    errno.EROFS: Refusal.READ_ONLY,
    errno.EACCES: Refusal.READ_ONLY,
    errno.EPERM: Refusal.READ_ONLY,
    errno.ENOSPC: Refusal.FULL,
    errno.EDQUOT: Refusal.FULL,
}


def refusal_of(error: OSError | JcacheError) -> Refusal:
    """Why an entry was not stored, by what storing it raised."""
    if isinstance(error, Locked):
        return Refusal.LOCKED
    if isinstance(error, LedgerUnavailable):
        return Refusal.PINS_UNKNOWN
    cause = error if isinstance(error, OSError) else error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    return _REFUSALS.get(number or 0, Refusal.FAILED)


class What(StrEnum):
    """What happened."""

    HIT = "hit"
    MISS = "miss"
    STORED = "stored"
    PRESENT = "present"
    REFUSED = "refused"
    DAMAGED = "damaged"


class Event(NamedTuple):
    """One thing that happened to one key.

    Attributes:
        what: happened.
        key: as JAX has it.
        bytes: that were served or stored.
        seconds: that building it took, of a hit, where that is known.
        detail: the refusal, or the damage.
        shared: whether a read-only root was the one that served it.
    """

    what: What
    key: str
    bytes: int = 0
    seconds: float | None = None
    detail: str | None = None
    shared: bool = False


class Counts(NamedTuple):
    """What a cache did since it was made.

    Attributes:
        hits: lookups that were served.
        shared_hits: those of them that a read-only root served.
        misses: lookups that were not, damaged entries included.
        stored: executables that were written.
        present: executables that were there by the time they were to be written.
        refused: executables that were not written, by reason.
        damaged: entries found damaged.
        bytes_read: of the entries served.
        bytes_written: of the entries stored.
        seconds_saved: that building the entries served had taken, as far as that is known.
    """

    hits: int = 0
    shared_hits: int = 0
    misses: int = 0
    stored: int = 0
    present: int = 0
    refused: Mapping[Refusal, int] = Frozen({})
    damaged: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds_saved: float = 0.0


class Tally:
    """Counts events; several threads may."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._of: Counter[What] = Counter()
        self._refused: Counter[Refusal] = Counter()
        self._shared = self._read = self._written = 0
        self._saved = 0.0

    def add(self, event: Event) -> None:
        with self._lock:
            self._of[event.what] += 1
            if event.what is What.HIT:
                self._read += event.bytes
                self._shared += event.shared
                self._saved += event.seconds or 0.0
            elif event.what is What.STORED:
                self._written += event.bytes
            elif event.what is What.REFUSED and event.detail is not None:
                self._refused[Refusal(event.detail)] += 1

    def renew_lock(self) -> None:
        """Makes the lock anew, in a forked child, where a thread that is not here may hold it."""
        self._lock = Lock()

    def snapshot(self) -> Counts:
        with self._lock:
            of = self._of
            return Counts(
                hits=of[What.HIT],
                shared_hits=self._shared,
                misses=of[What.MISS],
                stored=of[What.STORED],
                present=of[What.PRESENT],
                refused=Frozen(dict(self._refused)),
                damaged=of[What.DAMAGED],
                bytes_read=self._read,
                bytes_written=self._written,
                seconds_saved=self._saved,
            )
