"""What a root knows of entries that are gone, or that no run has recorded."""

from pathlib import Path

import pytest

from jcache import clock
from jcache.explain.root_evidence import RootEvidence
from jcache.layout import Kind, Root
from jcache.runs.record import ProgramRecord
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.units import NANOSECONDS
from jcache.vocabulary import CauseKind
from tests.helpers.entries import add, executable, key
from tests.helpers.stores import finding


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return create_root(tmp_path / "root")


def missed(a_key: str | None) -> ProgramRecord:
    return ProgramRecord(a_key, "jit_step", "stored")


def test_a_removal_is_told_with_its_age_and_the_program(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger tells when and by what an entry was removed; of others nothing is known."""
    with Store(root) as store:
        store.put(Kind.EXECUTABLES, key(1), executable())
        store.queue.flush()
        store.ledger.forget([(Kind.EXECUTABLES, key(1))], "jcache prune")
        later = clock.now_ns() + 3 * 3600 * NANOSECONDS
        monkeypatch.setattr(clock, "now_ns", lambda: later)
        evidence = RootEvidence(store, ())
        assert evidence.removal(key(1), 0, later) == "removed 3h ago by jcache prune"
        assert evidence.removal(key(2), 0, later) is evidence.damage(key(1), 0, later) is None
        assert evidence.removal(key(1), later, later + 1) is None
        assert evidence.removal(key(1), 0, later - 4 * 3600 * NANOSECONDS) is None


def test_an_entry_in_quarantine_was_damaged(root: Root) -> None:
    """What is in quarantine is told with its damage."""
    one = finding(root)
    Quarantine(root).take(one, clock.now_ns())
    with Store(root) as store:
        told = RootEvidence(store, ()).damage(one.key or "", 0, clock.now_ns())
        assert RootEvidence(store, ()).damage(one.key or "", 0, 1) is None
    assert told is not None and str(one.damage) in told and "taken out 0s ago" in told


def test_a_program_is_compared_with_the_latest_unrecorded_entry_of_its_name(root: Root) -> None:
    """Entries of the name that no run has recorded are the ones to compare with; without one there is nothing."""
    directory = root.directory(Kind.EXECUTABLES)
    for number in range(1, 4):
        add(directory, key(number), executable(), written_ns=number)
    add(directory, key(4, "jit_other"), executable())
    with Store(root) as store:
        evidence = RootEvidence(store, [key(3)])
        assert evidence.others_of(key(1)) == [key(2)]
        change = evidence.nearest_entry(missed(key(1)))
        assert change is not None and (change.item, change.baseline) == (CauseKind.UNKNOWN, key(2))
        assert RootEvidence(store, [key(2), key(3)]).nearest_entry(missed(key(1))) is None
        assert evidence.nearest_entry(missed(None)) is None
        assert RootEvidence(store, [key(3)], reads_entries=False).nearest_entry(missed(key(1))) is None
        assert evidence.nearest_entry(missed(key(9, "jit_other"))) is not None


@pytest.mark.parametrize("data", [b"", b"torn", executable()[:-5]])
def test_an_entry_that_cannot_be_read_tells_nothing(root: Root, data: bytes) -> None:
    """A damaged entry has no facts, and is compared with nothing."""
    for number in (1, 2):
        add(root.directory(Kind.EXECUTABLES), key(number), data if number == 1 else executable())
    with Store(root) as store:
        evidence = RootEvidence(store, ())
        assert evidence.inspection(key(1)) is None and evidence.inspection(key(2)) is not None
        assert evidence.inspection("../../x") is None and evidence.inspection("\ud800") is None
        assert evidence.compared(key(1), key(2)) == []
