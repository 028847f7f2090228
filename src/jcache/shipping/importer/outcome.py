"""What becomes of entries that are to come into a root."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from jcache.layout import Kind
from jcache.shipping.archive.manifest import Item, Neighbour
from jcache.shipping.exporter.scan import hash_file

Name = tuple[Kind, str]


class Fate(StrEnum):
    """What becomes of an entry, or of a file of XLA's sub-caches."""

    NEW = "new"
    PRESENT = "present"  # and equal
    DIFFERENT = "different"  # from what is there, which stays
    REPLACED = "replaced"
    CODE = "code"  # runs when its program reads it, which was not allowed
    INCOMPATIBLE = "incompatible"  # cannot be hit here, and was not wanted then
    REFUSED = "refused"  # its bytes are not what they should be
    OMITTED = "omitted"  # by the archive


WRITTEN: Final = frozenset({Fate.NEW, Fate.REPLACED})


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry, or a neighbour, that was not taken, and why, as a sentence."""

    what: Item | Neighbour
    evidence: str


@dataclass(slots=True)
class Imported:
    """What has been imported so far.

    Attributes:
        fates: of the entries that were dealt with.
        neighbours: of the files of XLA's sub-caches, by their paths.
        bytes: of what was written.
        refused: what was not taken.
    """

    fates: dict[Name, Fate] = field(default_factory=dict)
    neighbours: dict[str, Fate] = field(default_factory=dict)
    bytes: int = 0
    refused: list[Refused] = field(default_factory=list)

    def count(self, *fates: Fate) -> int:
        """How many entries have one of these fates."""
        return sum(fate in fates for fate in self.fates.values())

    def of(self, *fates: Fate) -> list[Name]:
        """The entries that have one of these fates."""
        return [name for name, fate in self.fates.items() if fate in fates]


def fate_of(path: str | os.PathLike[str], item: Item | Neighbour, *, replace: bool = False) -> Fate:
    """What becomes of an entry whose place is a path: by its size and, if that is the same, its digest."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Fate.NEW
    if not stat.S_ISREG(status.st_mode):
        return Fate.DIFFERENT
    if status.st_size == item.bytes:
        digest = _digest_of(path)
        if digest == item.digest:
            return Fate.PRESENT
        if digest is None:  # it cannot be read, and may well be the same
            return Fate.DIFFERENT
    return Fate.REPLACED if replace else Fate.DIFFERENT


def _digest_of(path: str | os.PathLike[str]) -> str | None:
    with suppress(OSError):
        found = hash_file(os.fspath(path))
        return found and found[1]
    return None
