"""The ledger: recorded facts about entries."""

import json
import os
import time
from array import array
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from jcache.entry import Columns, Snapshot
from jcache.layout import Kind
from jcache.layout.key_list import KeyList
from jcache.store.ledger import Known, Ledger
from tests.helpers.entries import NOW, key


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite3")


def test_what_is_recorded_is_known(ledger: Ledger) -> None:
    """All recorded facts are read back, in the next process as well, and only for their kind."""
    known = Known(Kind.TRACES, key(1), "d" * 64, 10, 1.5, "put", "run-1", "0.10.2", 3, NOW)
    ledger.record([known, Known(Kind.TRACES, key(2))])
    ledger.close()
    assert ledger.known(Kind.TRACES) == {key(1): known, key(2): Known(Kind.TRACES, key(2))}
    assert ledger.known(Kind.TRACES, [key(2), key(3)]) == {key(2): Known(Kind.TRACES, key(2))}
    assert ledger.known(Kind.TRACES, []) == {}
    assert ledger.known(Kind.EXECUTABLES) == {}


def test_what_is_not_said_stays_known(ledger: Ledger) -> None:
    """None keeps the old value, a new value replaces it, and hits add up."""
    ledger.record([Known(Kind.GRAPHS, key(1), digest="a" * 64, seconds=1.0, hits=2)])
    ledger.record([Known(Kind.GRAPHS, key(1), seconds=2.0, pinned_ns=5, hits=1)])
    ledger.record([Known(Kind.GRAPHS, key(1))])
    expected = Known(Kind.GRAPHS, key(1), digest="a" * 64, seconds=2.0, pinned_ns=5, hits=3)
    found = ledger.known(Kind.GRAPHS)
    assert {k: known._replace(digest_ns=None) for k, known in found.items()} == {key(1): expected}


def test_a_digest_has_its_time(ledger: Ledger) -> None:
    """A digest has the given time, or that of recording; a record without a digest keeps the old time."""
    before = time.time_ns()
    ledger.record([Known(Kind.TRACES, key(1), digest="a" * 64), Known(Kind.TRACES, key(2), "a" * 64, digest_ns=NOW)])
    ledger.record([Known(Kind.TRACES, key(i), verified_ns=9, hits=1) for i in (1, 2, 3)])
    known = ledger.known(Kind.TRACES)
    assert before <= (known[key(1)].digest_ns or 0) <= time.time_ns()
    assert known[key(2)].digest_ns == NOW and known[key(3)].digest_ns is None
    ledger.record([Known(Kind.TRACES, key(2), "a" * 64, digest_ns=NOW + 1)])
    assert ledger.known(Kind.TRACES)[key(2)].digest_ns == NOW + 1


@pytest.mark.parametrize(
    ("digest", "checks", "kept"),
    [("a" * 64, None, 3), ("a" * 64, 4, 4), (None, None, 3), (None, 4, 4), ("b" * 64, None, None), ("b" * 64, 4, 4)],
)
def test_other_bytes_have_passed_no_checks(
    ledger: Ledger, digest: str | None, checks: int | None, kept: int | None
) -> None:
    """The passed checks are forgotten exactly when the digest changes."""
    ledger.record([Known(Kind.TRACES, key(1), "a" * 64, 10, checks=3)])
    ledger.record([Known(Kind.TRACES, key(1), digest, checks=checks)])
    assert ledger.known(Kind.TRACES)[key(1)].checks == kept


def test_discrediting(ledger: Ledger) -> None:
    """Discrediting removes the facts on the bytes; pins, hits, seconds and the time of verification stay with
    the key.
    """
    about = Known(Kind.TRACES, key(1), "d" * 64, 10, 1.5, "put", "run-1", "0.10.2", NOW, NOW, 1, 3, NOW)
    ledger.record([about, about._replace(key=key(2)), about._replace(kind=Kind.GRAPHS)])
    ledger.discredit([(Kind.TRACES, key(1)), (Kind.TRACES, key(3))])
    less = about._replace(digest=None, bytes=None, digest_ns=None, checks=None)
    assert ledger.known(Kind.TRACES) == {key(1): less, key(2): about._replace(key=key(2))}
    assert ledger.known(Kind.GRAPHS) == {key(1): about._replace(kind=Kind.GRAPHS)}
    assert (Kind.TRACES, key(1)) in ledger.pins()


def test_discrediting_makes_no_ledger(ledger: Ledger, tmp_path: Path) -> None:
    """Discrediting makes no ledger."""
    ledger.discredit([(Kind.TRACES, key(1))])
    assert os.listdir(tmp_path) == []


def test_pins(ledger: Ledger) -> None:
    """Pins are set by recording them and last until they are taken back; all else stays known."""
    ledger.record(Known(kind, key(1), seconds=1.0, pinned_ns=1) for kind in Kind)
    ledger.unpin([(Kind.TRACES, key(1)), (Kind.TRACES, key(2))])
    assert ledger.pins() == {(Kind.EXECUTABLES, key(1)), (Kind.GRAPHS, key(1))}
    assert ledger.known(Kind.TRACES)[key(1)].seconds == 1.0


def test_forgetting(ledger: Ledger) -> None:
    """Forgetting removes every fact, with the pins."""
    ledger.record(Known(Kind.TRACES, key(i), pinned_ns=1) for i in range(3))
    ledger.forget(((Kind.TRACES, key(i)) for i in range(2)), "jcache prune")
    assert ledger.known(Kind.TRACES).keys() == {key(2)}
    assert ledger.pins() == {(Kind.TRACES, key(2))}


def test_runs(ledger: Ledger) -> None:
    """Reports are kept oldest first, one for each run; forgetting them forgets the hits they counted."""
    ledger.add_run("b", 2, "second")
    ledger.add_run("a", 1, "first")
    ledger.add_run("b", 2, "second again")
    ledger.record([Known(Kind.EXECUTABLES, key(1), hits=4, seconds=1.0)])
    assert ledger.runs() == ["first", "second again"]
    assert ledger.forget_runs() == 2
    assert ledger.forget_runs() == 0
    assert ledger.runs() == []
    assert ledger.known(Kind.EXECUTABLES)[key(1)] == Known(Kind.EXECUTABLES, key(1), seconds=1.0)


NUMBERS, CHANGES = st.integers(0, 2**63 - 1), st.integers(-1, 2**63 - 1)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, CHANGES, CHANGES, NUMBERS), max_size=10),
    st.lists(
        st.binary(min_size=1, max_size=40)
        .map(lambda b: os.fsdecode(b.replace(b"\0", b"").replace(b"/", b"")))
        .filter(bool),
        max_size=5,
    ),
    st.binary(max_size=30).map(lambda b: "/" + os.fsdecode(b.replace(b"\0", b""))),
)
def test_snapshots_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, ...]], others: list[str], directory: str
) -> None:
    """Numbers of 64 bits and names of any bytes come back as they were."""
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite3")
    keys = KeyList(key(i) for i in range(len(rows)))
    columns = Columns(keys, *(array("q", (row[i] for row in rows)) for i in range(6)))
    snapshot = Snapshot(1, 2, columns, others)
    ledger.save_snapshot(directory, snapshot)
    ledger.save_snapshot(directory + "/other", Snapshot(3, 4, Columns.empty(), []))
    assert ledger.load_snapshot(directory) == snapshot
    assert ledger.load_snapshot(directory + "/none") is None
    ledger.close()


def test_runs_of_long_ago_keep_their_counts_only(ledger: Ledger) -> None:
    """The hundred last runs are kept whole; older ones lose their list of programs, and nothing else."""
    report = {"hits": 3, "programs": [{"key": key(i)} for i in range(50)]}
    for i in range(105):
        ledger.add_run(f"run-{i:03}", NOW + i, json.dumps(report | {"id": i}))
    kept = [json.loads(text) for text in ledger.runs()]
    assert [run["id"] for run in kept if "programs" in run] == list(range(5, 105))
    assert [run["id"] for run in kept] == list(range(105))
    assert all(run["hits"] == 3 for run in kept)
