"""What a ledger knows of verifications."""

from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.store import ledger_verified as module
from jcache.store.ledger import Known, Ledger
from tests.helpers.entries import NOW, key
from tests.helpers.stores import EXECUTABLES


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite3")


def test_times_of_verifications(ledger: Ledger) -> None:
    """The number of verified entries of a kind, the first and the last time; those that are no entries' stay away."""
    assert module.times(ledger, EXECUTABLES) == (0, None, None)
    ledger.record([Known(EXECUTABLES, key(number), "d", verified_ns=NOW + number) for number in range(3)])
    ledger.record([Known(EXECUTABLES, key(3)), Known(Kind.TRACES, key(1), verified_ns=1)])
    assert module.times(ledger, EXECUTABLES) == (3, NOW, NOW + 2)
    module.record(ledger, [(EXECUTABLES, key(0)), (EXECUTABLES, key(3)), (Kind.GRAPHS, key(9))], NOW + 9)
    assert module.times(ledger, EXECUTABLES) == (4, NOW + 1, NOW + 9) and not ledger.known(Kind.GRAPHS)
    assert ledger.known(EXECUTABLES, [key(0)])[key(0)].digest == "d"


def test_entries_with_digests(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """All entries of a kind whose bytes are known come, some at a time and in the order of their keys."""
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 2)
    assert module.count_digests(ledger, EXECUTABLES) == 0 and list(module.with_digests(ledger, EXECUTABLES)) == []
    ledger.record([Known(EXECUTABLES, key(number), "d") for number in range(5)])
    ledger.record([Known(EXECUTABLES, key(9), seconds=1.0), Known(Kind.TRACES, key(8), "d")])
    found = list(module.with_digests(ledger, EXECUTABLES))
    assert module.count_digests(ledger, EXECUTABLES) == 5 and [len(some) for some in found] == [2, 2, 1]
    assert [name for some in found for name in some] == sorted(key(number) for number in range(5))
