"""The cache object for JAX: which entries it serves and refuses; it never fails the program."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.errors import InvalidValue
from jcache.layout import Kind, Root, check_key, kept_of, storable
from jcache.runtime.events import CacheEvent, EventKind, Refusal
from jcache.runtime.executable_cache import ExecutableCache
from jcache.store.roots import create_root
from tests.helpers.clocks import waits_for_locks
from tests.helpers.entries import HOLD_LOCK, add, executable, files_of, key, process, tree
from tests.helpers.executable_caches import DATA, HOUR, OTHER, Caches, on_record
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture

# -- serving


def test_it_stores_and_serves(native: Root, caches: Caches) -> None:
    """A stored entry is hit by this and by another process's cache, and is in the events and the ledger."""
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
    """While another process holds the lock, hits and misses work under a bound, and a put gives up with one warning."""
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


# -- damage


def test_a_path_below_a_file_is_a_miss(native: Root, caches: Caches) -> None:
    """A directory below a file gives misses, and a put there costs one warning."""
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
    """Modules for damage, eviction and listing are imported only when they are needed."""
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
    """Read-only roots are read in order after the first one, and never changed; a damaged entry falls to the
    next root.
    """
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
    """With copy_on_hit, the first root stores entries of the others."""
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
    """If the disk refuses writes, one warning is printed, entries are hit, and no temporary file is left."""
    add(directory := native.directory(Kind.EXECUTABLES), key(1), DATA)
    before = files_of(directory)

    def refuse(*_: object, **_directory: int) -> None:
        raise OSError(number, os.strerror(number))

    for name in ("files.create_temporary", "files.fill", "entry_writer.write_recency", "lru_index.write_recency"):
        monkeypatch.setattr(f"jcache.store.{name}", refuse)
    monkeypatch.setattr("jcache.runtime.write_queue.write_recency", refuse)
    cache = caches(native, max_size=max_size)
    assert cache.get(key(1)) == DATA
    for other in (2, 3):
        cache.put(key(other), DATA)
    assert caches.refused(cache) == {refusal: 2} and files_of(directory) == before
    assert len(caches.said) == 1 and "cannot store" in caches.said[0]


def test_a_process_may_only_read(native: Root, caches: Caches) -> None:
    """Whether a process may write is asked at each put; a process that may not leaves no trace."""
    add(native.directory(Kind.EXECUTABLES), key(1), DATA)
    before = tree(native.directory(Kind.EXECUTABLES))
    ranks = [1, 1, 0]
    cache = caches(native, may_write=lambda: ranks.pop(0) == 0)
    assert cache.get(key(1)) == DATA
    cache.put(key(2), DATA)
    assert tree(native.directory(Kind.EXECUTABLES)) == before
    cache.put(key(2), DATA)
    assert caches.refused(cache) == {Refusal.NOT_ALLOWED: 1} and caches.count(cache, EventKind.STORED) == 1


# -- names


@pytest.mark.parametrize(
    "name", ["n" * 185, "n" * 5000, "é" * 120, "a/b", "new\nline", "", "\ud800", "日本" * 60 + "x" * 100]
)
def test_any_name_is_cached(native: Root, caches: Caches, name: str) -> None:
    """A name that is too long, or cannot be a file's, gets a shorter key, which another process finds."""
    a_key = key(1, name)
    cache = caches(native)
    cache.put(a_key, DATA)
    assert cache.get(a_key) == caches(native).get(a_key) == DATA
    assert check_key(storable(a_key)).endswith(a_key[-65:]) and kept_of(storable(a_key)) is not None
    assert set(files_of(native.directory(Kind.EXECUTABLES))) == {storable(a_key)}


# -- threads, forks, events


def test_events_are_told(native: Root, caches: Caches) -> None:
    """A listener receives every event in order."""
    cache = caches(native, max_size=len(DATA))
    cache.get(key(1))
    cache.put(key(1), DATA)
    cache.get(key(1))
    cache.put(key(2), DATA * 2)
    heard = caches.made[cache]
    assert [event.kind for event in heard] == [EventKind.MISS, EventKind.STORED, EventKind.HIT, EventKind.REFUSED]
    assert heard[2].seconds == 3.0 and heard[3].detail == Refusal.TOO_LARGE


def test_clear_removes_everything(native: Root, caches: Caches) -> None:
    """`clear` removes all executables, and the cache can be used afterwards."""
    cache = caches(native)
    cache.put(key(1), DATA)
    add(native.directory(Kind.EXECUTABLES), key(2), OTHER)
    cache.clear()
    assert len(cache) == 0 and cache.get(key(1)) is None and cache.get(key(2)) is None
    cache.put(key(1), OTHER)
    assert cache.get(key(1)) == OTHER
