"""The outcome of an import for each entry: new, present, replaced, refused, ...."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from jcache.layout import Kind, Root
from jcache.shipping.archive.manifest import Item, XlaFile
from jcache.shipping.exporter.scan import hash_file

EntryId = tuple[Kind, str]


class ImportOutcome(StrEnum):
    """The outcome for an entry, or for a file of XLA's sub-caches."""

    NEW = "new"
    PRESENT = "present"  # and equal
    DIFFERENT = "different"  # from the entry that is there, which stays
    REPLACED = "replaced"
    CODE = "code"  # left out: it runs when its program reads it, which was not allowed
    INCOMPATIBLE = "incompatible"  # left out: it cannot be hit here, and --skip-incompatible was given
    REFUSED = "refused"  # its bytes do not have the digest, or fail a check
    OMITTED = "omitted"  # by the archive


WRITTEN: Final = frozenset({ImportOutcome.NEW, ImportOutcome.REPLACED})


@dataclass(frozen=True, slots=True)
class RefusedMember:
    """An entry or neighbour that was refused, and the evidence as a sentence."""

    entry: Item | XlaFile
    evidence: str


@dataclass(slots=True)
class ImportResult:
    """The result of an import so far.

    Attributes:
        outcomes: outcomes of the entries, by kind and key.
        neighbours: outcomes of the files of XLA's sub-caches, by path.
        bytes: stored bytes that were written.
        refused: the entries and neighbours that were refused.
    """

    outcomes: dict[EntryId, ImportOutcome] = field(default_factory=dict)
    neighbours: dict[str, ImportOutcome] = field(default_factory=dict)
    bytes: int = 0
    refused: list[RefusedMember] = field(default_factory=list)

    def count(self, *outcomes: ImportOutcome) -> int:
        """Return how many entries have one of these outcomes."""
        return sum(outcome in outcomes for outcome in self.outcomes.values())

    def with_outcome(self, *outcomes: ImportOutcome) -> list[EntryId]:
        """Return the entries that have one of these outcomes."""
        return [name for name, outcome in self.outcomes.items() if outcome in outcomes]


def outcome_of(path: str | os.PathLike[str], item: Item | XlaFile, *, replace: bool = False) -> ImportOutcome:
    """Return the outcome for an entry that belongs at a path: compare sizes and, if these are equal, digests."""
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
        if digest is None:  # it cannot be read, and may be the same
            return ImportOutcome.DIFFERENT
    return ImportOutcome.REPLACED if replace else ImportOutcome.DIFFERENT


def _digest_of(path: str | os.PathLike[str]) -> str | None:
    with suppress(OSError):
        found = hash_file(os.fspath(path))
        return found and found[1]
    return None


def entry_path(root: Root, item: Item) -> str:
    """Return the path of an entry in a root."""
    return os.path.join(root.directory(item.kind), root.file_name(item.kind, item.key))
