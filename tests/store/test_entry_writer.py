"""A put stores a whole entry, never over another one, and within the bound."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from jcache import clock
from jcache.errors import CannotWrite, Locked
from jcache.layout import Root
from jcache.store import files, lru_index
from jcache.store.put_result import Outcome
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.entries import HOLD_LOCK, NOW, add, key, process, recency_of
from tests.helpers.stores import EXECUTABLES, bounded, shelf


class Scans:
    """How often a directory was read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("listdir", "scandir"):
            monkeypatch.setattr(os, name, self._counting(getattr(os, name)))

    def _counting(self, real: object) -> object:
        def counting(*arguments: object) -> object:
            self.count += 1
            return real(*arguments)  # type: ignore[operator]

        return counting


def test_a_key_is_never_overwritten(store: Store) -> None:
    """Equal keys mean equal programs: the entry that is there stays, and so does its recency."""
    add(store.root.path, key(1), b"first", used_ns=NOW)
    assert store.put(EXECUTABLES, key(1), b"second") is Outcome.PRESENT
    assert bounded(store.root, 100).put(EXECUTABLES, key(1), b"second") is Outcome.PRESENT
    assert (store.root.path / f"{key(1)}-cache").read_bytes() == b"first"
    assert recency_of(store.root.path, key(1)) == NOW


def test_an_entry_that_comes_during_a_put_stays(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the key is taken once a bounded put has the lock, the existing entry stays, and nothing of the new
    one is left.
    """
    real = files.fill

    def fill(temporary: str, data: bytes, *, directory: int) -> int:
        monkeypatch.setattr(files, "fill", real)
        with bounded(plain, 1000) as other:
            assert other.put(EXECUTABLES, key(1), b"first") is Outcome.STORED
        return real(temporary, data, directory=directory)

    monkeypatch.setattr(files, "fill", fill)
    with bounded(plain, 1000) as store:
        assert store.put(EXECUTABLES, key(1), b"second") is Outcome.PRESENT
    assert (plain.path / f"{key(1)}-cache").read_bytes() == b"first"
    assert not list(plain.path.glob(".jcache-tmp-*"))


def test_an_eviction_during_an_unbounded_put_takes_no_sidecar(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a bounded process evicts the old entry during an unbounded put, the new entry still has its sidecar."""
    real = os.replace

    def replace(temporary: Path, path: Path) -> None:
        path.with_name(f"{key(1)}-atime").unlink()
        real(temporary, path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        assert store.put(EXECUTABLES, key(1), b"x") is Outcome.STORED
    (entry,) = store.entries()
    assert entry.sidecar


def test_a_root_that_cannot_be_written(beyond: Path) -> None:
    """A put reports that the directory cannot be made."""
    store = Store(Root(beyond / "precious", plain=False))
    with pytest.raises(CannotWrite, match="Cannot store"):
        store.put(EXECUTABLES, key(1), b"x")


@pytest.mark.parametrize("bound", [None, 10**6])
def test_a_full_disk(tmp_path: Path, bound: int | None) -> None:
    """Data that do not fit are refused with the reason, nothing of them is left, and existing entries are complete."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        with Store(create_root(place / "root", plain=True), max_bytes=bound) as store:
            assert store.put(EXECUTABLES, key(1), b"x" * 100_000) is Outcome.STORED
            with pytest.raises(CannotWrite, match="no space left"):
                store.put(EXECUTABLES, key(2), b"x" * 200_000)
            assert shelf(store.root) == {key(1): 100_000}
            assert not list(store.root.path.glob(".jcache-tmp-*"))
            assert store.put(EXECUTABLES, key(3), b"x" * 10) is Outcome.STORED
            assert store.maintenance.remove(store.entries()).removed
            assert store.put(EXECUTABLES, key(2), b"x" * 200_000) is Outcome.STORED
    finally:
        subprocess.run(["umount", place], check=True)


def test_what_is_larger_than_the_bound_is_not_stored(plain: Root) -> None:
    """An entry larger than the bound is not stored, and nothing is evicted for it."""
    add(plain.path, key(1), 100, used_ns=NOW)
    store = bounded(plain, 100)
    assert store.put(EXECUTABLES, key(2), b"x" * 101) is Outcome.TOO_LARGE
    assert shelf(plain) == {key(1): 100}
    assert store.put(EXECUTABLES, key(2), b"x" * 100) is Outcome.STORED
    assert shelf(plain) == {key(2): 100}


def test_a_bound_over_an_unbounded_cache(plain: Root) -> None:
    """The first bounded put gives every entry the sidecar that JAX expects, with the file's own time."""
    for i in range(5):
        add(plain.path, key(i), 100, written_ns=NOW + i)
    with bounded(plain, 300) as store:
        store.put(EXECUTABLES, key(9), b"x" * 100)
    assert shelf(plain).keys() == {key(3), key(4), key(9)}
    assert recency_of(plain.path, key(3)) == NOW + 3


@pytest.mark.parametrize("bound", [10**9, 2000], ids=["below the bound", "evicting"])
def test_a_bounded_put_reads_the_directory_once(plain: Root, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While no other process changes the directory, only the first bounded put reads it, whatever this process hits."""
    for i in range(20):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    with bounded(plain, bound) as store:
        scans = Scans(monkeypatch)
        store.put(EXECUTABLES, key(100), b"x" * 100)
        assert scans.count == 1
        for i in range(101, 140):
            assert store.put(EXECUTABLES, key(i), b"x" * 100) is Outcome.STORED
            assert store.put(EXECUTABLES, key(i), b"x" * 100) is Outcome.PRESENT
            assert store.get(EXECUTABLES, key(i)) is not None
            assert store.get(EXECUTABLES, key(999)) is None
        assert scans.count == 1
    assert sum(shelf(plain).values()) == min(bound, 6000)


def test_a_bounded_put_reads_a_directory_that_others_changed(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that another process added or removed counts at the next bounded put."""
    store = bounded(plain, 1000)
    store.put(EXECUTABLES, key(1), b"x" * 100)
    scans = Scans(monkeypatch)
    for i in range(2, 9):
        add(plain.path, key(i), 100, used_ns=time.time_ns())  # within a tick of the clock of our own change
        assert store.put(EXECUTABLES, key(100 + i), b"x" * 10) is Outcome.STORED
        assert scans.count == i - 1
    (plain.path / f"{key(1)}-cache").unlink()
    assert store.put(EXECUTABLES, key(200), b"x" * 200) is Outcome.STORED
    assert shelf(plain).keys() == {key(i) for i in (*range(2, 9), *range(102, 109), 200)}


def test_where_the_directorys_time_is_not_ours_to_set(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the directory's time cannot be set, the directory is read again after a minute."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "utime", refuse)
    store = bounded(plain, 1000)
    store.put(EXECUTABLES, key(1), b"x" * 100)
    scans = Scans(monkeypatch)
    store.put(EXECUTABLES, key(2), b"x" * 100)
    assert scans.count == 0
    later = clock.monotonic() + lru_index.REREAD_AFTER_S
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    store.put(EXECUTABLES, key(3), b"x" * 100)
    assert scans.count == 1


def test_a_held_lock_stops_a_bounded_put(plain: Root) -> None:
    """A held lock makes a bounded put raise `Locked`, and nothing of the entry is left."""
    with process(HOLD_LOCK, plain.path):
        store = Store(plain, max_bytes=1000, lock_timeout=0.05)
        with pytest.raises(Locked):
            store.put(EXECUTABLES, key(1), b"x")
        assert os.listdir(plain.path) == [".lockfile"]


def test_an_unbounded_put_takes_no_lock(plain: Root) -> None:
    """An unbounded put takes no lock, as in JAX."""
    with process(HOLD_LOCK, plain.path):
        assert Store(plain, lock_timeout=0).put(EXECUTABLES, key(1), b"x") is Outcome.STORED
