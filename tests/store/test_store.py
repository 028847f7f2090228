"""The only writer under a root."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jcache.entry import Entry
from jcache.errors import InvalidValue, UnknownKey
from jcache.formats.digest import digest
from jcache.layout import Kind, Root
from jcache.store import listing
from jcache.store.ledger import Ledger
from jcache.store.lookup import find_entry
from jcache.store.put_result import Outcome
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.entries import DAY, NOW, add, digits, executable, files_of, key, process, recency_of
from tests.helpers.stores import EXECUTABLES, bounded, pin, shelf

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


def test_a_hit_is_a_use(store: Store) -> None:
    """Getting an entry makes it the most recently used one, with or without a sidecar."""
    add(store.root.path, key(1), used_ns=NOW)
    add(store.root.path, key(2), written_ns=NOW)
    before = time.time_ns()
    assert store.get(EXECUTABLES, key(1)) == store.get(EXECUTABLES, key(2)) == b"x" * 100
    assert all(e.recency_ns >= before for e in store.entries())


@pytest.mark.parametrize("bad", ["", "x", f"a/../b-{digits(1)}", f"\n-{digits(1)}", "n" * 185 + f"-{digits(1)}"])
def test_bad_keys_are_refused(store: Store, bad: str) -> None:
    """No key leads out of the directory, and a refused one leaves nothing, however large the data is."""
    with pytest.raises(InvalidValue):
        store.get(EXECUTABLES, bad)
    for some in (store, bounded(store.root, 0)):
        with pytest.raises(InvalidValue):
            some.put(EXECUTABLES, bad, b"x")
    assert not list(store.root.path.iterdir())


@pytest.mark.parametrize("what", ["link", "dangling link", "directory", "FIFO", "socket"])
def test_what_only_has_an_entrys_name(store: Store, beyond: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with an entry's name is neither read, followed, replaced, adopted, evicted nor removed."""
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


def test_touching(store: Store) -> None:
    """Recency only grows; entries that are not there are not counted and get no sidecar."""
    add(store.root.path, key(1), used_ns=NOW)
    add(store.root.path, key(2), used_ns=NOW + DAY)
    add(store.root.path, key(3), written_ns=NOW)
    assert store.touch(EXECUTABLES, [key(i) for i in range(1, 5)], NOW + 5) == 3
    assert [recency_of(store.root.path, key(i)) for i in (1, 2, 3)] == [NOW + 5, NOW + DAY, NOW + 5]
    assert not (store.root.path / f"{key(4)}-atime").exists()


# -- looking


def test_finding(store: Store) -> None:
    """A key, or an unambiguous prefix of it or of its hash, finds one entry of any kind."""
    add(store.root.path, key(1))
    add(store.root.path, key(2))
    add(store.root.directory(Kind.TRACES), key(3, "loss"))
    (store.root.path / digits(4)).write_bytes(executable())
    assert find_entry(store, key(1)).key == find_entry(store, digits(1)[:12]).key == key(1)
    assert find_entry(store, "loss").kind is Kind.TRACES
    assert find_entry(store, digits(4)[:12]).legacy
    assert store.path(find_entry(store, digits(4))) == store.root.path / digits(4)
    with pytest.raises(UnknownKey, match=r"'jit_step' stands for 2 entries: .*; give more of the key"):
        find_entry(store, "jit_step")
    for unknown in ("step", "jit_steps", "-", key(9), "\udcff", "*"):
        with pytest.raises(UnknownKey, match=r"No entry .* has the key or prefix"):
            find_entry(store, unknown)


def test_a_key_that_begins_another(store: Store) -> None:
    """A whole key stands for itself, even if another one begins with it."""
    longer = f"{key(1)}-{digits(2)}"
    add(store.root.path, key(1))
    add(store.root.path, longer)
    assert find_entry(store, key(1)).key == key(1)


# -- the bound


def test_a_lost_ledger_hinders_no_entry(plain: Root) -> None:
    """Whatever is wrong with the ledger, entries are stored, evicted and read, and notices report the fault."""
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
    """After the same puts and hits, a bounded store holds exactly the entries of JAX's own bounded cache."""
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
    """JAX and stores that share a bounded directory evict exactly what one of them would evict alone."""
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
    """Processes that put and get under a bound at once never exceed it, leave no torn entry, and raise nothing."""
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


@pytest.mark.full
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
            store.maintenance.remove([find_entry(store, key(1))])


def test_a_store_of_many_entries(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """With snapshots in the ledger, a bounded put knows the directory as well as without."""
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
