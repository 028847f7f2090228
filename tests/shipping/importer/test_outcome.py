"""The outcome of an import for each entry, by what is at its path already."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.shipping.archive.manifest import Item
from jcache.shipping.importer.outcome import WRITTEN, ImportOutcome, ImportResult, outcome_of
from tests.helpers.entries import NOW, key

DATA = b"an entry"
ITEM = Item(Kind.EXECUTABLES, key(1), len(DATA), digest(DATA), NOW, NOW)


@pytest.mark.parametrize(
    ("make", "outcome", "replaced"),
    [
        (lambda path: None, ImportOutcome.NEW, ImportOutcome.NEW),
        (lambda path: path.write_bytes(DATA), ImportOutcome.PRESENT, ImportOutcome.PRESENT),
        (lambda path: path.write_bytes(DATA[::-1]), ImportOutcome.DIFFERENT, ImportOutcome.REPLACED),
        (lambda path: path.write_bytes(DATA * 2), ImportOutcome.DIFFERENT, ImportOutcome.REPLACED),
        (lambda path: path.mkdir(), ImportOutcome.DIFFERENT, ImportOutcome.DIFFERENT),
        (lambda path: path.symlink_to("/dev/null"), ImportOutcome.DIFFERENT, ImportOutcome.DIFFERENT),
        (os.mkfifo, ImportOutcome.DIFFERENT, ImportOutcome.DIFFERENT),
    ],
    ids=["nothing", "the same", "other bytes", "another size", "a directory", "a link", "a pipe"],
)
def test_sizes_and_digests_are_compared(
    tmp_path: Path, make: Callable[[Path], object], outcome: ImportOutcome, replaced: ImportOutcome
) -> None:
    """Equal bytes are present; other bytes are replaced on request, and what is no file never is."""
    make(tmp_path / "entry")
    assert outcome_of(tmp_path / "entry", ITEM) is outcome
    assert outcome_of(tmp_path / "entry", ITEM, replace=True) is replaced


def test_a_path_below_a_file_is_free(tmp_path: Path) -> None:
    """An entry whose directory is not there yet is new; whether it can be made is checked elsewhere."""
    (tmp_path / "file").touch()
    assert outcome_of(tmp_path / "file" / "entry", ITEM) is ImportOutcome.NEW


def test_results_are_counted() -> None:
    """Entries are selected and counted by any of several outcomes."""
    names = [(Kind.EXECUTABLES, key(number)) for number in range(3)]
    kept = ImportOutcome.PRESENT
    result = ImportResult(dict(zip(names, (ImportOutcome.NEW, ImportOutcome.REPLACED, kept), strict=True)))
    assert result.count(*WRITTEN) == 2 and result.with_outcome(*WRITTEN) == names[:2]
    assert result.with_outcome(kept) == names[2:] and result.count() == 0
