"""SQLite opens the path that it is given, with its journal, whatever the path leads to later."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from jcache.layout import Kind, Root
from jcache.store import sqlite_vfs
from jcache.store.ledger import Known, Ledger
from tests.helpers.entries import key, tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no path leads to an open directory")


@pytest.mark.parametrize("name", ["unix", "unix-dotfile"])
def test_paths_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    """A database and its journal stay in the directory that was opened when a link takes its place."""
    vfs = sqlite_vfs.verbatim(name)
    assert vfs == f"jcache-{name}" == sqlite_vfs.verbatim(name)
    (tmp_path / "there").mkdir()
    (tmp_path / "elsewhere").mkdir()
    directory = os.open(tmp_path / "there", os.O_RDONLY | os.O_DIRECTORY)
    uri = f"file:/proc/self/fd/{directory}/x.db?mode=rwc&vfs={vfs}"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
        database.execute("CREATE TABLE t (a)")
        (tmp_path / "there").rename(tmp_path / "moved")
        (tmp_path / "there").symlink_to(tmp_path / "elsewhere")
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO t VALUES (1)")
        assert {"x.db", "x.db-journal"} <= set(os.listdir(tmp_path / "moved"))
        database.execute("COMMIT")
        assert database.execute("SELECT a FROM t").fetchall() == [(1,)]
    os.close(directory)
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """SQLite's limit for the length of a path is checked."""
    vfs = sqlite_vfs.verbatim("unix")
    for length in (100, 1000, 5000):
        with pytest.raises(sqlite3.OperationalError):
            sqlite3.connect(f"file:{tmp_path}/{'x' * length}/x.db?vfs={vfs}", uri=True)


def test_what_sqlite_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no VFS for an unknown name or another system."""
    assert sqlite_vfs.verbatim("no such") is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert sqlite_vfs.verbatim.__wrapped__("unix") is None


BESIDE_ANOTHER = """
import ctypes, json, shutil, sqlite3, sys
sqlite3.connect(":memory:").close()
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "libsqlite3" in line}
if loaded:
    shutil.copy(loaded.pop(), sys.argv[1])
    ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
from jcache.store import sqlite_vfs
print(json.dumps(sqlite_vfs.verbatim("unix")))
"""


def test_beside_another_sqlite_there_is_none(tmp_path: Path) -> None:
    """Such as that of TensorFlow, in which Python's own functions may have ended."""
    done = subprocess.run(
        [sys.executable, "-c", BESIDE_ANOTHER, str(tmp_path / "other.so")], capture_output=True, text=True, check=True
    )
    if not (tmp_path / "other.so").exists():
        pytest.skip("this Python has its SQLite within itself")
    assert json.loads(done.stdout) is None


def test_a_ledger_without_it(plain: Root, beyond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the VFS, the ledger is opened by its plain path, and a link in the place of its directory is refused."""
    monkeypatch.setattr(sqlite_vfs, "verbatim", lambda _: None)
    Ledger(plain.ledger).record([Known(Kind.EXECUTABLES, key(1), seconds=1.0)])
    assert Ledger(plain.ledger).known(Kind.EXECUTABLES)[key(1)].seconds == 1.0
    plain.state.rename(plain.path / "moved")
    plain.state.symlink_to(beyond)
    before = tree(beyond)
    assert Ledger(plain.ledger).known(Kind.EXECUTABLES) == {}
    assert tree(beyond) == before
