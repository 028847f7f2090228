"""Files that libraries open in C code."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jcache.fingerprint.io.reads import Reads


@pytest.mark.parametrize(
    ("statement", "attached"),
    [
        ("attach '{}' as o", True),
        ('ATTACH DATABASE "{}" AS o', True),
        ("-- a comment\n /* and * one */ attach 'file:{}?mode=ro' as o", True),
        ("attach ':memory:' as o", False),
        ("select 'attach'", False),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_attached_databases_count(statement: str, attached: bool, strict: bool, tmp_path: Path) -> None:
    """They are read as those that are opened are, however the statement names them."""
    path = tmp_path / "it's.db"
    sqlite3.connect(path).close()
    name = str(path).replace("'", "''") if "'{" in statement or "file" in statement else str(path)
    with Reads(strict=strict) as reads, closing(sqlite3.connect(":memory:", uri=True)) as connection:
        connection.execute(statement.format(name))
    assert set(reads.parts) == ({f"file {path}", f"file {path}-wal"} if attached else set()) and reads.reason is None


def test_a_name_that_sqlite_makes_is_a_reason(tmp_path: Path) -> None:
    """What SQLite computes is not computed again."""
    with Reads(strict=False) as reads, closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("attach ? || 'b' as o", (str(tmp_path / "a"),))
    assert reads.reason == "attached a database by a name that only SQLite knows"


def test_a_database_that_is_written_is_a_reason(tmp_path: Path) -> None:
    """It is another one at the end of the block."""
    path = tmp_path / "rates.db"
    with Reads() as reads, closing(sqlite3.connect(path)) as connection:
        connection.execute("create table t(a)")
        connection.commit()
    assert reads.reason is not None and "rates.db" in reads.reason


def test_an_unseen_connection_is_a_reason_in_a_strict_block(tmp_path: Path) -> None:
    """What a connection attaches that was made past `sqlite3.connect` cannot be seen."""
    with Reads() as reads:
        sqlite3.Connection(str(tmp_path / "rates.db")).close()
    assert reads.reason is not None and reads.reason.endswith("past `sqlite3.connect`")


def test_h5py_writes(tmp_path: Path) -> None:
    """A file that is made anew, or that is updated, is a reason for a strict block; one that is read is not."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "rates.h5"
    for mode, reason in (("w", True), ("r", False), ("a", False), ("r+", True)):
        with Reads() as reads, h5py.File(path, mode) as file:
            if mode in ("w", "r+"):
                file.attrs[mode] = 2.0
        assert bool(reads.reason) == reason, mode
        if not reason:
            assert list(reads.parts) == [f"file {path}"]
