"""Events of a program's cache, and the reasons why an entry was not stored."""

import errno
from enum import StrEnum
from typing import Final, NamedTuple

from jcache.errors import JcacheError, LedgerUnavailable, Locked


class Refusal(StrEnum):
    """The reason why an entry was not stored, in words."""

    TOO_LARGE = "larger than the cache may grow"
    PINNED = "the pinned entries leave no room for it"
    PINS_UNKNOWN = "the pinned entries are not known"
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
    """Return the reason why an entry was not stored, from the exception that storing it raised."""
    if isinstance(error, Locked):
        return Refusal.LOCKED
    if isinstance(error, LedgerUnavailable):
        return Refusal.PINS_UNKNOWN
    cause = error if isinstance(error, OSError) else error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    return _REFUSALS.get(number or 0, Refusal.FAILED)


class EventKind(StrEnum):
    """The kind of a cache event."""

    HIT = "hit"
    MISS = "miss"
    STORED = "stored"
    PRESENT = "present"
    REFUSED = "refused"
    DAMAGED = "damaged"


class CacheEvent(NamedTuple):
    """An event of one key.

    Attributes:
        kind: kind of the event.
        key: the key, as JAX has it.
        bytes: the number of bytes that were served or stored.
        seconds: for a hit, the build time of the entry, if it is known.
        detail: the refusal, or the damage.
        shared: whether the entry is one of a read-only root.
    """

    kind: EventKind
    key: str
    bytes: int = 0
    seconds: float | None = None
    detail: str | None = None
    shared: bool = False
