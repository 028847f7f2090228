"""The ledger's file under everything that happens to files."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jcache.entry import Columns, Snapshot
from jcache.errors import LedgerUnavailable
from jcache.layout import Kind
from jcache.store import sqlite
from jcache.store.ledger import Known
from tests.helpers.entries import key, mounted_read_only, process, tree
from tests.helpers.stores import open_ledger

PINS = {(Kind.EXECUTABLES, key(1))}
HOLD = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.readline()
"""
DIE_WRITING = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
database.execute("UPDATE entries SET pinned_ns = 77, digest = hex(randomblob(64))")
os.kill(os.getpid(), 9)
"""
WRITE = """
import sys
from pathlib import Path
from jcache.layout import Kind
from jcache.store.ledger import Known, Ledger
for i in range(30):
    ledger = Ledger(Path(sys.argv[1]), busy_timeout=60)
    own = Known(Kind.EXECUTABLES, f"jit_{sys.argv[2]}-{i:064x}", hits=1)
    ledger.record([own, Known(Kind.TRACES, "jit_f-" + "0" * 64, hits=1)])
    ledger.close()
"""


def drop_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript("DROP TABLE entries; DROP TABLE runs")


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def scribble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:-4096] = bytes((i * 7919) % 251 for i in range(len(data) - 8192))
    path.write_bytes(data)


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "below").touch()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": truncate,
    "garbage within": scribble,
    "garbage": lambda path: path.write_bytes(os.urandom(9000)),
    "a text file": lambda path: path.write_text("Dear diary\n" * 1000),
    "without tables": drop_tables,
    "a directory": make_directory,
}


def execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "without tables"])
def test_damage_is_said_and_begun_anew(path: Path, damage: str) -> None:
    """Readers report damage and change nothing; the next writer sets the ledger aside and makes a new one."""
    DAMAGE[damage](path)
    before = tree(path.parent)
    with pytest.raises(LedgerUnavailable, match="it is damaged; the next command that writes") as caught:
        open_ledger(path).known(Kind.EXECUTABLES)
    assert caught.value.lost
    assert tree(path.parent) == before
    open_ledger(path).record([Known(Kind.EXECUTABLES, key(7), pinned_ns=3)])
    assert open_ledger(path).pins() == {(Kind.EXECUTABLES, key(7))}
    (aside,) = path.parent.glob("ledger.sqlite3.damaged-*")
    assert aside.is_dir() is (damage == "a directory")


def test_a_ledger_without_its_tables_is_damaged(path: Path) -> None:
    """The right version with the wrong content is no ledger."""
    execute(path, "DROP TABLE entries")
    open_ledger(path).record([Known(Kind.EXECUTABLES, key(7))])
    assert open_ledger(path).known(Kind.EXECUTABLES).keys() == {key(7)}


def test_an_open_ledger_that_gets_damaged(path: Path) -> None:
    """A writer whose open ledger gets damaged makes a new one."""
    ledger = open_ledger(path)
    ledger.record([Known(Kind.EXECUTABLES, key(7))])
    scribble(path)
    ledger.record(Known(Kind.EXECUTABLES, key(i)) for i in range(2000, 2100))
    assert len(ledger.known(Kind.EXECUTABLES)) == 100


@pytest.mark.parametrize("data", [b"", b"x"])
def test_an_empty_file_is_begun(path: Path, data: bytes) -> None:
    """An empty file of a writer that was stopped early is filled by the next writer."""
    path.write_bytes(data)
    with pytest.raises(LedgerUnavailable) as caught:
        open_ledger(path).pins()
    assert caught.value.lost
    open_ledger(path).record([Known(Kind.EXECUTABLES, key(7))])
    assert open_ledger(path).known(Kind.EXECUTABLES).keys() == {key(7)}


@pytest.mark.parametrize("offset", range(40, 100, 4))
def test_a_damaged_header_is_damage(path: Path, offset: int) -> None:
    """A wrong number in the header is damage or harmless, and never taken for a later version."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xa5\x5a\xa5\x5a")
    lost = None
    try:
        found = open_ledger(path).pins()
    except LedgerUnavailable as error:
        found, lost = set(), error.lost
    assert lost or found == PINS


def test_a_newer_ledger_is_left_alone(path: Path) -> None:
    """A ledger of a later version is neither read, changed nor set aside, and may hold pins."""
    execute(path, "PRAGMA user_version = 99")
    before = tree(path.parent)
    with pytest.raises(LedgerUnavailable, match="upgrade jcache") as caught:
        open_ledger(path).pins()
    assert not caught.value.lost
    with pytest.raises(LedgerUnavailable, match="upgrade jcache"):
        open_ledger(path).record([Known(Kind.EXECUTABLES, key(7))])
    assert tree(path.parent) == before


def test_a_busy_ledger_can_be_read(path: Path) -> None:
    """While another process locks the ledger, reads return what is on the disk, and writes are refused."""
    with process(HOLD, path):
        ledger = open_ledger(path)
        assert ledger.pins() == PINS
        assert len(ledger.known(Kind.EXECUTABLES)) == 500
        with pytest.raises(LedgerUnavailable, match="locked") as caught:
            ledger.record([Known(Kind.EXECUTABLES, key(7))])
        assert not caught.value.lost
    ledger.record([Known(Kind.EXECUTABLES, key(999))])
    assert len(ledger.known(Kind.EXECUTABLES)) == 501


def test_a_killed_writer_changes_nothing(path: Path) -> None:
    """The next process, even a reader, rolls back the transaction of a killed writer."""
    done = subprocess.run([sys.executable, "-c", DIE_WRITING, path], check=False)
    assert done.returncode == -9
    assert path.with_name(path.name + "-journal").stat().st_size > 0
    assert open_ledger(path).pins() == PINS
    assert {known.digest for known in open_ledger(path).known(Kind.EXECUTABLES).values()} == {"d" * 64}


def test_a_journal_goes_with_its_ledger(path: Path) -> None:
    """The journal of a ledger that was set aside is not rolled back into the new one."""
    subprocess.run([sys.executable, "-c", DIE_WRITING, path], check=False)
    make_directory(path)
    open_ledger(path).record([Known(Kind.EXECUTABLES, key(7), pinned_ns=3)])
    assert open_ledger(path).known(Kind.EXECUTABLES).keys() == {key(7)}
    open_ledger(path).check()


@pytest.mark.parametrize("name", ["per cent % and ?query#hash", "öäü", "a\nb"])
def test_any_directory_holds_a_ledger(tmp_path: Path, name: str) -> None:
    """Characters that mean something in a URI are just characters."""
    ledger = open_ledger(tmp_path / name / "ledger.sqlite3")
    ledger.record([Known(Kind.EXECUTABLES, key(1), pinned_ns=1)])
    ledger.close()
    assert open_ledger(tmp_path / name / "ledger.sqlite3").pins() == PINS
    assert os.listdir(tmp_path) == [name]


def test_a_directory_with_invalid_utf_8(tmp_path: Path) -> None:
    """A path that is no valid UTF-8 works."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")) / "ledger.sqlite3"
    open_ledger(path).record([Known(Kind.EXECUTABLES, key(1), pinned_ns=1)])
    assert open_ledger(path).pins() == PINS


@pytest.fixture
def read_only(path: Path) -> Iterator[Path]:
    """Return the ledger on a file system that is mounted read-only, which restricts root as well."""
    with mounted_read_only(path.parent):
        yield path


def test_a_read_only_ledger_is_read(read_only: Path) -> None:
    """A read-only ledger can be read, and a write reports the error."""
    ledger = open_ledger(read_only)
    assert ledger.pins() == PINS
    with pytest.raises(LedgerUnavailable, match="Cannot write the ledger"):
        ledger.record([Known(Kind.EXECUTABLES, key(7))])
    ledger.save_snapshot("/x", Snapshot(1, 2, Columns.empty(), []))
    assert ledger.pins() == PINS
    ledger.close()


def test_a_full_disk(tmp_path: Path) -> None:
    """A record that does not fit on the disk is refused, and the others stay."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        ledger = open_ledger(place / "ledger.sqlite3")
        ledger.record([Known(Kind.EXECUTABLES, key(1), pinned_ns=1)])
        with pytest.raises(LedgerUnavailable, match="Cannot write the ledger"):
            ledger.record(Known(Kind.EXECUTABLES, key(i), digest="d" * 64) for i in range(5000))
        assert ledger.pins() == PINS
        ledger.close()
        assert ledger.pins() == PINS
        ledger.close()
    finally:
        subprocess.run(["umount", place], check=True)


def test_two_who_make_the_ledger_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If two processes make the ledger at once, the second one writes to that of the first."""
    path, real = tmp_path / ".jcache" / "ledger.sqlite3", sqlite._create

    def create(connection: sqlite3.Connection, version: int, schema: str) -> None:
        monkeypatch.setattr(sqlite, "_create", real)
        open_ledger(path).record([Known(Kind.EXECUTABLES, key(1), pinned_ns=1)])
        real(connection, version, schema)

    monkeypatch.setattr(sqlite, "_create", create)
    open_ledger(path).record([Known(Kind.EXECUTABLES, key(2))])
    assert open_ledger(path).known(Kind.EXECUTABLES).keys() == {key(1), key(2)}
    assert open_ledger(path).pins() == PINS


def test_many_writers(tmp_path: Path) -> None:
    """Processes that make and write one ledger at the same time lose nothing."""
    path = tmp_path / "state" / "ledger.sqlite3"
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, path, str(n)]) for n in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    ledger = open_ledger(path)
    assert len(ledger.known(Kind.EXECUTABLES)) == 120
    assert ledger.known(Kind.TRACES)["jit_f-" + "0" * 64].hits == 120
