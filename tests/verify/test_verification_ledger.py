"""A verification records its results in the ledger, and recorded facts count even after the root was moved."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from jcache.findings import Damage
from jcache.formats.digest import digest
from jcache.layout import Kind, Root
from jcache.store import listing
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify import verification
from jcache.verify.checks import CHECKS_VERSION
from jcache.verify.result import VerifyRequest
from tests.helpers.entries import add, executable, key, process
from tests.helpers.waiting import tick
from tests.verify.test_verification import (
    EXECUTABLES,
    OLD,
    damages,
    fill,
    known,
    no_pause as no_pause,
    root as root,
    verify,
)


def test_what_is_learnt_is_recorded(root: Root) -> None:
    """The digest, when it was taken, the version of the checks passed and when it was verified."""
    path = root.directory(EXECUTABLES) / f"{key(1)}-cache"
    verify(root, VerifyRequest(quick=True))
    about = known(root)[key(1)]
    assert (about.digest, about.bytes) == (digest(path.read_bytes()), path.stat().st_size)
    assert about.checks is None and about.verified_ns and about.digest_ns
    verify(root)
    assert known(root)[key(1)].checks == CHECKS_VERSION
    assert known(root, Kind.TRACES)[key(9)].checks == CHECKS_VERSION


def test_what_a_put_recorded_is_what_counts(native: Root) -> None:
    """An entry that changed between its put and the first verify is found."""
    with Store(native) as store:
        store.put(EXECUTABLES, key(1), executable(1))
    (native.directory(EXECUTABLES) / f"{key(1)}-cache").write_bytes(executable(2))
    assert damages(verify(native)) == [Damage.CHANGED]
    assert damages(verify(native)) == [Damage.CHANGED]  # and is not taken for granted after that


def test_an_entry_that_was_removed_and_written_anew_is_sound(plain: Root) -> None:
    """Compilation is not deterministic: other bytes in a new file are no damage, and are the ones on record then."""
    fill(plain)
    verify(plain)
    (plain.path / f"{key(1)}-cache").unlink()
    tick()
    add(plain.path, key(1), executable(99), written_ns=OLD)
    result = verify(plain)
    assert (damages(result), result.rewritten, result.unchanged) == ([], 1, 2)
    add(plain.path, key(1), executable(100), written_ns=OLD)
    assert damages(verify(plain)) == [Damage.CHANGED]


@pytest.mark.parametrize("copying", ["copytree", "rename"])
def test_digests_count_in_a_copied_root(plain: Root, copying: str) -> None:
    """In a root copied with its ledger, every file is new, but a changed one is still found."""
    fill(plain)
    verify(plain)
    tick()
    path = plain.path.with_name("copy")
    if copying == "copytree":
        shutil.copytree(plain.path, path)
    else:
        plain.path.rename(path)
    copy = Root(path, plain=True)
    result = verify(copy)
    assert (damages(result), result.rewritten, result.unchanged) == ([], 0, 3)
    add(path, key(1), executable(100), written_ns=OLD)
    assert damages(verify(copy)) == [Damage.CHANGED]


def test_an_interruption_keeps_what_was_learnt(plain: Root) -> None:
    """After an interruption, the next run continues with the remaining entries."""
    fill(plain, 200)

    def interrupt(_done: int, _all: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify(plain, progress=interrupt)
    assert len(known(plain)) == 128
    assert verify(plain).unchanged == 128


@contextmanager
def kept_locked(ledger: Path) -> Iterator[None]:
    """Another process that does not let go of the ledger."""
    code = (
        "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('BEGIN EXCLUSIVE');"
        "print(flush=True); sys.stdin.readline()"
    )
    with process(code, ledger):
        yield


def test_a_busy_ledger_hinders_nothing(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy ledger still counts; a notice, and no finding, says that nothing could be recorded."""
    fill(plain)
    verify(plain)
    add(plain.path, key(1), executable(100), written_ns=OLD)
    with kept_locked(plain.ledger), Store(plain) as store:
        monkeypatch.setattr(store.ledger, "_busy_timeout", 0.1)
        result = verification.verify(store, VerifyRequest())
        assert damages(result) == [Damage.CHANGED] and store.notices


def test_a_damaged_ledger_is_a_finding_and_stays(plain: Root) -> None:
    """Entries are checked without a damaged ledger, and nothing replaces it, since its pins may be recoverable."""
    fill(plain)
    add(plain.path, key(1), b"junk", written_ns=OLD)
    plain.state.mkdir()
    plain.ledger.write_bytes(b"no ledger at all " * 999)
    before = plain.ledger.read_bytes()
    assert sorted(damages(verify(plain))) == [Damage.CODEC, Damage.LEDGER, Damage.PINS]
    assert plain.ledger.read_bytes() == before
    assert {path.name for path in plain.state.iterdir()} == {plain.ledger.name, "verified.json"}


def test_a_damaged_ledger_stays_in_a_large_root_too(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large root, too, plain verify finds a damaged ledger and leaves it unchanged."""
    monkeypatch.setattr(listing, "SNAPSHOT_FROM", 100)
    for i in range(101):
        (plain.path / f"jit_f-{i:064x}-cache").touch()
    plain.state.mkdir()
    plain.ledger.write_bytes(b"no ledger at all " * 999)
    before = plain.ledger.read_bytes()
    assert Damage.LEDGER in damages(verify(plain, VerifyRequest(quick=True, max_seconds=0)))
    assert plain.ledger.read_bytes() == before
    assert {path.name for path in plain.state.iterdir()} == {plain.ledger.name, "verified.json"}


def test_a_legacy_entry_and_one_of_today_under_one_key_are_two(plain: Root) -> None:
    """A legacy entry is not checked, and an entry with the same key is not damaged for having other bytes."""
    (add(plain.path, key(1), executable(1), written_ns=OLD).with_name(key(1))).write_bytes(executable(2))
    assert damages(verify(plain)) == damages(verify(plain)) == []


def test_what_jax_rewrote_while_a_program_ran_is_sound(plain: Root) -> None:
    """A digest belongs to the time of the put: a file that JAX wrote after it, before the store closed, is a
    new one.
    """
    with Store(plain) as store:
        store.put(EXECUTABLES, key(1), executable(1))
        (plain.path / f"{key(1)}-cache").unlink()
        tick()
        add(plain.path, key(1), executable(2), written_ns=OLD)
        tick()
    assert damages(verify(plain)) == []


@pytest.mark.parametrize(
    "table",
    [
        "pinned",
        "runs",
        "snapshots",
    ],
)
def test_damage_anywhere_in_the_ledger_is_found(plain: Root, table: str) -> None:
    """Damage in the ledger is found even where reading entries does not touch it, and plain verify does not
    replace it.
    """
    fill(plain)
    with Store(plain) as store:
        store.ledger.record([Known(EXECUTABLES, key(1), pinned_ns=1)])
        store.ledger.add_run("run", 1, "{}")
    with closing(sqlite3.connect(plain.ledger)) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    with plain.ledger.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))
    assert damages(verify(plain)) == [Damage.LEDGER]
    assert not list(plain.state.glob("*.damaged-*"))
