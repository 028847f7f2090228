"""The list of mutants is as long as was promised and does not rot; `python -m tests.proofs.mutants` runs them."""

from collections import Counter
from dataclasses import astuple

import pytest

from tests.proofs.mutants import MUTANTS, PACKAGE, REPOSITORY, Mutant

MODULES = {
    "formats/compression.py", "formats/envelope.py", "formats/executable.py", "store/eviction.py", "store/files.py",
    "store/ledger.py", "store/ledger_connection.py", "store/listing.py", "store/lru_index.py", "store/maintenance.py",
    "store/publishing.py", "store/quarantine.py", "store/removal.py", "store/sqlite.py", "store/store.py",
}  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=[str(number) for number in range(1, len(MUTANTS) + 1)])
@pytest.mark.smoke
def test_every_mutant_can_be_planted(mutant: Mutant) -> None:
    """The text of each mutant occurs once, the mutated text is valid Python, and its tests exist."""
    text = (PACKAGE / mutant.module).read_text()
    assert text.count(mutant.original) == 1
    assert mutant.planted(text) != text
    compile(mutant.planted(text), mutant.module, "exec")
    assert all((REPOSITORY / "tests" / f"{name}.py").is_file() for name in mutant.tests)


@pytest.mark.smoke
def test_what_is_not_there_once_is_not_planted() -> None:
    """A list that has rotted is an error and no mutant that survives."""
    for text in ("", "one one"):
        with pytest.raises(ValueError, match="not once"):
            Mutant("store/store.py", "one", "two", "Wrong.", ()).planted(text)


@pytest.mark.smoke
def test_the_mutants_are_thirty() -> None:
    """Thirty at least, no two alike, in the store, eviction, serialization and the ledger."""
    assert len(MUTANTS) >= 30
    assert max(Counter(map(astuple, MUTANTS)).values()) == 1
    assert {mutant.module for mutant in MUTANTS} >= MODULES
