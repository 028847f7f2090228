"""The findings of `jcache verify` as values: the kind of damage, its place, the evidence and the remedy."""

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
    SEAL = "seal"  # an envelope whose bytes have changed since it was sealed
    GRAMMAR = "grammar"  # the content does not follow XLA's formats
    NAME = "name"  # the content belongs to another key
    CODE = "code"  # names code that its format does not need, and that would run when its program reads it
    CHANGED = "changed"  # other bytes than those whose digest is on record
    CRASHES = "crashes"  # crashes the process that loads it
    HANGS = "hangs"  # does not finish loading
    REFUSED = "refused"  # the jaxlib that wrote it does not load it
    MISSING_SIDECAR = "missing_sidecar"
    ORPHANED_SIDECAR = "orphaned_sidecar"
    SIDECAR_SIZE = "sidecar_size"
    SIDECAR_FUTURE = "sidecar_future"
    TEMPORARY = "temporary"  # left by a writer that was killed
    BLOCKING = "blocking"  # ends in -cache, is no entry, and so stops every bounded put of jax <= 0.11.1
    WRITABLE = "writable"  # others can replace the code in it
    OWNER = "owner"  # belongs to another user, who can replace the code in it
    LEDGER = "ledger"  # the ledger itself is damaged
    PINS = "pins"  # the pins cannot be read, so that nothing may be removed
    REPLACED = "replaced"  # no damage: other bytes of the same key have taken its place, on request
    STALE = "stale"  # no damage: a graph whose sources have changed since it was built
    DANGLING = "dangling"  # no damage: an entry that it is linked to is missing
    OPAQUE = "opaque"  # no damage: of a platform whose programs jcache cannot read, so that its content is not checked
    LEGACY = "legacy"  # only jax <= 0.4.30 reads it: no damage, but waste


class Remedy(StrEnum):
    """The action of `jcache verify --repair` on a finding."""

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
    """One kind of damage in some bytes, and the evidence as a sentence."""

    damage: Damage
    evidence: str


class Stamp(NamedTuple):
    """Size, modification time and inode of a file, by which it is recognised as the one that was checked."""

    bytes: int
    written_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Stamp":
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


class Finding(NamedTuple):
    """One damage.

    Attributes:
        damage: kind of the damage.
        path: path of the damaged file or directory.
        evidence: the observation, as a sentence.
        kind: kind of the entry, or of the entries in the directory; None for a finding about the whole root.
        key: key of the entry; None where the file is no entry's.
        advice: the next step by hand, a command where there is one.
        stamp: the file's stamp when it was checked.
        digest: digest of its bytes, where they were read.
        expected: the digest on record, where it differs.
        is_note: whether it is no damage and yet worth reporting.
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
        """The action of `--repair` on it."""
        return _REMEDIES.get(self.damage, Remedy.QUARANTINE)
