"""The cache object for JAX: what it serves, what it refuses, and that it never fails the program."""

import errno
import os
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from jcache.errors import InvalidValue
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable
from jcache.layout import ENTRY_SUFFIX, Kind, Root, check_key, kept_of, storable
from jcache.runtime.events import CacheEvent, EventKind, Refusal
from jcache.runtime.executable_cache import ExecutableCache
from jcache.store.ledger import UNVERIFIED, Known, Ledger
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root, open_root
from jcache.store.store import Store
from jcache.verify.checks import CHECKS_VERSION
from tests.helpers.clocks import StoppedClock, waits_for_locks
from tests.helpers.entries import HOLD_LOCK, SECOND, add, executable, files_of, key, process, recency_of, tree
from tests.helpers.jax_entries import JaxEntries, cpu_entries_fixture as cpu_entries_fixture
from tests.helpers.waiting import tick

DATA = executable(3)
OTHER = executable(7)
HOUR = 3600 * SECOND


class Caches:
    """Makes caches that keep what they warn of and what they tell, and closes them."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.made: dict[ExecutableCache, list[CacheEvent]] = {}

    def __call__(self, root: Root, **more: object) -> ExecutableCache:
        told: list[CacheEvent] = []
        cache = ExecutableCache(root, warn=self.said.append, on_event=told.append, **more)  # type: ignore[arg-type]
        self.made[cache] = told
        return cache

    def told(self, cache: ExecutableCache, *kinds: EventKind) -> list[CacheEvent]:
        """The events of some sorts that a cache has told."""
        return [event for event in self.made[cache] if event.kind in kinds]

    def count(self, cache: ExecutableCache, *kinds: EventKind) -> int:
        return len(self.told(cache, *kinds))

    def refused(self, cache: ExecutableCache) -> Counter[str | None]:
        """How often a cache has refused to store, by reason."""
        return Counter(event.detail for event in self.told(cache, EventKind.REFUSED))


@pytest.fixture
def caches() -> Iterator[Caches]:
    made = Caches()
    yield made
    for cache in made.made:
        cache.close()


def entry_of(root: Root, a_key: str) -> Path:
    return root.directory(Kind.EXECUTABLES) / (a_key + ENTRY_SUFFIX)


def on_record(root: Root) -> dict[str, Known]:
    """What the ledger knows of the executables."""
    with closing(Ledger(root.ledger)) as ledger:
        return ledger.known(Kind.EXECUTABLES)


def age(path: Path) -> None:
    """Makes a file look as if it had been written an hour ago."""
    then = time.time_ns() - HOUR
    os.utime(path, ns=(then, then))


def change(path: Path, position: int = -5) -> None:
    """Flips a bit in place."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


# -- serving


def test_it_stores_and_serves(native: Root, caches: Caches) -> None:
    """What is put is got by this and by another process's cache, and the events and the ledger say so."""
    cache = caches(native)
    assert cache.get(key(1)) is None
    cache.put(key(1), DATA)
    cache.put(key(1), OTHER)
    assert cache.get(key(1)) == caches(native).get(key(1)) == DATA
    assert caches.made[cache] == [
        CacheEvent(EventKind.MISS, key(1)),
        CacheEvent(EventKind.STORED, key(1), len(DATA)),
        CacheEvent(EventKind.PRESENT, key(1), len(OTHER)),
        CacheEvent(EventKind.HIT, key(1), len(DATA), 3.0),
    ]
    assert len(cache) == 1 and cache
    cache.close()
    assert on_record(native)[key(1)].seconds == 3.0
    assert caches.said == []


@pytest.mark.parametrize("max_size", [-2, -100])
def test_a_bound_is_a_number_of_bytes(native: Root, max_size: int) -> None:
    """Below -1 there is no bound that could be meant."""
    with pytest.raises(InvalidValue, match="is no bound"):
        ExecutableCache(native, max_size=max_size)


def test_a_hit_takes_no_lock(native: Root, caches: Caches, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the lock, under a bound, hits and misses ask for none; a put gives up, once said."""
    patient, cache = (caches(native, max_size=10**6, lock_timeout=seconds) for seconds in (30, 0.05))
    cache.put(key(1), DATA)
    with process(HOLD_LOCK, native.directory(Kind.EXECUTABLES)):
        waited = waits_for_locks(monkeypatch)
        assert patient.get(key(1)) == DATA and patient.get(key(2)) is None
        assert waited == []
        cache.put(key(2), DATA)
        cache.put(key(3), DATA)
    assert caches.refused(cache) == {Refusal.LOCKED: 2}
    assert len(caches.said) == 1 and "was held by process" in caches.said[0]
    assert set(files_of(native.directory(Kind.EXECUTABLES))) == {key(1)}


def test_recency_is_written_once(native: Root, caches: Caches) -> None:
    """The first hit writes the sidecar, the next thousand do not; a bounded put looks at the later ones as well."""
    directory = native.directory(Kind.EXECUTABLES)
    cache = caches(native, max_size=2 * len(DATA))
    cache.put(key(1), DATA)
    cache.put(key(2), DATA)
    assert cache.get(key(1)) == DATA
    first = recency_of(directory, key(1))
    for _ in range(1000):
        assert cache.get(key(1)) == DATA
    assert recency_of(directory, key(1)) == first
    (directory / f"{key(2)}-atime").write_bytes((first + 1).to_bytes(8, "little"))
    cache.put(key(3), DATA)
    assert set(files_of(directory)) == {key(1), key(3)}


# -- damage


@pytest.mark.parametrize("known", [True, False], ids=["by this process", "by the ledger"])
@pytest.mark.parametrize("position", [0, 5, len(DATA) // 2, -1])
def test_a_changed_entry_is_not_served(native: Root, caches: Caches, known: bool, position: int) -> None:
    """A flipped bit is a miss, the entry is in quarantine, and the put that follows in the same call stores it anew."""
    cache = caches(native)
    cache.put(key(1), DATA)
    if not known:
        cache.close()
        cache = caches(native)
    change(entry_of(native, key(1)), position)
    assert cache.get(key(1)) is None
    (record,) = Quarantine(native).records()
    assert record.key == key(1)
    cache.put(key(1), OTHER)
    assert cache.get(key(1)) == caches(native).get(key(1)) == OTHER
    assert caches.count(cache, EventKind.DAMAGED) == 1
    assert len(caches.said) == 1 and "quarantine" in caches.said[0]


@pytest.mark.parametrize("data", [b"", DATA[:3], DATA[:-1], DATA + b"x", b"garbage"])
def test_a_torn_entry_of_jax_is_not_served(native: Root, caches: Caches, data: bytes) -> None:
    """An unknown one goes to quarantine when it is old; a young one may be in the making, and is only a miss."""
    path = add(native.directory(Kind.EXECUTABLES), key(1), data)
    cache = caches(native)
    assert cache.get(key(1)) is None and path.exists() and caches.said == []
    age(path)
    assert cache.get(key(1)) is None and not path.exists()
    assert caches.count(cache, EventKind.DAMAGED) == 1
    path.write_bytes(DATA)
    assert cache.get(key(1)) == DATA


@pytest.mark.parametrize("platforms", [None, {"cpu"}, {"cpu", "tpu"}])
def test_random_bytes_in_a_sound_frame_are_not_served(native: Root, platforms: set[str] | None) -> None:
    """They go to quarantine, but where the program has a device whose programs jcache cannot read."""
    path = add(native.directory(Kind.EXECUTABLES), key(1), pack_executable(os.urandom(999), 1, Codec.ZSTD))
    age(path)
    known = None if platforms is None else frozenset(platforms)
    cache = ExecutableCache(native, warn=lambda _: None, platforms=lambda: known)
    served = cache.get(key(1)) is not None
    assert served == path.exists() == ("tpu" in (platforms or ()))
    cache.close()


def test_what_was_seen_once_is_on_record(plain: Root, caches: Caches) -> None:
    """An entry that JAX wrote is recorded at the first hit, so that a change of it is found by another process."""
    path = add(plain.directory(Kind.EXECUTABLES), key(1), DATA)
    cache = caches(plain)
    assert cache.get(key(1)) == DATA
    cache.close()
    change(path)
    assert caches(plain).get(key(1)) is None


def test_an_entry_written_anew_is_served(plain: Root, caches: Caches) -> None:
    """JAX evicted it and compiled it again: other bytes under the same key are no damage."""
    cache = caches(plain)
    cache.put(key(1), DATA)
    tick()
    path = entry_of(plain, key(1))
    path.unlink()
    path.write_bytes(OTHER)
    assert cache.get(key(1)) == OTHER
    assert caches.count(cache, EventKind.DAMAGED) == 0


def test_another_process_replaced_it(native: Root, caches: Caches) -> None:
    """The ledger is asked again before bytes that this process does not know are called damaged."""
    cache, other = caches(native), caches(native)
    cache.put(key(1), DATA)
    cache.flush()
    entry_of(native, key(1)).unlink()
    other.put(key(1), OTHER)
    other.flush()
    assert cache.get(key(1)) == OTHER and caches.said == []


def test_what_is_no_file_goes_to_quarantine(native: Root, caches: Caches, tmp_path: Path) -> None:
    """A directory or a link under an entry's name is never followed; it makes way for the entry, which is said once."""
    (tmp_path / "elsewhere").write_bytes(DATA)
    entry_of(native, key(1)).mkdir()
    entry_of(native, key(2)).symlink_to(tmp_path / "elsewhere")
    cache = caches(native)
    assert cache.get(key(1)) is None and cache.get(key(2)) is None
    cache.put(key(1), DATA)
    cache.put(key(2), DATA)
    assert cache.get(key(1)) == cache.get(key(2)) == DATA
    assert len(caches.said) == 1 and "quarantine" in caches.said[0]
    assert len(Quarantine(native).records()) == 2 and (tmp_path / "elsewhere").read_bytes() == DATA


def copied(root: Root, to: Path) -> Root:
    """A copy of a root as ``cp -a`` makes it."""
    subprocess.run(["cp", "-a", str(root.path), str(to)], check=True)
    return open_root(to)


@pytest.mark.parametrize("before", [False, True], ids=["at once", "after a hit"])
@pytest.mark.parametrize("as_what", ["root", "read-only"])
def test_damage_in_a_copied_root(native: Root, caches: Caches, tmp_path: Path, before: bool, as_what: str) -> None:
    """The digests that were copied with the entries count for the copies: none that is changed there is served."""
    cache = caches(native)
    cache.put(key(1), DATA)
    cache.put(key(2), DATA)
    cache.close()
    there = copied(native, tmp_path / "copy")
    if before:
        reader = caches(there)
        assert reader.get(key(1)) == DATA
        reader.close()
    change(entry_of(there, key(1)))
    cache = caches(there) if as_what == "root" else caches(create_root(tmp_path / "mine"), read_only=[there])
    assert cache.get(key(1)) is None and cache.get(key(2)) == DATA
    assert len(caches.said) == 1 and "damaged" in caches.said[0]


@pytest.mark.smoke
@pytest.mark.jax
def test_an_entry_of_another_program_is_not_served(native: Root, caches: Caches, cpu_entries: JaxEntries) -> None:
    """At first sight the name inside is compared with the key, as `jcache verify` does."""
    (native.directory(Kind.EXECUTABLES) / f"{key(1)}-cache").write_bytes(cpu_entries.bytes("jit_named_step"))
    age(entry_of(native, key(1)))
    cache = caches(native)
    assert cache.get(key(1)) is None
    assert "jit_named_step" in caches.said[0]


@pytest.mark.smoke
@pytest.mark.jax
@pytest.mark.parametrize("how", ["imported", "copied with the root"])
def test_a_digest_from_elsewhere_says_nothing(
    how: str, native: Root, caches: Caches, cpu_entries: JaxEntries, tmp_path: Path
) -> None:
    """Bytes of another program under a key, with their digest, are not served; what fits is checked once and served."""
    (right,) = cpu_entries.directory.glob("jit_named_step-*-cache")
    forged = "jit_another-" + "0" * 64
    with closing(Store(native)) as store:
        for name in (right.name.removesuffix("-cache"), forged):
            store.put(Kind.EXECUTABLES, name, right.read_bytes())
    for path in native.directory(Kind.EXECUTABLES).glob("*-cache"):
        age(path)
    if how == "imported":
        with closing(Store(native)) as store:
            known = store.ledger.known(Kind.EXECUTABLES)
            store.ledger.record([each._replace(checks=UNVERIFIED) for each in known.values()])
    root = native if how == "imported" else copied(native, tmp_path / "copy")
    for _ in range(2):
        cache = caches(root)
        assert cache.get(right.name.removesuffix("-cache")) == right.read_bytes()
        assert cache.get(forged) is None
        cache.close()
        assert len(caches.said) == 1 and "jit_named_step" in caches.said[0]
    with closing(Store(root)) as store:
        (left,) = store.ledger.known(Kind.EXECUTABLES, [right.name.removesuffix("-cache")]).values()
        assert left.checks == CHECKS_VERSION and left.origin == "put"


def test_damage_stays_where_the_lock_is_held(native: Root, caches: Caches) -> None:
    """It is a miss all the same, after a short wait, with one warning."""
    cache = caches(native, lock_timeout=0.05)
    cache.put(key(1), DATA)
    change(entry_of(native, key(1)))
    with process(HOLD_LOCK, native.directory(Kind.EXECUTABLES)):
        assert cache.get(key(1)) is None
    assert len(caches.said) == 1 and "stays there" in caches.said[0]
    assert cache.get(key(1)) is None and not entry_of(native, key(1)).exists()


def test_a_path_below_a_file_is_a_miss(native: Root, caches: Caches) -> None:
    """Nothing can be there, and nothing be stored, which costs one warning."""
    (native.path / "file").touch()
    cache = caches(Root(native.path / "file" / "below", plain=True))
    assert cache.get(key(1)) is None and len(cache) == 0
    cache.put(key(1), DATA)
    cache.put(key(2), DATA)
    cache.clear()
    assert caches.refused(cache) == {Refusal.FAILED: 2} and caches.count(cache, EventKind.MISS) == 1
    assert len([text for text in caches.said if "cannot store" in text]) == 1


WARM_START = """
import sys
from pathlib import Path
from jcache.runtime.executable_cache import ExecutableCache
from jcache.layout import Root
from jcache.formats.envelope import Codec
from jcache.formats.executable import pack_executable

cache = ExecutableCache(Root(Path(sys.argv[1]), plain=True))
for key in sys.argv[2:]:
    assert cache.get(key) is not None
print(*sys.modules)
"""


def test_a_warm_start_imports_little(plain: Root, caches: Caches) -> None:
    """What looks at damage, evicts or lists is imported when there is something to look at, to evict or to list."""
    cache = caches(plain)
    cache.put(key(1), DATA)
    cache.close()
    command = [sys.executable, "-c", WARM_START, str(plain.path), key(1)]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "sqlite3" in loaded
    assert not {f"jcache.{name}" for name in ("checks", "eviction", "findings", "inspection", "occupancy")} & loaded
    assert not {"jcache.store.quarantine", "json"} & loaded


# -- several roots, and those that cannot be written


def test_read_only_roots_are_read_through(native: Root, tmp_path: Path, caches: Caches) -> None:
    """In order, after the first, and without a byte of them changed; a damaged one there falls to the next."""
    teams = [create_root(tmp_path / name) for name in ("team", "site")]
    for number, team in enumerate(teams):
        add(team.directory(Kind.EXECUTABLES), key(1), executable(number + 1))
        add(team.directory(Kind.EXECUTABLES), key(2), b"damaged" if number == 0 else OTHER, written_ns=HOUR)
    before = [tree(team.path) for team in teams]
    cache = caches(native, read_only=teams)
    assert cache.get(key(1)) == executable(1)
    assert cache.get(key(2)) == OTHER
    assert cache.get(key(3)) is None
    assert [tree(team.path) for team in teams] == before
    assert files_of(native.directory(Kind.EXECUTABLES)) == {}
    assert [event.shared for event in caches.told(cache, EventKind.HIT)] == [True, True]


def test_what_is_shared_can_be_copied(native: Root, tmp_path: Path, caches: Caches) -> None:
    """With copy_on_hit the first root has it from then on."""
    team = create_root(tmp_path / "team")
    add(team.directory(Kind.EXECUTABLES), key(1), DATA)
    cache = caches(native, read_only=[team], copy_on_hit=True)
    assert cache.get(key(1)) == cache.get(key(1)) == DATA
    assert [event.shared for event in caches.told(cache, EventKind.HIT)] == [True, False]
    assert caches.count(cache, EventKind.STORED) == 1


@pytest.mark.parametrize("max_size", [-1, 10**6], ids=["unbounded", "bounded"])
@pytest.mark.parametrize(
    ("number", "refusal"),
    [(errno.EROFS, Refusal.READ_ONLY), (errno.ENOSPC, Refusal.FULL), (errno.EIO, Refusal.FAILED)],
    ids=["read-only", "full", "broken"],
)
def test_a_disk_that_refuses_still_hits(
    native: Root, caches: Caches, monkeypatch: pytest.MonkeyPatch, max_size: int, number: int, refusal: Refusal
) -> None:
    """What cannot be stored costs one warning, what is there is served, nothing is left behind."""
    add(directory := native.directory(Kind.EXECUTABLES), key(1), DATA)
    before = files_of(directory)

    def refuse(*_: object, **_directory: int) -> None:
        raise OSError(number, os.strerror(number))

    for name in ("files.create_temporary", "entry_writer.write_recency", "lru_index.write_recency"):
        monkeypatch.setattr(f"jcache.store.{name}", refuse)
    monkeypatch.setattr("jcache.runtime.write_queue.write_recency", refuse)
    cache = caches(native, max_size=max_size)
    assert cache.get(key(1)) == DATA
    for other in (2, 3):
        cache.put(key(other), DATA)
    assert caches.refused(cache) == {refusal: 2} and files_of(directory) == before
    assert len(caches.said) == 1 and "cannot store" in caches.said[0]


def test_a_process_may_only_read(native: Root, caches: Caches) -> None:
    """Asked at each put; such a process leaves no trace among the entries."""
    add(native.directory(Kind.EXECUTABLES), key(1), DATA)
    before = tree(native.directory(Kind.EXECUTABLES))
    ranks = [1, 1, 0]
    cache = caches(native, may_write=lambda: ranks.pop(0) == 0)
    assert cache.get(key(1)) == DATA
    cache.put(key(2), DATA)
    assert tree(native.directory(Kind.EXECUTABLES)) == before
    cache.put(key(2), DATA)
    assert caches.refused(cache) == {Refusal.NOT_ALLOWED: 1} and caches.count(cache, EventKind.STORED) == 1


def test_a_broken_ledger_is_gone_on_without(native: Root, caches: Caches) -> None:
    """It holds what is known, and no entry: hits and puts go on in silence."""
    native.state.mkdir(exist_ok=True)
    native.ledger.write_bytes(b"no ledger" * 1000)
    add(native.directory(Kind.EXECUTABLES), key(1), DATA)
    cache = caches(native, max_size=10**6)
    assert cache.get(key(1)) == DATA
    cache.put(key(2), DATA)
    assert cache.get(key(2)) == DATA and caches.said == []


def test_what_is_pinned_stays(native: Root, caches: Caches) -> None:
    """An entry that fits only in the place of pinned ones is refused, with a warning that says so."""
    cache = caches(native, max_size=len(DATA))
    cache.put(key(1), DATA)
    cache.flush()
    ledger = Ledger(native.ledger)
    ledger.record([Known(Kind.EXECUTABLES, key(1), pinned_ns=1)])
    ledger.close()
    cache.put(key(2), DATA)
    assert caches.refused(cache) == {Refusal.PINNED: 1}
    assert len(caches.said) == 1 and "unpin" in caches.said[0]


def test_a_root_that_is_gone_is_not_made_again(native: Root, caches: Caches) -> None:
    """What has been learnt is dropped when the directory is removed before the end."""
    import shutil

    cache = caches(native)
    cache.put(key(1), DATA)
    shutil.rmtree(native.path)
    assert cache.get(key(1)) is None
    cache.close()
    assert not native.path.exists()


# -- names


@pytest.mark.parametrize(
    "name", ["n" * 185, "n" * 5000, "é" * 120, "a/b", "new\nline", "", "\ud800", "日本" * 60 + "x" * 100]
)
def test_any_name_is_cached(native: Root, caches: Caches, name: str) -> None:
    """Too long, or none that a file can have: it is stored under a shorter key, which another process finds."""
    a_key = key(1, name)
    cache = caches(native)
    cache.put(a_key, DATA)
    assert cache.get(a_key) == caches(native).get(a_key) == DATA
    assert check_key(storable(a_key)).endswith(a_key[-65:]) and kept_of(storable(a_key)) is not None
    assert set(files_of(native.directory(Kind.EXECUTABLES))) == {storable(a_key)}


def test_names_are_told_apart() -> None:
    """Keys that fit are left as they are; long ones that begin alike, and texts that are no keys, do not meet."""
    assert storable(key(1)) == key(1) and kept_of(key(1)) is None
    keys = [key(1, "n" * 300), key(1, "n" * 301), key(2, "n" * 300), "key1", "key2", "k" * 400, "k" * 401]
    assert len({storable(a_key) for a_key in keys}) == len(keys)
    assert all(storable(storable(a_key)) == storable(a_key) == check_key(storable(a_key)) for a_key in keys)


# -- threads, forks, events


@pytest.mark.parametrize("max_size", [-1, 10 * len(DATA)], ids=["unbounded", "bounded"])
def test_threads_share_it(native: Root, caches: Caches, max_size: int) -> None:
    """Eight threads put, get and flush at once; every answer is right, and no connection crosses threads."""
    cache = caches(native, max_size=max_size)
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            for step in range(60):
                number = (seed * 7 + step) % 20
                data = cache.get(key(number))
                if data not in (None, executable(number + 1)):
                    wrong.append(data)
                cache.put(key(number), executable(number + 1))
                if step % 20 == seed:
                    cache.flush()
        except Exception as error:  # noqa: BLE001  is told below
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and caches.said == []
    assert (
        caches.count(cache, EventKind.HIT, EventKind.MISS)
        == caches.count(cache, EventKind.STORED, EventKind.PRESENT)
        == 8 * 60
    )
    assert caches.count(cache, EventKind.DAMAGED) == 0
    if max_size > 0:
        assert sum(files_of(native.directory(Kind.EXECUTABLES)).values()) <= max_size


def test_a_forked_child_has_its_own(native: Root, caches: Caches) -> None:
    """It serves and stores, even if a thread held the lock at the fork; what both have learnt is in the ledger."""
    cache = caches(native, max_size=10**6)
    cache.put(key(1), DATA)
    cache.flush()
    held = cache._queue._mutex
    with held, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:  # pragma: no cover
            code = 1
            with suppress(BaseException):
                assert cache.get(key(1)) == DATA
                cache.put(key(2), OTHER)
                assert cache.get(key(2)) == OTHER
                cache.close()
                code = 0
            os._exit(code)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert cache.get(key(2)) == OTHER
    cache.put(key(3), DATA)
    cache.close()
    assert set(on_record(native)) == {key(1), key(2), key(3)}
    with closing(sqlite3.connect(native.ledger)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert caches.said == []


def test_the_end_of_the_cache_flushes(native: Root) -> None:
    """What has been learnt reaches the ledger when nobody uses the cache any more, as it does at exit."""
    cache = ExecutableCache(native)
    cache.put(key(1), DATA)
    del cache
    assert key(1) in on_record(native)


def test_events_are_told(native: Root, caches: Caches) -> None:
    """Whoever keeps statistics hears of everything, in order."""
    cache = caches(native, max_size=len(DATA))
    cache.get(key(1))
    cache.put(key(1), DATA)
    cache.get(key(1))
    cache.put(key(2), DATA * 2)
    heard = caches.made[cache]
    assert [event.kind for event in heard] == [EventKind.MISS, EventKind.STORED, EventKind.HIT, EventKind.REFUSED]
    assert heard[2].seconds == 3.0 and heard[3].detail == Refusal.TOO_LARGE


def test_clear_removes_everything(native: Root, caches: Caches) -> None:
    """All executables, known or not; the cache can be used on."""
    cache = caches(native)
    cache.put(key(1), DATA)
    add(native.directory(Kind.EXECUTABLES), key(2), OTHER)
    cache.clear()
    assert len(cache) == 0 and cache.get(key(1)) is None and cache.get(key(2)) is None
    cache.put(key(1), OTHER)
    assert cache.get(key(1)) == OTHER


def test_warnings_are_pythons_own_by_default(tmp_path: Path) -> None:
    """A UserWarning for what could not be done."""
    cache = ExecutableCache(create_root(tmp_path / "root"), max_size=1)
    with pytest.warns(UserWarning, match="exceeds the maximum cache size of 1 bytes"):
        cache.put(key(1), DATA)
    cache.close()


def test_a_lock_that_cannot_be_had_is_waited_for_once(
    native: Root, caches: Caches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that holds it for long costs one wait, not one for each put; then it is waited for in full again."""
    hands = StoppedClock(monkeypatch)
    cache = caches(native, max_size=10**6, lock_timeout=0.5)
    cache.put(key(1), DATA)
    waited = waits_for_locks(monkeypatch)
    with process(HOLD_LOCK, native.directory(Kind.EXECUTABLES)):
        for number in range(2, 8):
            cache.put(key(number), DATA)
        assert waited == [0.5, *[0.05] * 5]
    cache.put(key(9), DATA)
    assert {*waited[6:]} == {0.05}
    waited.clear()
    hands.go_on(60)
    cache.put(key(10), DATA)
    assert {*waited} == {0.5} and caches.count(cache, EventKind.STORED) == 3
