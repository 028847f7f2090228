"""What `jcache verify` finds, as values: the kind of damage, where, the evidence, and what mends it."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from jcache.layout import Kind


class Damage(StrEnum):
    """Kinds of damage."""

    NOT_A_FILE = "not_a_file"  # the name of an entry on a directory, a link, a device
    UNREADABLE = "unreadable"  # the file system refuses to read it
    TORN = "torn"  # ends before its codec or envelope says: a writer was killed, a copy broken off
    CODEC = "codec"  # begins like no codec that an entry can have
    COMPRESSION = "compression"  # does not decompress, or not to the declared size, or to more than it may
    SEAL = "seal"  # an envelope whose bytes are not the ones it was sealed with
    GRAMMAR = "grammar"  # the inside is not what XLA writes
    NAME = "name"  # the content belongs to another key
    CODE = "code"  # names code that it has no business with, and that would run when its program reads it
    CHANGED = "changed"  # not the bytes on record
    CRASHES = "crashes"  # takes down the process that loads it
    HANGS = "hangs"  # does not finish loading
    REFUSED = "refused"  # the very jaxlib that wrote it does not load it
    MISSING_SIDECAR = "missing_sidecar"
    ORPHANED_SIDECAR = "orphaned_sidecar"
    SIDECAR_SIZE = "sidecar_size"
    SIDECAR_FUTURE = "sidecar_future"
    TEMPORARY = "temporary"  # left by a writer that was killed
    BLOCKING = "blocking"  # ends in -cache, is no entry, and so stops every bounded put of jax <= 0.11.1
    WRITABLE = "writable"  # others can replace the code in it
    OWNER = "owner"  # belongs to somebody else, who can replace the code in it
    LEDGER = "ledger"  # damaged itself
    PINS = "pins"  # what is pinned is not known, so that nothing may be removed
    REPLACED = "replaced"  # no damage: other bytes of the same key have taken its place, on request
    STALE = "stale"  # no damage: a graph that was built from something else than there is now
    DANGLING = "dangling"  # no damage: what it is linked to is not here
    OPAQUE = "opaque"  # no damage: of a platform whose programs jcache cannot read, so that its inside is not checked
    LEGACY = "legacy"  # only jax <= 0.4.30 reads it: no damage, but waste


class Remedy(StrEnum):
    """What `jcache verify --repair` does about a finding."""

    QUARANTINE = "quarantine"
    MAKE_SIDECAR = "make sidecar"
    REMOVE = "remove"
    BEGIN_ANEW = "begin anew"
    BY_HAND = "by hand"


SIDECARS: Final = frozenset({Damage.MISSING_SIDECAR, Damage.SIDECAR_SIZE, Damage.SIDECAR_FUTURE})
_REMEDIES: Final = {
    Damage.UNREADABLE: Remedy.BY_HAND,
    **dict.fromkeys(SIDECARS, Remedy.MAKE_SIDECAR),
    Damage.ORPHANED_SIDECAR: Remedy.REMOVE,
    Damage.TEMPORARY: Remedy.REMOVE,
    Damage.BLOCKING: Remedy.BY_HAND,
    Damage.WRITABLE: Remedy.BY_HAND,
    Damage.OWNER: Remedy.BY_HAND,
    Damage.LEDGER: Remedy.BEGIN_ANEW,
    Damage.PINS: Remedy.BY_HAND,
    Damage.DANGLING: Remedy.BY_HAND,
    Damage.OPAQUE: Remedy.BY_HAND,
    Damage.LEGACY: Remedy.BY_HAND,
}


class Fault(NamedTuple):
    """What is wrong with some bytes."""

    damage: Damage
    evidence: str


class Stamp(NamedTuple):
    """By what a file is known to be the one that was looked at."""

    bytes: int
    written_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Stamp":
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


class Finding(NamedTuple):
    """One damage.

    Attributes:
        damage: its kind.
        path: of the damaged file or directory.
        evidence: what was seen, as a sentence.
        kind: of the entry, or of the entries in the directory; None for what concerns the whole root.
        key: of the entry; None for what is not an entry's.
        advice: what to do about it by hand, a command where there is one.
        stamp: of the file when it was looked at.
        digest: of its bytes, where they were read.
        expected: the digest on record, where it is another one.
        is_note: whether it is worth telling and yet no damage.
    """

    damage: Damage
    path: Path
    evidence: str
    kind: Kind | None = None
    key: str | None = None
    advice: str | None = None
    stamp: Stamp | None = None
    digest: str | None = None
    expected: str | None = None
    is_note: bool = False

    @property
    def remedy(self) -> Remedy:
        """What `--repair` does about it."""
        return _REMEDIES.get(self.damage, Remedy.QUARANTINE)
