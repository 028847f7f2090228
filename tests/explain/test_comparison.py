"""Two keys compared: by the records of runs, else by their entries."""

from pathlib import Path

import pytest

from jcache.explain.baseline import History
from jcache.explain.comparison import Comparison, compare_keys
from jcache.explain.root_evidence import RootEvidence
from jcache.layout import Kind
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.vocabulary import VOCABULARY, CauseKind
from tests.helpers.entries import add, executable, key
from tests.helpers.records import TextPrograms, argument, process, program, run

OLD = program("step")
NEW = program("step", "new", arguments=argument(type="f16[61,128]", donated=True), static={"n": "3"})
HISTORY = History([run(1, process(OLD)), run(2, process(NEW))])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    root = create_root(tmp_path / "root")
    for number in (1, 2):
        add(root.directory(Kind.EXECUTABLES), key(number), executable(), written_ns=number)
    return Store(root)


def compared(store: Store, current: str | None, baseline: str | None) -> Comparison:
    return compare_keys(HISTORY, current or "", baseline, TextPrograms(), RootEvidence(store, HISTORY.keys))


def test_two_recorded_keys_have_all_their_differences(store: Store) -> None:
    """All that differs between two recorded keys is listed, in the order of the vocabulary, with its words."""
    found = compared(store, NEW.key, OLD.key)
    assert found.is_recorded
    assert [change.item for change in found.changes] == [
        CauseKind.STATIC,
        CauseKind.DTYPE,
        CauseKind.SHAPE,
        CauseKind.DONATION,
    ]
    causes = found.to_json()["causes"]
    assert [cause["reason"] for cause in causes] == [VOCABULARY[change.item].reason for change in found.changes]
    assert found.current_module == NEW.parts["computation"]


def test_the_same_key_has_no_difference(store: Store) -> None:
    """A key is compared with itself without a difference."""
    assert compared(store, NEW.key, NEW.key).changes == ()


def test_a_key_alone_is_compared_with_the_latest_entry_of_its_name(store: Store) -> None:
    """A key that no run has recorded is compared with the nearest entry of its name, or with nothing."""
    found = compared(store, key(1), None)
    assert (found.baseline, found.is_recorded) == (key(2), False)
    assert compared(store, key(1, "jit_other"), None).baseline is None


def test_keys_of_two_functions_are_told_apart(store: Store) -> None:
    """Keys of different functions have that as their difference, and it reads from the second to the first."""
    found = compared(store, key(1, "jit_step"), key(2, "jit_loss"))
    (change,) = found.changes
    assert (change.item, change.baseline, change.current) == (CauseKind.PROGRAM, "jit_loss", "jit_step")
    assert "two different functions" in change.note
