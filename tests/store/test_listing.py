"""Reading directories of entries, with and without snapshots."""

import os
import random
import socket
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

from jcache.entry import Neighbour
from jcache.formats.envelope import Codec
from jcache.layout import FileKind, Kind, Root
from jcache.store import listing as module
from jcache.store.access_times import UNKNOWN, AccessTimes
from jcache.store.ledger import Ledger
from jcache.store.listing import Listing, read_listing
from tests.helpers.entries import DAY, NOW, SECOND, add, digits, executable, key, tree
from tests.helpers.stores import Memory

AUTOTUNE = "xla_gpu_per_fusion_autotune_cache_dir"


def read(directory: Path) -> Listing:
    return read_listing(Kind.EXECUTABLES, directory)


def rows(listing: Listing) -> list[tuple[object, ...]]:
    return sorted(tuple(e) for e in listing)


def test_totals(plain: Root) -> None:
    """A listing knows how many entries, bytes and sidecars there are."""
    add(plain.path, key(1), 10, used_ns=NOW)
    add(plain.path, key(2), 0)
    listing = read(plain.path)
    assert (len(listing), listing.bytes, listing.sidecars) == (2, 10, 1)


def test_nothing_there_is_empty(tmp_path: Path, beyond: Path) -> None:
    """A directory that does not exist, or is a file, has no entries."""
    assert len(read(tmp_path / "missing")) == len(read(beyond / "precious")) == 0


def test_links_to_directories(plain: Root, tmp_path: Path) -> None:
    """A root may be a link; the directories within one are followed nowhere."""
    add(plain.path, key(1))
    add(plain.path / "there", key(2))
    (tmp_path / "link").symlink_to(plain.path)
    (plain.path / "traces-v1").symlink_to(plain.path / "there")
    root = Root(tmp_path / "link", plain=True)
    assert len(read(root.path)) == len(read_listing(Kind.EXECUTABLES, root.path, root=root)) == 1
    assert len(read_listing(Kind.TRACES, root.directory(Kind.TRACES), root=root)) == 0


def test_what_lies_beside_the_entries(plain: Root, beyond: Path) -> None:
    """Legacy entries, XLA's sub-caches, orphaned sidecars, temporary and unknown files are distinguished and
    measured.
    """
    add(plain.path, key(1), 10, used_ns=NOW)
    (plain.path / digits(2)).write_bytes(executable(2, Codec.ZLIB))
    (plain.path / key(3)).write_bytes(executable(3))
    (plain.path / f"sha256-{digits(4)}").write_bytes(b"a blob of somebody else's")
    (plain.path / AUTOTUNE / "deep").mkdir(parents=True)
    (plain.path / AUTOTUNE / "deep" / "a.pb").write_bytes(b"1234")
    (plain.path / "xla_gpu_kernel_cache_file").write_bytes(b"12345")
    (plain.path / f"{key(4)}-atime").write_bytes(b"12345678")
    (plain.path / f"_temp_{key(5)}").write_bytes(b"1")
    (plain.path / ".jcache-tmp-12").write_bytes(b"12")
    (plain.path / "notes.txt").write_bytes(b"123")
    (plain.path / "model-cache").write_bytes(b"1234")
    for ours in (".lockfile", "CACHEDIR.TAG", ".jcache"):
        (plain.path / ours).touch()
    listing = read(plain.path)
    assert [e.key for e in listing] == [key(1)]
    assert sorted((e.key, e.bytes, e.legacy) for e in listing.legacy) == sorted(
        [(digits(2), len(executable(2, Codec.ZLIB)), True), (key(3), len(executable(3)), True)]
    )
    assert sorted(listing.neighbours) == sorted(
        [
            Neighbour(AUTOTUNE, FileKind.AUTOTUNE, 1, 4),
            Neighbour(f"sha256-{digits(4)}", FileKind.UNKNOWN, 1, 25),
            Neighbour("xla_gpu_kernel_cache_file", FileKind.KERNELS, 1, 5),
            Neighbour(f"{key(4)}-atime", FileKind.SIDECAR, 1, 8),
            Neighbour(f"_temp_{key(5)}", FileKind.TEMPORARY, 1, 1),
            Neighbour(".jcache-tmp-12", FileKind.TEMPORARY, 1, 2),
            Neighbour("notes.txt", FileKind.UNKNOWN, 1, 3),
            Neighbour("model-cache", FileKind.UNKNOWN, 1, 4),
        ]
    )


@pytest.mark.parametrize("name", [f"{key(1)}-cache", key(1), AUTOTUNE, "notes.txt", f"{key(1)}-atime"])
@pytest.mark.parametrize("what", ["link", "dangling link", "directory", "FIFO", "socket"])
def test_what_is_no_regular_file(
    plain: Root, beyond: Path, name: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link, directory or FIFO is never followed, opened or entered; it is listed as unknown, with no bytes."""
    if (name, what) == (AUTOTUNE, "directory"):
        pytest.skip("which is what it should be")
    monkeypatch.chdir(plain.path)
    path = plain.path / name
    match what:
        case "link":
            path.symlink_to(beyond / "precious")
        case "dangling link":
            path.symlink_to(beyond / "nothing")
        case "directory":
            (path / "below").mkdir(parents=True)
        case "FIFO":
            os.mkfifo(name)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(name)
    listing = read(plain.path)
    assert (len(listing), listing.legacy) == (0, [])
    (neighbour,) = listing.neighbours
    assert (neighbour.name, neighbour.files, neighbour.bytes) == (name, 1, 0)


def test_odd_names(plain: Root, beyond: Path) -> None:
    """Names with spaces and 184 characters are entries; line feeds and invalid UTF-8 are listed and nothing else."""
    for name in ("with space", "n" * 184, "größe"):
        add(plain.path, key(1, name))
    directory = os.fsencode(plain.path)
    for odd in (b"jit_\nf-" + digits(2).encode() + b"-cache", b"jit_\xff-" + digits(3).encode() + b"-cache"):
        with open(directory + b"/" + odd, "wb") as file:
            file.write(b"12")
    listing = read(plain.path)
    assert sorted(e.name for e in listing) == sorted(["with space", "n" * 184, "größe"])
    assert [(n.member, n.bytes) for n in listing.neighbours] == [(FileKind.UNKNOWN, 2)] * 2


# -- snapshots


class World:
    """A directory in which things happen, each of them a minute after the last one."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.directory = directory
        self.chance = chance
        self.now = time.time_ns() - 10 * DAY
        self.number = 0

    def set_time(self, path: Path) -> None:
        os.utime(path, ns=(self.now, self.now), follow_symlinks=False)

    def some(self) -> str:
        keys = sorted(p.name.removesuffix("-cache") for p in self.directory.glob("*-cache"))
        return self.chance.choice(keys) if keys else key(0)

    def write(self, a_key: str) -> None:
        path = self.directory / f"{a_key}-cache"
        if path.is_dir() or path.is_symlink():
            return
        path.write_bytes(b"x" * self.chance.randrange(1000))
        self.set_time(path)

    def add(self) -> None:
        self.number += 1
        self.write(key(self.number))

    def rewrite(self) -> None:
        """Removed, or replaced, and written again with another size and time."""
        a_key = self.some()
        self.remove(a_key)
        self.write(a_key)

    def remove(self, a_key: str | None = None) -> None:
        path = self.directory / f"{a_key or self.some()}-cache"
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    def hit(self) -> None:
        path = self.directory / f"{self.some()}-atime"
        path.write_bytes((self.now + self.chance.randrange(DAY)).to_bytes(8, "little"))
        self.set_time(path)

    def damage_sidecar(self) -> None:
        path = self.directory / f"{self.some()}-atime"
        path.write_bytes(b"?" * self.chance.choice([0, 3, 9]))
        self.set_time(path)

    def lose_sidecar(self) -> None:
        (self.directory / f"{self.some()}-atime").unlink(missing_ok=True)

    def replace_by_directory(self) -> None:
        a_key = self.some()
        self.remove(a_key)
        (self.directory / f"{a_key}-cache").mkdir()

    def replace_by_link(self) -> None:
        a_key = self.some()
        self.remove(a_key)
        (self.directory / f"{a_key}-cache").symlink_to("nowhere")

    def legacy(self) -> None:
        self.number += 1
        (self.directory / digits(self.number)).write_bytes(executable())

    def nothing(self) -> None:
        pass

    def happen(self) -> None:
        """Something happens; the directory's time becomes the world's if it changed."""
        self.now += 60 * SECOND
        before = os.stat(self.directory).st_mtime_ns
        actions: list[Callable[[], None]] = [
            *[self.add] * 4,
            *[self.rewrite] * 3,
            *[self.hit] * 3,
            self.remove,
            self.damage_sidecar,
            self.lose_sidecar,
            self.replace_by_directory,
            self.replace_by_link,
            self.legacy,
            self.nothing,
        ]
        self.chance.choice(actions)()
        if os.stat(self.directory).st_mtime_ns != before:
            self.set_time(self.directory)


def contents(listing: Listing) -> tuple[object, ...]:
    return (
        rows(listing),
        sorted(listing.legacy),
        sorted(listing.neighbours),
        len(listing),
        listing.bytes,
        listing.sidecars,
    )


@pytest.mark.full
def test_a_snapshot_changes_no_number(plain: Root, memory: Memory, chance: random.Random) -> None:
    """Whatever happens to entries, sidecars and names, reading with a snapshot gives the same as without."""
    world = World(plain.path, chance)
    for _ in range(500):
        for _ in range(chance.randrange(3)):
            world.happen()
        with_snapshot = read_listing(Kind.EXECUTABLES, plain.path, memory)
        assert contents(with_snapshot) == contents(read(plain.path))
    assert memory.saved > 50


def test_an_unchanged_directory_is_not_read_again(plain: Root, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a snapshot and an unchanged directory, only sidecars are read."""
    for i in range(5):
        add(plain.path, key(i), written_ns=NOW)
    os.utime(plain.path, ns=(NOW, NOW))
    first = contents(read_listing(Kind.EXECUTABLES, plain.path, memory))
    monkeypatch.setattr(os, "listdir", pytest.fail)
    monkeypatch.setattr(os, "lstat", pytest.fail)
    assert contents(read_listing(Kind.EXECUTABLES, plain.path, memory)) == first


def test_an_entry_that_comes_within_a_tick(plain: Root, memory: Memory) -> None:
    """An entry written right after a listing is in the next one, even if the directory's time is the same."""
    add(plain.path, key(1))
    then = plain.path.stat().st_mtime_ns
    assert [e.key for e in read_listing(Kind.EXECUTABLES, plain.path, memory)] == [key(1)]
    add(plain.path, key(2))
    os.utime(plain.path, ns=(then, then))
    listing = read_listing(Kind.EXECUTABLES, plain.path, memory)
    assert sorted(e.key for e in listing) == sorted([key(1), key(2)])


def test_small_directories_need_no_snapshot(plain: Root, tmp_path: Path) -> None:
    """Below 10,000 entries nothing is written anywhere."""
    add(plain.path, key(1), written_ns=NOW)
    before = tree(tmp_path)
    read_listing(Kind.EXECUTABLES, plain.path, Ledger(tmp_path / "ledger.sqlite3"))
    assert tree(tmp_path) == before


def test_keeping_the_first_snapshot_does_not_disturb_it(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making .jcache in a JAX directory is no change of its entries: the next reading is a quick one."""
    monkeypatch.setattr(module, "SNAPSHOT_FROM", 0)
    add(plain.path, key(1), written_ns=NOW)
    os.utime(plain.path, ns=(NOW, NOW))
    ledger = Ledger(plain.ledger)
    read_listing(Kind.EXECUTABLES, plain.path, ledger)
    assert plain.ledger.exists()
    assert os.stat(plain.path).st_mtime_ns == NOW
    ledger.close()


@pytest.mark.parametrize("damage", ["keys", "sizes", "sidecars"])
def test_a_damaged_snapshot_is_none(plain: Root, memory: Memory, damage: str) -> None:
    """Columns that do not fit each other are not believed."""
    import sqlite3

    add(plain.path, key(1), written_ns=NOW)
    os.utime(plain.path, ns=(NOW, NOW))
    before = contents(read_listing(Kind.EXECUTABLES, plain.path, memory))
    memory.ledger.close()
    with sqlite3.connect(memory.ledger._path) as database:
        database.execute(f"UPDATE snapshots SET {damage} = x'00112233'")
    database.close()
    if damage != "keys":
        assert memory.load_snapshot(str(plain.path)) is None
        assert contents(read_listing(Kind.EXECUTABLES, plain.path, memory)) == before


def test_numbers_are_those_of_the_entries(plain: Root) -> None:
    """The columns of a listing say what its entries say, whether sidecars or access times tell of uses."""
    for number in range(4):
        path = add(plain.path, key(number), number, written_ns=NOW, used_ns=NOW + number if number % 2 else None)
        os.utime(path, ns=(NOW + 2 * (number > 1), NOW))
    listing = read(plain.path)
    listing.times = AccessTimes(DAY)
    listing.columns.accessed[:] = array("q", [UNKNOWN, 0, NOW + 2, NOW + 9])
    for name in ("bytes", "created_ns", "recency_ns", "latest_ns"):
        assert list(listing.numbers(name)) == [getattr(entry, name) for entry in listing]
    assert [tuple(Kind)[code] for code in listing.numbers("kind")] == [entry.kind for entry in listing]
    for name in ("pinned", "legacy", "unknown"):
        assert list(listing.rows_with(name)) == [row for row, entry in enumerate(listing) if getattr(entry, name)]
