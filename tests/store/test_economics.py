"""The time of building and loading: sums, verdict, and records in the ledger."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jcache.layout import Kind
from jcache.store.economics import Economics, Spending, Spent, in_all
from jcache.store.ledger import Known, Ledger
from tests.helpers.entries import key

BUILD = Economics(builds=1, build_seconds=2.0)
LOAD = Economics(loads=1, load_seconds=0.5, spared_seconds=2.0)
NAME = "jit_step"


def spending(*economics: Economics, number: int = 1) -> Spending:
    news = Spending()
    for each in economics:
        news.add(Spent(Kind.GRAPHS, key(number), each))
    return news


def test_sums() -> None:
    """Builds and loads add up; the saved time is the spared time less that of loading."""
    total = in_all({"a": BUILD.plus(LOAD), "b": LOAD})
    assert total == Economics(1, 2.0, 2, 1.0, 4.0)
    assert total.saved_seconds == 3.0 and not total.is_slower
    assert in_all({}) == Economics()


@pytest.mark.parametrize(
    ("economics", "verdict"),
    [
        (Economics(), None),
        (BUILD, None),
        (LOAD, None),
        (Economics(loads=3), None),
        (Economics(1, 1.0, 2, 0.024, 0.006), "loading `f` takes longer than building it: 12 ms against 3 ms"),
    ],
)
def test_the_verdict(economics: Economics, verdict: str | None) -> None:
    """The verdict mentions only graphs that take longer to load than to build."""
    assert economics.verdict("f") == verdict


def test_the_ledger_adds_up(tmp_path: Path) -> None:
    """The ledger adds up by name; recorded entries also have their number of loads; forgetting runs forgets these."""
    path = tmp_path / ".jcache" / "ledger.sqlite3"
    with closing(Ledger(path)) as ledger:
        assert ledger.economics(Kind.GRAPHS) == {} and not path.exists()
        ledger.record([Known(Kind.GRAPHS, key(1), digest="0" * 64)])
        assert ledger.economics(Kind.GRAPHS) == {}
        ledger.record_economics(spending(BUILD, LOAD))
        ledger.record_economics(spending(LOAD, LOAD, number=2))
        assert ledger.economics(Kind.GRAPHS) == {NAME: Economics(1, 2.0, 3, 1.5, 6.0)}
        assert ledger.economics(Kind.TRACES) == {}
        assert {k: known.hits for k, known in ledger.known(Kind.GRAPHS).items()} == {key(1): 1}
        ledger.forget_runs()
        assert ledger.economics(Kind.GRAPHS) == {} and ledger.known(Kind.GRAPHS)[key(1)].hits == 0


def test_a_ledger_of_before(tmp_path: Path) -> None:
    """An older ledger gets the missing table, and an older jcache can still read it."""
    path = tmp_path / ".jcache" / "ledger.sqlite3"
    with closing(Ledger(path)) as ledger:
        ledger.record([Known(Kind.GRAPHS, key(1), seconds=1.0)])
        ledger.forget_runs()
    with closing(sqlite3.connect(path)) as database:
        version = database.execute("PRAGMA user_version").fetchone()
        assert not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'economics'").fetchone()
    with closing(Ledger(path)) as ledger:
        ledger.record_economics(spending(BUILD))
        assert ledger.economics(Kind.GRAPHS) == {NAME: BUILD}
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == version
