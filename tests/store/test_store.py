"""The only writer under a root."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jcache import clock
from jcache.entry import Entry
from jcache.errors import CannotWrite, InvalidValue, LedgerUnavailable, Locked, UnknownKey
from jcache.formats.digest import digest
from jcache.layout import Kind, Root
from jcache.store import files, listing, lru_index
from jcache.store.entry_writer import Outcome
from jcache.store.eviction import everything, plan
from jcache.store.ledger import Known, Ledger
from jcache.store.policy import Plan, Policy, Reason, Verdict
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.entries import DAY, HOLD_LOCK, NOW, add, digits, executable, files_of, key, process, recency_of, tree

EXECUTABLES = Kind.EXECUTABLES


@pytest.fixture
def store(plain: Root) -> Iterator[Store]:
    """A store without a bound over an empty JAX directory."""
    with Store(plain, lock_timeout=5) as store:
        yield store


def bounded(root: Root, bound: int) -> Store:
    return Store(root, max_bytes=bound, lock_timeout=60)


def pin(root: Root, *keys: str) -> None:
    with Store(root) as store:
        store.pins.add((EXECUTABLES, k) for k in keys)


def shelf(root: Root) -> dict[str, int]:
    return files_of(root.directory(EXECUTABLES))


# -- single entries


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("bound", [None, 1000])
def test_what_is_put_is_got(tmp_path: Path, kind: Kind, plain: bool, bound: int | None) -> None:
    """An entry of any kind, in any root, with a bound or without, comes back as it was, and has a sidecar."""
    root = create_root(tmp_path / "root", plain=plain)
    with Store(root, max_bytes=bound) as store:
        assert store.get(kind, key(1)) is None
        before = time.time_ns()
        assert store.put(kind, key(1), b"12345", seconds=2.5, origin="test") is Outcome.STORED
        (entry,) = store.entries([kind])
        assert before <= entry.recency_ns <= time.time_ns()
        assert store.get(kind, key(1)) == b"12345"
    assert sorted(p.name for p in root.directory(kind).iterdir() if key(1) in p.name) == [
        f"{key(1)}-atime",
        f"{key(1)}-cache",
    ]
    (entry,) = Store(root).entries()
    assert entry._replace(created_ns=0, recency_ns=0) == Entry(kind, key(1), 5, 0, 0, sidecar=True, seconds=2.5)
    known = Ledger(root.ledger).known(kind)[key(1)]
    assert (known.digest, known.bytes, known.origin) == (digest(b"12345"), 5, "test")


def test_a_key_is_never_overwritten(store: Store) -> None:
    """Equal keys mean equal programs: the entry that is there stays, and so does its recency."""
    add(store.root.path, key(1), b"first", used_ns=NOW)
    assert store.put(EXECUTABLES, key(1), b"second") is Outcome.PRESENT
    assert bounded(store.root, 100).put(EXECUTABLES, key(1), b"second") is Outcome.PRESENT
    assert (store.root.path / f"{key(1)}-cache").read_bytes() == b"first"
    assert recency_of(store.root.path, key(1)) == NOW


def test_an_entry_that_comes_during_a_put_stays(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded put that finds its key taken once it has the lock leaves the entry as it is, and nothing of its own."""
    real = files.fill

    def fill(temporary: str, data: bytes, *, directory: int) -> None:
        monkeypatch.setattr(files, "fill", real)
        with bounded(plain, 1000) as other:
            assert other.put(EXECUTABLES, key(1), b"first") is Outcome.STORED
        real(temporary, data, directory=directory)

    monkeypatch.setattr(files, "fill", fill)
    with bounded(plain, 1000) as store:
        assert store.put(EXECUTABLES, key(1), b"second") is Outcome.PRESENT
    assert (plain.path / f"{key(1)}-cache").read_bytes() == b"first"
    assert not list(plain.path.glob(".jcache-tmp-*"))


def test_an_eviction_during_an_unbounded_put_takes_no_sidecar(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a bounded process evicts what had the key before, the new entry has its sidecar all the same."""
    real = os.replace

    def replace(temporary: Path, path: Path) -> None:
        path.with_name(f"{key(1)}-atime").unlink()
        real(temporary, path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        assert store.put(EXECUTABLES, key(1), b"x") is Outcome.STORED
    (entry,) = store.entries()
    assert entry.sidecar


def test_a_hit_is_a_use(store: Store) -> None:
    """Getting an entry makes it the most recently used one, with or without a sidecar."""
    add(store.root.path, key(1), used_ns=NOW)
    add(store.root.path, key(2), written_ns=NOW)
    before = time.time_ns()
    assert store.get(EXECUTABLES, key(1)) == store.get(EXECUTABLES, key(2)) == b"x" * 100
    assert all(e.recency_ns >= before for e in store.entries())


@pytest.mark.parametrize("bad", ["", "x", f"a/../b-{digits(1)}", f"\n-{digits(1)}", "n" * 185 + f"-{digits(1)}"])
def test_bad_keys_are_refused(store: Store, bad: str) -> None:
    """No key leads out of the directory, and a refused one leaves nothing, however large the data."""
    with pytest.raises(InvalidValue):
        store.get(EXECUTABLES, bad)
    for some in (store, bounded(store.root, 0)):
        with pytest.raises(InvalidValue):
            some.put(EXECUTABLES, bad, b"x")
    assert not list(store.root.path.iterdir())


@pytest.mark.parametrize("what", ["link", "dangling link", "directory", "FIFO", "socket"])
def test_what_only_has_an_entrys_name(store: Store, beyond: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither got, followed, put over, adopted, evicted nor removed, not even by a plan that names it."""
    monkeypatch.chdir(store.root.path)
    name = f"{key(1)}-cache"
    match what:
        case "link":
            os.symlink(beyond / "precious", name)
        case "dangling link":
            os.symlink(beyond / "nothing", name)
        case "directory":
            os.mkdir(name)
        case "FIFO":
            os.mkfifo(name)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(name)
    before = os.lstat(name)
    with pytest.raises(OSError):
        store.get(EXECUTABLES, key(1))
    assert store.put(EXECUTABLES, key(1), b"x") is Outcome.PRESENT
    assert store.entries() == []
    assert store.maintenance.adopt(EXECUTABLES) == store.touch(EXECUTABLES, [key(1)], NOW) == 0
    assert bounded(store.root, 10).put(EXECUTABLES, key(2), b"x" * 10) is Outcome.STORED
    assert bounded(store.root, 10).put(EXECUTABLES, key(3), b"x" * 10) is Outcome.STORED
    removal = store.maintenance.remove([Entry(EXECUTABLES, key(1), 0, 0, 0, sidecar=False)])
    assert [f.reason for f in removal.failures] == ["not a regular file"]
    assert os.lstat(name).st_ino == before.st_ino
    assert os.listdir(store.root.path).count(name) == 1


def test_a_root_that_cannot_be_written(beyond: Path) -> None:
    """Where the directory cannot be made, a put says so."""
    store = Store(Root(beyond / "precious", plain=False))
    with pytest.raises(CannotWrite, match="Cannot store"):
        store.put(EXECUTABLES, key(1), b"x")


@pytest.mark.parametrize("bound", [None, 10**6])
def test_a_full_disk(tmp_path: Path, bound: int | None) -> None:
    """What does not fit is refused with the reason, nothing is left of it, and what was there is whole."""
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


def test_pruning_a_disk_that_has_room_for_no_file(tmp_path: Path) -> None:
    """Where neither lock, ledger nor pins can be made, the first removals make the room for them."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=12", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        root = Root(place / "root", plain=True)
        for number in range(6):
            add(root.path, key(number), 30_000, written_ns=NOW + number)
        with pytest.raises(OSError, match="No space left"):  # noqa: PT012
            for number in range(12):
                (place / f"filler{number}").touch()
        with pytest.raises(OSError, match="No space left"):
            (place / "filler0").write_bytes(bytes(1 << 20))
        with Store(root) as store:
            decided = plan(store.entries(), Policy(keep_last=2), now_ns=NOW + DAY)
            removal = store.maintenance.execute(decided)
        assert len(removal.removed) == 4 and not removal.failures
        assert shelf(root) == {key(4): 30_000, key(5): 30_000}
        assert (root.path / ".lockfile").exists()
    finally:
        subprocess.run(["umount", place], check=True)


def test_touching(store: Store) -> None:
    """Recency only grows; entries that are not there are not counted and get no sidecar."""
    add(store.root.path, key(1), used_ns=NOW)
    add(store.root.path, key(2), used_ns=NOW + DAY)
    add(store.root.path, key(3), written_ns=NOW)
    assert store.touch(EXECUTABLES, [key(i) for i in range(1, 5)], NOW + 5) == 3
    assert [recency_of(store.root.path, key(i)) for i in (1, 2, 3)] == [NOW + 5, NOW + DAY, NOW + 5]
    assert not (store.root.path / f"{key(4)}-atime").exists()


# -- looking


def test_entries_of_all_kinds(store: Store) -> None:
    """All kinds are listed with pins and seconds; legacy entries only if asked for."""
    for kind in Kind:
        add(store.root.directory(kind), key(1), used_ns=NOW)
    (store.root.path / digits(2)).write_bytes(executable())
    store.ledger.record([Known(Kind.TRACES, key(1), seconds=4.0, pinned_ns=1)])
    assert [(e.kind, e.seconds, e.pinned) for e in store.entries()] == [
        (Kind.EXECUTABLES, None, False),
        (Kind.TRACES, 4.0, True),
        (Kind.GRAPHS, None, False),
    ]
    assert [e.key for e in store.entries([EXECUTABLES], legacy=True)] == [key(1), digits(2)]


def test_finding(store: Store) -> None:
    """A key, or an unambiguous beginning of it or of its hash, stands for one entry of any kind."""
    add(store.root.path, key(1))
    add(store.root.path, key(2))
    add(store.root.directory(Kind.TRACES), key(3, "loss"))
    (store.root.path / digits(4)).write_bytes(executable())
    assert store.find(key(1)).key == store.find(digits(1)[:12]).key == key(1)
    assert store.find("loss").kind is Kind.TRACES
    assert store.find(digits(4)[:12]).legacy
    assert store.path(store.find(digits(4))) == store.root.path / digits(4)
    with pytest.raises(UnknownKey, match=r"'jit_step' stands for 2 entries: .*; give more of the key"):
        store.find("jit_step")
    for unknown in ("step", "jit_steps", "-", key(9), "\udcff", "*"):
        with pytest.raises(UnknownKey, match=r"No entry .* has the key or prefix"):
            store.find(unknown)


def test_a_key_that_begins_another(store: Store) -> None:
    """A whole key stands for itself, even if another one begins with it."""
    longer = f"{key(1)}-{digits(2)}"
    add(store.root.path, key(1))
    add(store.root.path, longer)
    assert store.find(key(1)).key == key(1)


# -- the bound


def test_the_least_recently_used_make_room(plain: Root) -> None:
    """A bounded put evicts exactly as many of the least recently used entries as it must."""
    for i in range(10):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    with bounded(plain, 1000) as store:
        assert store.put(EXECUTABLES, key(50), b"x" * 100) is Outcome.STORED
        assert shelf(plain).keys() == {key(i) for i in (*range(1, 10), 50)}
        assert store.put(EXECUTABLES, key(51), b"x" * 101) is Outcome.STORED
        assert shelf(plain).keys() == {key(i) for i in (*range(3, 10), 50, 51)}
    assert sorted(p.name[:-6] for p in plain.path.glob("*-atime")) == sorted(shelf(plain))


def test_what_is_larger_than_the_bound_is_not_stored(plain: Root) -> None:
    """And nothing is evicted for it."""
    add(plain.path, key(1), 100, used_ns=NOW)
    store = bounded(plain, 100)
    assert store.put(EXECUTABLES, key(2), b"x" * 101) is Outcome.TOO_LARGE
    assert shelf(plain) == {key(1): 100}
    assert store.put(EXECUTABLES, key(2), b"x" * 100) is Outcome.STORED
    assert shelf(plain) == {key(2): 100}


def test_pinned_entries_are_not_evicted(plain: Root) -> None:
    """Neither are others, if the pinned ones leave no room anyway: the bound holds, and the entry is not stored."""
    for i in range(4):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    pin(plain, key(0), key(1))
    with bounded(plain, 400) as store:
        assert store.put(EXECUTABLES, key(5), b"x" * 150) is Outcome.STORED
        assert shelf(plain).keys() == {key(0), key(1), key(5)}
        assert store.put(EXECUTABLES, key(6), b"x" * 201) is Outcome.TOO_LARGE
        assert shelf(plain).keys() == {key(0), key(1), key(5)}
        store.pins.remove([(EXECUTABLES, key(0))])
        assert store.put(EXECUTABLES, key(6), b"x" * 201) is Outcome.STORED
        assert shelf(plain).keys() == {key(1), key(6)}
    assert not list(plain.path.glob(".jcache-tmp-*"))


def test_a_bound_over_an_unbounded_cache(plain: Root) -> None:
    """The first bounded put gives every entry the sidecar that JAX expects, with the file's own time."""
    for i in range(5):
        add(plain.path, key(i), 100, written_ns=NOW + i)
    with bounded(plain, 300) as store:
        store.put(EXECUTABLES, key(9), b"x" * 100)
    assert shelf(plain).keys() == {key(3), key(4), key(9)}
    assert recency_of(plain.path, key(3)) == NOW + 3


def test_what_is_evicted_is_forgotten(plain: Root) -> None:
    """The ledger keeps no digest of an entry that is gone: another one under its key has other bytes."""
    with bounded(plain, 100) as store:
        for data in (b"1" * 100, b"2" * 100):
            store.put(EXECUTABLES, key(1), data)
            store.put(EXECUTABLES, key(2), data)
        store.put(EXECUTABLES, key(1), b"3" * 100)
    assert {k: v.digest for k, v in Ledger(plain.ledger).known(EXECUTABLES).items()} == {key(1): digest(b"3" * 100)}


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


@pytest.mark.parametrize("bound", [10**9, 2000], ids=["below the bound", "evicting"])
def test_a_bounded_put_reads_the_directory_once(plain: Root, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nobody else changes the directory, no put but the first one reads it; own hits change nothing."""
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
    """An entry that somebody else added or removed, a moment ago or later, counts at the next put."""
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
    """There the directory is read again when a minute has passed."""

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


def test_recencies_that_others_move_are_respected(plain: Root) -> None:
    """A hit by another process changes a sidecar and not the directory; the entry is then no victim."""
    for i in range(5):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    store = bounded(plain, 600)
    store.put(EXECUTABLES, key(10), b"x" * 100)
    for i in (0, 2):
        (plain.path / f"{key(i)}-atime").write_bytes(time.time_ns().to_bytes(8, "little"))
    store.put(EXECUTABLES, key(11), b"x" * 300)
    assert shelf(plain).keys() == {key(0), key(2), key(11)} | {key(10)}


def test_a_victim_that_cannot_be_removed(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """The put fails with the reason, and the next one looks at the directory afresh."""
    for i in range(3):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    store = bounded(plain, 300)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", lambda *_, **__: (_ for _ in ()).throw(PermissionError(1, "no")))
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(CannotWrite, match="not permitted"):
            store.put(EXECUTABLES, key(9), b"x" * 100)
    assert shelf(plain).keys() == {key(0), key(1), key(2)}
    assert store.put(EXECUTABLES, key(9), b"x" * 100) is Outcome.STORED
    assert shelf(plain).keys() == {key(1), key(2), key(9)}


def test_a_held_lock_stops_a_bounded_put(plain: Root) -> None:
    """It is `Locked`, and nothing is left of the entry."""
    with process(HOLD_LOCK, plain.path):
        store = Store(plain, max_bytes=1000, lock_timeout=0.05)
        with pytest.raises(Locked):
            store.put(EXECUTABLES, key(1), b"x")
        assert os.listdir(plain.path) == [".lockfile"]


def test_an_unbounded_put_takes_no_lock(plain: Root) -> None:
    """As in JAX, which would not notice it."""
    with process(HOLD_LOCK, plain.path):
        assert Store(plain, lock_timeout=0).put(EXECUTABLES, key(1), b"x") is Outcome.STORED


def test_a_lost_ledger_hinders_no_entry(plain: Root) -> None:
    """Whatever is wrong with the ledger, entries are put, evicted and got; the notices say what was wrong."""
    plain.pins.mkdir(parents=True)
    plain.ledger.write_bytes(b"no ledger " * 1000)
    with bounded(plain, 250) as store:
        for i in range(4):
            assert store.put(EXECUTABLES, key(i), b"x" * 100) is Outcome.STORED
        assert shelf(plain).keys() == {key(2), key(3)}
    assert Ledger(plain.ledger).known(EXECUTABLES).keys() == {key(2), key(3)}


# -- the same as JAX


def operations(chance: random.Random, count: int) -> Iterator[tuple[str, str, bytes]]:
    for _ in range(count):
        number = chance.randrange(30)
        yield (
            chance.choice(["put", "put", "get"]),
            key(number),
            b"%d" % (number % 10) * chance.choice([1, 50, 200, 999, 1001]),
        )


@pytest.mark.jax
@pytest.mark.parametrize("fresh", [False, True], ids=["one store", "a new store each time"])
def test_the_same_as_jax(tmp_path: Path, chance: random.Random, fresh: bool) -> None:
    """Put for put and hit for hit, a bounded store holds exactly what JAX's own bounded cache does."""
    from jax._src.lru_cache import LRUCache

    theirs = LRUCache(str(tmp_path / "theirs"), max_size=1000)
    root = create_root(tmp_path / "ours", plain=True)
    store = bounded(root, 1000)
    for operation, a_key, data in operations(chance, 300):
        if fresh:
            store = bounded(root, 1000)
        if operation == "get":
            assert store.get(EXECUTABLES, a_key) == theirs.get(a_key)
        else:
            store.put(EXECUTABLES, a_key, data)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is too large
                theirs.put(a_key, data)
        assert shelf(root) == files_of(tmp_path / "theirs")
        store.close()
    assert not list(root.path.glob(".jcache-tmp-*"))


@pytest.mark.smoke
@pytest.mark.jax
def test_one_directory_with_jax(plain: Root, chance: random.Random) -> None:
    """JAX and stores that share a bounded directory evict together exactly what one of them would alone."""
    from jax._src.lru_cache import LRUCache

    theirs = LRUCache(str(plain.path), max_size=1000)
    stores = [bounded(plain, 1000), bounded(plain, 1000)]
    model: dict[str, bytes] = {}  # the least recently used first
    for operation, a_key, data in operations(chance, 400):
        who: Any = chance.choice([theirs, *stores])
        if operation == "get":
            got = who.get(EXECUTABLES, a_key) if isinstance(who, Store) else who.get(a_key)
            assert got == model.get(a_key)
        elif isinstance(who, Store):
            who.put(EXECUTABLES, a_key, data)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                who.put(a_key, data)
        if operation == "get" and a_key in model:
            model[a_key] = model.pop(a_key)
        elif operation == "put" and a_key not in model and len(data) <= 1000:
            while sum(map(len, model.values())) + len(data) > 1000:
                del model[next(iter(model))]
            model[a_key] = data
        assert shelf(plain) == {k: len(v) for k, v in model.items()}
    for store in stores:
        store.close()


CROWD = """
import random, sys, warnings
from pathlib import Path
from jcache.layout import Kind, Root
from jcache.store.pins import Pins
from jcache.store.store import Store
warnings.simplefilter("error")
which, path, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
chance = random.Random(seed)
if which == "jax":
    from jax._src.lru_cache import LRUCache
    cache = LRUCache(path, max_size=5000, lock_timeout_secs=60)
    put, get = cache.put, cache.get
else:
    store = Store(Root(Path(path), plain=True), max_bytes=5000, lock_timeout=60)
    put = lambda key, data: store.put(Kind.EXECUTABLES, key, data)
    get = lambda key: store.get(Kind.EXECUTABLES, key)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(150):
    number = chance.randrange(60)
    key = f"jit_f-{number:064x}"
    if chance.random() < 0.7:
        put(key, b"%d" % (number % 10) * (number * 10 + 1))
    else:
        get(key)
if which != "jax":
    store.close()
print("done", flush=True)
"""


@pytest.mark.jax
@pytest.mark.parametrize("crowd", [["ours"] * 4, ["ours", "ours", "jax", "jax"]], ids=["stores", "stores and JAX"])
def test_a_crowd(plain: Root, chance: random.Random, crowd: list[str]) -> None:
    """Processes that put and get bounded at once never leave more than the bound, nothing torn, and nobody fails."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        members = [stack.enter_context(process(CROWD, who, plain.path, chance.randrange(10**6))) for who in crowd]
        for member in members:
            assert member.stdin
            member.stdin.write("\n")
            member.stdin.flush()
        for member in members:
            assert member.stdout
            assert member.stdout.readline() == "done\n"
    left = shelf(plain)
    assert 5000 - 600 < sum(left.values()) <= 5000
    for a_key, size in left.items():
        number = int(a_key[-64:], 16)
        assert (plain.path / f"{a_key}-cache").read_bytes() == b"%d" % (number % 10) * size
        assert size == number * 10 + 1
        assert (plain.path / f"{a_key}-atime").stat().st_size == 8
    assert not list(plain.path.glob(".jcache-tmp-*"))


# -- many entries


def test_executing_a_plan(plain: Root, beyond: Path) -> None:
    """What the plan says goes, sidecars too, the exact bytes are told, and planning again finds nothing."""
    for i in range(6):
        add(plain.path, key(i), 100 + i, used_ns=NOW + i)
    (plain.path / digits(7)).write_bytes(executable())
    (plain.path / "notes.txt").write_text("mine")
    with Store(plain) as store:
        store.ledger.record(Known(EXECUTABLES, key(i), seconds=1.0) for i in range(6))
        decided = plan(store.entries(legacy=True), Policy(max_entries=2, legacy=True), now_ns=NOW + DAY)
        before = sum(p.stat().st_size for p in plain.path.iterdir() if p.is_file())
        removal = store.maintenance.execute(decided)
        after = sum(p.stat().st_size for p in plain.path.iterdir() if p.is_file())
        assert sorted(e.key for e in removal.removed) == sorted([*(key(i) for i in range(4)), digits(7)])
        assert removal.bytes == before - after == 100 + 101 + 102 + 103 + 4 * 8 + len(executable())
        assert not removal.kept + removal.gone + removal.failures
        assert not plan(store.entries(legacy=True), Policy(max_entries=2, legacy=True), now_ns=NOW + DAY).victims
        assert store.ledger.known(EXECUTABLES).keys() == {key(4), key(5)}
    assert sorted(p.name for p in plain.path.iterdir()) == sorted(
        [".jcache", ".lockfile", "notes.txt", *(f"{key(i)}{suffix}" for i in (4, 5) for suffix in ("-cache", "-atime"))]
    )


def test_what_others_did_since_the_plan(plain: Root) -> None:
    """Victims used or pinned meanwhile stay, victims that are gone are no failure and free nothing."""
    for i in range(5):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    with Store(plain) as store:
        decided = plan(store.entries(), Policy(max_entries=0), now_ns=NOW + DAY)
        (plain.path / f"{key(0)}-cache").unlink()
        store.get(EXECUTABLES, key(1))
        pin(plain, key(2))
        removal = store.maintenance.execute(decided)
    assert [e.key for e in removal.removed] == [key(3), key(4)]
    assert [e.key for e in removal.gone] == [key(0)]
    assert [(v.entry.key, v.reason) for v in removal.kept] == [
        (key(1), Reason.USED_MEANWHILE),
        (key(2), Reason.PINNED),
    ]
    assert removal.bytes == 2 * 108
    assert shelf(plain).keys() == {key(1), key(2)}


def test_what_names_others_goes_first(plain: Root) -> None:
    """Traces go before executables, so that whoever is killed in between leaves no trace that lacks its executable."""
    gone: list[Kind] = []

    def progress(victims: Sequence[Verdict]) -> Iterator[Verdict]:
        for verdict in victims:
            gone.append(verdict.entry.kind)
            yield verdict

    for kind in Kind:
        add(plain.directory(kind), key(1))
    with Store(plain) as store:
        store.maintenance.execute(everything(store.entries()), progress=progress)
    assert gone == [Kind.TRACES, EXECUTABLES, Kind.GRAPHS]


def test_a_held_lock_stops_a_plan(plain: Root) -> None:
    """Nothing is removed without the directory's lock."""
    add(plain.path, key(1), used_ns=NOW)
    with process(HOLD_LOCK, plain.path), Store(plain, lock_timeout=0.05) as store:
        with pytest.raises(Locked):
            store.maintenance.execute(everything(store.entries()))
        assert shelf(plain).keys() == {key(1)}


def test_clearing_does_not_ask_for_use(plain: Root) -> None:
    """Who clears wants all of it gone; what was pinned since stays even so."""
    for i in range(3):
        add(plain.path, key(i), 100, used_ns=NOW)
    with Store(plain) as store:
        decided = everything(store.entries())
        store.get(EXECUTABLES, key(1))
        pin(plain, key(2))
        store.maintenance.execute(decided)
    assert shelf(plain).keys() == {key(2)}


def test_a_pinned_entry_can_be_removed_by_name(plain: Root) -> None:
    """`remove` does what it is told; only prune and clear spare pinned entries."""
    add(plain.path, key(1))
    pin(plain, key(1))
    with Store(plain) as store:
        assert store.maintenance.remove(store.entries()).removed
        assert store.ledger.pins() == set()


def test_pins_that_cannot_be_known(plain: Root) -> None:
    """As long as a later jcache may have pinned something, nothing is removed."""
    import sqlite3

    add(plain.path, key(1))
    Ledger(plain.ledger).record([Known(EXECUTABLES, key(1), pinned_ns=1)])
    database = sqlite3.connect(plain.ledger)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with Store(plain) as store:
        with pytest.raises(LedgerUnavailable, match="newer jcache"):
            store.maintenance.execute(everything(store.entries()))
        assert shelf(plain).keys() == {key(1)}


def test_pins_in_a_busy_ledger(plain: Root) -> None:
    """A ledger that another process keeps locked still says what is pinned."""
    from tests.store.test_sqlite import HOLD

    for i in range(2):
        add(plain.path, key(i))
    Ledger(plain.ledger).record([Known(EXECUTABLES, key(1), pinned_ns=1)])
    store = Store(plain, ledger=Ledger(plain.ledger, busy_timeout=0.05))
    with process(HOLD, plain.ledger):
        decided = everything(store.entries())
        assert [v.reason for v in decided.kept] == [Reason.PINNED]
        assert len(store.maintenance.execute(decided).removed) == 1
        assert "locked" in store.notices[0]
    assert shelf(plain).keys() == {key(1)}
    store.close()


def test_a_plan_for_an_absent_directory(native: Root) -> None:
    """Where a directory is gone by now it is not made again."""
    (native.path / "executables").rmdir()
    with Store(native) as store:
        assert store.maintenance.execute(Plan()).removed == []
        assert store.entries() == []
        with pytest.raises(CannotWrite, match="is not there"):
            store.maintenance.execute(
                Plan((Verdict(Entry(EXECUTABLES, key(1), 1, 1, 1, sidecar=False), Reason.CLEARED),))
            )
    assert not (native.path / "executables").exists()


def test_a_directory_that_is_a_link_is_not_followed(plain: Root, beyond: Path, tmp_path: Path) -> None:
    """What traces-v1 points to lies outside of the root."""
    elsewhere = tmp_path / "elsewhere"
    add(elsewhere, key(1))
    before = tree(elsewhere)
    add(plain.path, key(2))
    (plain.path / "traces-v1").symlink_to(elsewhere)
    with Store(plain) as store:
        assert [e.key for e in store.entries()] == [key(2)]
        store.maintenance.execute(everything(store.entries()))
        store.maintenance.adopt(Kind.TRACES)
    assert tree(elsewhere) == before


def test_what_is_kept_gets_its_sidecar(plain: Root) -> None:
    """After a plan was executed a bounded JAX <= 0.11.1 can go on."""
    for i in range(4):
        add(plain.path, key(i), written_ns=NOW + i)
    with Store(plain) as store:
        removal = store.maintenance.execute(plan(store.entries(), Policy(max_entries=3), now_ns=NOW))
        assert removal.adopted == 3
        assert store.maintenance.execute(plan(store.entries(), Policy(max_entries=3), now_ns=NOW)).adopted == 0
    assert [recency_of(plain.path, key(i)) for i in (1, 2, 3)] == [NOW + i for i in (1, 2, 3)]


def test_adopting(plain: Root) -> None:
    """Missing sidecars are made from the files' own times, others are left as they are, damaged or not."""
    add(plain.path, key(1), written_ns=NOW)
    add(plain.path, key(2), written_ns=NOW, used_ns=NOW + 5)
    add(plain.path, key(3), written_ns=NOW)
    (plain.path / f"{key(3)}-atime").write_bytes(b"?")
    path = add(plain.path, key(4))
    os.utime(path, ns=(-5, -5))
    with Store(plain) as store:
        assert store.maintenance.adopt(EXECUTABLES) == 2
        assert store.maintenance.adopt(EXECUTABLES) == store.maintenance.adopt(Kind.TRACES) == 0
    assert [recency_of(plain.path, key(i)) for i in (1, 2, 4)] == [NOW, NOW + 5, 0]
    assert (plain.path / f"{key(3)}-atime").read_bytes() == b"?"


def test_a_sidecar_that_comes_during_adopting_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a bounded JAX has written between the look and the lock does not give way to an older time."""
    add(store.root.path, key(1), written_ns=NOW)
    real = store.locks.in_batches

    def in_batches(kind: Kind, steps: Iterator[None]) -> None:
        add(store.root.path, key(1), written_ns=NOW, used_ns=NOW + DAY)
        real(kind, steps)

    monkeypatch.setattr(store.locks, "in_batches", in_batches)
    assert store.maintenance.adopt(EXECUTABLES) == 0
    assert recency_of(store.root.path, key(1)) == NOW + DAY


def test_adopting_records_what_is_final(store: Store) -> None:
    """The digest of an adopted entry is recorded, but not of one that may still be being written."""
    add(store.root.path, key(1), written_ns=time.time_ns() - DAY)
    add(store.root.path, key(2))
    assert store.maintenance.adopt(EXECUTABLES) == 2
    store.queue.flush()
    known = store.ledger.known(EXECUTABLES)
    assert {a_key: about.digest for a_key, about in known.items()} == {key(1): digest(b"x" * 100)}


@pytest.mark.jax
def test_a_bounded_jax_goes_on_after_adopting(plain: Root) -> None:
    """Over an unbounded cache JAX <= 0.11.1 fails every bounded put; once it is adopted, none."""
    import jax
    from jax._src.lru_cache import LRUCache

    for i in range(5):
        add(plain.path, key(i), 100, written_ns=NOW + i)
    theirs = LRUCache(str(plain.path), max_size=500)
    if tuple(map(int, jax.__version__.split(".")[:3])) < (0, 11, 2):
        with pytest.raises(FileNotFoundError):
            theirs.put(key(9), b"x" * 100)
    with Store(plain) as store:
        assert store.maintenance.adopt(EXECUTABLES) == 5
    theirs.put(key(9), b"x" * 100)
    assert shelf(plain).keys() == {key(i) for i in (1, 2, 3, 4, 9)}


def test_xla_s_sub_caches(plain: Root, beyond: Path) -> None:
    """Both are removed with all below them, links in them as links; a link in their place is left."""
    autotune = plain.path / "xla_gpu_per_fusion_autotune_cache_dir"
    (autotune / "a").mkdir(parents=True)
    (autotune / "a" / "b.pb").write_bytes(b"12345")
    (autotune / "link").symlink_to(beyond)
    (plain.path / "xla_gpu_kernel_cache_file").write_bytes(b"123")
    add(plain.path, key(1))
    with Store(plain) as store:
        assert store.maintenance.remove_xla() == 8 + len(str(beyond))
        assert sorted(p.name for p in plain.path.iterdir()) == [".jcache", ".lockfile", f"{key(1)}-cache"]
        autotune.symlink_to(beyond)
        assert store.maintenance.remove_xla() == 0
        autotune.unlink()
        (plain.path / ".lockfile").unlink()
        assert store.maintenance.remove_xla() == 0
    assert sorted(p.name for p in plain.path.iterdir()) == [".jcache", f"{key(1)}-cache"]


# -- crashes


LIVE = """
import random, sys
from pathlib import Path
from jcache.store.eviction import plan
from jcache.store.policy import Policy
from jcache.layout import Kind, Root
from jcache.store.pins import Pins
from jcache.store.store import Store
chance = random.Random(int(sys.argv[2]))
root = Root(Path(sys.argv[1]), plain=True)
content = lambda number: b"%064x" % number * (number % 50 + 1)
print("ready", flush=True)
while True:
    with Store(root, max_bytes=chance.choice([None, 60_000]), lock_timeout=60) as store:
        for _ in range(8):
            number = chance.randrange(1000, 1200)
            store.put(Kind.EXECUTABLES, f"jit_f-{number:064x}", content(number), seconds=1.0)
        store.get(Kind.EXECUTABLES, f"jit_f-{chance.randrange(1000, 1200):064x}")
        for path in root.path.glob("*-atime"):
            if chance.random() < 0.1:
                path.unlink(missing_ok=True)
        store.maintenance.adopt(Kind.EXECUTABLES)
        store.maintenance.execute(plan(store.entries(), Policy(max_entries=chance.randrange(20, 60)), now_ns=0))
"""


def test_crashes(plain: Root, chance: random.Random) -> None:
    """Killed at 40 random points of put, prune and adopt, a process leaves nothing torn, no lock and every pin."""
    pinned = [f"jit_f-{number:064x}" for number in range(1000, 1010)]
    with Store(plain) as store:
        for number, a_key in enumerate(pinned, 1000):
            store.put(EXECUTABLES, a_key, b"%064x" % number * (number % 50 + 1))
    pin(plain, *pinned)
    for _ in range(40):
        with process(LIVE, plain.path, chance.randrange(10**9)) as child:
            time.sleep(chance.random() * 0.08)  # a random point of its work, not a wait for something
            child.send_signal(signal.SIGKILL)
            child.wait()
        for a_key in shelf(plain):
            number = int(a_key[-64:], 16)
            assert (plain.path / f"{a_key}-cache").read_bytes() == b"%064x" % number * (number % 50 + 1)
        assert shelf(plain).keys() >= set(pinned)
        with Store(plain, lock_timeout=0) as store:
            store.maintenance.adopt(EXECUTABLES)
            assert {e.key for e in store.entries() if e.pinned} == set(pinned)
            assert not store.notices
            assert store.put(EXECUTABLES, key(1), b"x") in (Outcome.STORED, Outcome.PRESENT)
            store.maintenance.remove([store.find(key(1))])


def test_a_store_of_many_entries(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """With snapshots in the ledger a bounded put knows the directory as well as without."""
    monkeypatch.setattr(listing, "SNAPSHOT_FROM", 0)
    for i in range(20):
        add(plain.path, key(i), 100, written_ns=NOW + i, used_ns=NOW + i)
    os.utime(plain.path, ns=(NOW, NOW))
    with Store(plain) as store:
        assert len(store.entries()) == len(store.entries()) == 20
    for i in range(20, 30):
        with bounded(plain, 2000) as store:
            store.put(EXECUTABLES, key(i), b"x" * 100)
            assert shelf(plain).keys() == {key(j) for j in range(i - 19, i + 1)}
            assert {e.key for e in store.entries()} == shelf(plain).keys()


def test_nothing_of_jax_is_loaded() -> None:
    """The store and all it needs leave JAX and numpy out of the process."""
    modules = "jcache.store.store, jcache.admin.census, jcache.admin.selection"
    code = f"import sys, {modules}; print({{'jax', 'numpy'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
