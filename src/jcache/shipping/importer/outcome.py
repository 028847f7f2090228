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

EntryId = tuple[Kind, str]


class ImportOutcome(StrEnum):
    """What becomes of an entry, or of a file of XLA's sub-caches."""

    NEW = "new"
    PRESENT = "present"  # and equal
    DIFFERENT = "different"  # from what is there, which stays
    REPLACED = "replaced"
    CODE = "code"  # runs when its program reads it, which was not allowed
    INCOMPATIBLE = "incompatible"  # cannot be hit here, and was not wanted then
    REFUSED = "refused"  # its bytes are not what they should be
    OMITTED = "omitted"  # by the archive


WRITTEN: Final = frozenset({ImportOutcome.NEW, ImportOutcome.REPLACED})


@dataclass(frozen=True, slots=True)
class RefusedMember:
    """An entry, or a neighbour, that was not taken, and why, as a sentence."""

    what: Item | Neighbour
    evidence: str


@dataclass(slots=True)
class ImportResult:
    """What has been imported so far.

    Attributes:
        outcomes: of the entries that were dealt with.
        neighbours: of the files of XLA's sub-caches, by their paths.
        bytes: of what was written.
        refused: what was not taken.
    """

    outcomes: dict[EntryId, ImportOutcome] = field(default_factory=dict)
    neighbours: dict[str, ImportOutcome] = field(default_factory=dict)
    bytes: int = 0
    refused: list[RefusedMember] = field(default_factory=list)

    def count(self, *outcomes: ImportOutcome) -> int:
        """How many entries have one of these outcomes."""
        return sum(outcome in outcomes for outcome in self.outcomes.values())

    def with_outcome(self, *outcomes: ImportOutcome) -> list[EntryId]:
        """The entries that have one of these outcomes."""
        return [name for name, outcome in self.outcomes.items() if outcome in outcomes]


def outcome_of(path: str | os.PathLike[str], item: Item | Neighbour, *, replace: bool = False) -> ImportOutcome:
    """What becomes of an entry whose place is a path: by its size and, if that is the same, its digest."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ImportOutcome.NEW
    if not stat.S_ISREG(status.st_mode):
        return ImportOutcome.DIFFERENT
    if status.st_size == item.bytes:
        digest = _digest_of(path)
        if digest == item.digest:
            return ImportOutcome.PRESENT
        if digest is None:  # it cannot be read, and may well be the same
            return ImportOutcome.DIFFERENT
    return ImportOutcome.REPLACED if replace else ImportOutcome.DIFFERENT


def _digest_of(path: str | os.PathLike[str]) -> str | None:
    with suppress(OSError):
        found = hash_file(os.fspath(path))
        return found and found[1]
    return None
