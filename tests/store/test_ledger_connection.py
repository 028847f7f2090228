"""The ledger's file is opened when it is needed, made by writers alone, and begun anew when it is gone."""

import os
import sqlite3
from pathlib import Path

import pytest

from jcache.errors import LedgerUnavailable
from jcache.layout import Kind
from jcache.store import sqlite
from jcache.store.ledger import Known, Ledger
from tests.helpers.entries import key
from tests.helpers.stores import open_ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite3")


def test_a_closed_ledger_opens_again(ledger: Ledger) -> None:
    """Closing is no end."""
    ledger.record([Known(Kind.TRACES, key(1), pinned_ns=1)])
    ledger.close()
    ledger.close()
    assert ledger.pins()
    ledger.record([Known(Kind.TRACES, key(2), pinned_ns=1)])
    assert len(ledger.pins()) == 2


def test_an_iterator_that_fails_changes_nothing(ledger: Ledger) -> None:
    """If the records' iterator fails, none of them is recorded."""
    ledger.record([Known(Kind.TRACES, key(1))])
    with pytest.raises(ZeroDivisionError):
        ledger.record(Known(Kind.TRACES, key(i), bytes=1 // (3 - i)) for i in range(5))
    assert ledger.known(Kind.TRACES) == {key(1): Known(Kind.TRACES, key(1))}


@pytest.mark.parametrize("opened", [False, True], ids=["before it is opened", "while it is open"])
def test_another_name_of_the_ledger_keeps_what_it_said(ledger: Ledger, tmp_path: Path, opened: bool) -> None:
    """A hard-linked copy of the ledger never changes, whichever process writes, and no record is lost."""
    one, other = Ledger(tmp_path / "ledger.sqlite3"), ledger
    one.record([Known(Kind.TRACES, key(1), seconds=1.0)])
    if opened:
        other.record([Known(Kind.TRACES, key(2), seconds=1.0)])
    else:
        one.close()
    backup = tmp_path / "backup"
    for number in range(3, 6):
        backup.unlink(missing_ok=True)
        os.link(tmp_path / "ledger.sqlite3", backup)
        before = backup.read_bytes(), backup.stat().st_mtime_ns
        for each in (one, other):
            each.record([Known(Kind.TRACES, key(number), hits=1)])
        assert (backup.read_bytes(), backup.stat().st_mtime_ns) == before
        assert one.known(Kind.TRACES)[key(number)].hits == other.known(Kind.TRACES)[key(number)].hits == 2
    assert not list(tmp_path.glob(".jcache-tmp-*"))


def test_a_ledger_that_is_gone_is_begun_anew(ledger: Ledger, tmp_path: Path) -> None:
    """If the file of an open ledger is removed, the process makes a new one."""
    ledger.record([Known(Kind.TRACES, key(1), seconds=1.0)])
    (tmp_path / "ledger.sqlite3").unlink()
    ledger.record([Known(Kind.TRACES, key(2), seconds=1.0)])
    assert Ledger(tmp_path / "ledger.sqlite3").known(Kind.TRACES).keys() == {key(2)}


def test_an_absent_ledger_is_made_by_writers_only(tmp_path: Path) -> None:
    """Reading a missing ledger returns nothing and makes nothing."""
    (tmp_path / "root").mkdir()
    path = tmp_path / "root" / ".jcache" / "ledger.sqlite3"
    ledger = open_ledger(path)
    assert ledger.pins() == set()
    assert not ledger.known(Kind.EXECUTABLES)
    assert ledger.runs() == []
    assert ledger.load_snapshot("/x") is None
    ledger.forget([(Kind.EXECUTABLES, key(1))], "jcache prune")
    assert not path.parent.exists()
    ledger.record([Known(Kind.EXECUTABLES, key(1))])
    assert path.is_file()


def test_no_root_is_made_for_a_ledger(tmp_path: Path) -> None:
    """A ledger is not made without its root, nor behind a symbolic link."""
    with pytest.raises(LedgerUnavailable):
        open_ledger(tmp_path / "gone" / ".jcache" / "ledger.sqlite3").record([Known(Kind.EXECUTABLES, key(1))])
    assert not (tmp_path / "gone").exists()
    (tmp_path / "outside").mkdir()
    (tmp_path / ".jcache").symlink_to(tmp_path / "outside")
    with pytest.raises(LedgerUnavailable, match="symbolic link"):
        open_ledger(tmp_path / ".jcache" / "ledger.sqlite3").record([Known(Kind.EXECUTABLES, key(1))])
    assert not list((tmp_path / "outside").iterdir())


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    """If .jcache is a file, there is no ledger, and none is made."""
    (tmp_path / ".jcache").write_text("mine")
    ledger = open_ledger(tmp_path / ".jcache" / "ledger.sqlite3")
    assert ledger.pins() == set()
    with pytest.raises(LedgerUnavailable, match="Cannot write"):
        ledger.record([Known(Kind.EXECUTABLES, key(1))])
    assert (tmp_path / ".jcache").read_text() == "mine"


def test_errors_close_the_ledger(path: Path) -> None:
    """An error is a `LedgerUnavailable` with the file's name, and the next use opens the file again."""
    closed: list[bool] = []
    with (
        pytest.raises(LedgerUnavailable, match=f"Cannot read the ledger {path}: odd."),
        sqlite.failures(path, "read", lambda: closed.append(True)),
    ):
        raise sqlite3.OperationalError("odd")
    assert closed
