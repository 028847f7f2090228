"""The ledger knows when the latest removed entries went, and by what."""

from pathlib import Path

import pytest

from jcache import clock
from jcache.layout import Kind
from jcache.store.ledger import Known, Ledger
from jcache.store.ledger_removals import KnownRemoval, removals
from tests.helpers.entries import key


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite3")


def test_removals_are_kept_with_time_and_remover(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """What removed an entry last, and when, is known after it was forgotten; each kind has its own keys."""
    ledger.record([Known(Kind.TRACES, key(1))])
    for now, remover in ((5, "jcache prune"), (7, "train.py")):
        monkeypatch.setattr(clock, "now_ns", lambda now=now: now)
        ledger.forget([(Kind.TRACES, key(1)), (Kind.GRAPHS, key(2))], remover)
    assert removals(ledger, Kind.TRACES) == {key(1): KnownRemoval(7, "train.py")}
    assert removals(ledger, Kind.GRAPHS) == {key(2): KnownRemoval(7, "train.py")}
    assert removals(ledger, Kind.EXECUTABLES) == {}


def test_only_the_latest_removals_are_kept(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of removals on record is bounded, within a batch and over batches; the oldest go first."""
    monkeypatch.setattr("jcache.store.ledger_removals.KEPT", 3)
    ledger.record([Known(Kind.TRACES, key(1))])
    ledger.forget([(Kind.TRACES, key(number)) for number in range(5)], "jcache prune")
    assert removals(ledger, Kind.TRACES).keys() == {key(2), key(3), key(4)}
    ledger.forget([(Kind.TRACES, key(5))], "jcache rm")
    assert removals(ledger, Kind.TRACES).keys() == {key(3), key(4), key(5)}


def test_a_ledger_without_removals_knows_none(ledger: Ledger) -> None:
    """A ledger of before, or one that does not exist, has no table of removals."""
    assert removals(ledger, Kind.TRACES) == {}
    ledger.record([Known(Kind.TRACES, key(1))])
    assert removals(ledger, Kind.TRACES) == {}
