"""The reader of entries tells sizes and times as the file system has them."""

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from jcache.layout import Kind, Root
from jcache.store.listing import Listing, read_listing
from tests.helpers.entries import DAY, NOW, SECOND, add, key
from tests.helpers.stores import Memory


def read(directory: Path) -> Listing:
    return read_listing(Kind.EXECUTABLES, directory)


def test_what_is_read_of_an_entry(plain: Root) -> None:
    """An entry has the size and time of its file, and the recency in its sidecar, else its file's time."""
    add(plain.path, key(1), 10, written_ns=NOW)
    add(plain.path, key(2), 20, written_ns=NOW, used_ns=NOW + DAY)
    one, two = sorted(read(plain.path), key=lambda e: e.bytes)
    assert (one.key, one.bytes, one.created_ns, one.recency_ns, one.sidecar) == (key(1), 10, NOW, NOW, False)
    assert (two.key, two.bytes, two.created_ns, two.recency_ns, two.sidecar) == (key(2), 20, NOW, NOW + DAY, True)


@pytest.mark.parametrize("sidecar", [b"", b"short", b"too long for it", b"\xff" * 8])
def test_a_damaged_sidecar_is_a_sidecar_that_says_nothing(plain: Root, sidecar: bytes) -> None:
    """The file's own time counts instead."""
    add(plain.path, key(1), written_ns=NOW)
    (plain.path / f"{key(1)}-atime").write_bytes(sidecar)
    (entry,) = read(plain.path)
    assert (entry.recency_ns, entry.sidecar) == (NOW, True)


@pytest.mark.parametrize("time_ns", [-5 * SECOND, 2**63 + 10 * SECOND])
def test_times_beyond_64_bits(plain: Root, time_ns: int) -> None:
    """A file from before 1970 or after 2262 is listed with the nearest time that we keep."""
    path = add(plain.path, key(1))
    os.utime(path, ns=(time_ns, time_ns))
    (entry,) = read(plain.path)
    assert entry.created_ns == (0 if time_ns < 0 else min(path.stat().st_mtime_ns, 2**63 - 1))


@pytest.mark.parametrize("what", ["directory", "FIFO", "link"])
def test_a_sidecar_that_is_no_file(plain: Root, beyond: Path, what: str) -> None:
    """The entry is listed with its file's own time, and the other thing is not opened."""
    add(plain.path, key(1), written_ns=NOW)
    path = plain.path / f"{key(1)}-atime"
    match what:
        case "directory":
            path.mkdir()
        case "FIFO":
            os.mkfifo(path)
        case "link":
            path.symlink_to(beyond / "precious")
    (entry,) = read(plain.path)
    assert entry.recency_ns == NOW


def test_an_entry_that_vanishes_between_listing_and_stat(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that vanishes during the listing is left out without an error."""
    for i in range(4):
        add(plain.path, key(i), used_ns=NOW)
    items = list(os.scandir(plain.path))
    (plain.path / f"{key(1)}-cache").unlink()
    (plain.path / f"{key(2)}-atime").unlink()
    monkeypatch.setattr(os, "scandir", lambda _: nullcontext(iter(items)))
    found = {e.key: e.sidecar for e in read(plain.path)}
    assert found == {key(0): True, key(2): False, key(3): True}


def test_an_entry_that_is_being_written(plain: Root, memory: Memory) -> None:
    """JAX writes in place, so the size of a young entry is read again, even if no name changes."""
    path = add(plain.path, key(1), 10)
    os.utime(plain.path, ns=(NOW, NOW))
    for size in (20, 30):
        assert read_listing(Kind.EXECUTABLES, plain.path, memory).bytes == size - 10
        path.write_bytes(b"x" * size)
    assert read_listing(Kind.EXECUTABLES, plain.path, memory).bytes == 30


def test_a_sidecar_that_is_being_written(plain: Root, memory: Memory) -> None:
    """JAX empties a sidecar before it fills it: one read in between is read again, though its time is the same."""
    add(plain.path, key(1), written_ns=NOW, used_ns=0)
    path = plain.path / f"{key(1)}-atime"
    path.write_bytes(b"")
    then = path.stat().st_mtime_ns
    os.utime(plain.path, ns=(NOW, NOW))
    assert [e.recency_ns for e in read_listing(Kind.EXECUTABLES, plain.path, memory)] == [NOW]
    path.write_bytes((NOW + DAY).to_bytes(8, "little"))
    os.utime(path, ns=(then, then))
    assert [e.recency_ns for e in read_listing(Kind.EXECUTABLES, plain.path, memory)] == [NOW + DAY]
