"""One writer serves all threads of a process, and another one a forked child."""

import os
import sqlite3
import threading
import warnings
from contextlib import closing, suppress

import pytest

from jcache.layout import Kind, Root
from jcache.runtime.events import EventKind
from jcache.runtime.executable_cache import ExecutableCache
from tests.helpers.entries import executable, files_of, key, recency_of
from tests.helpers.executable_caches import DATA, OTHER, Caches, on_record
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture


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
    """A forked child serves and stores, even if a thread held the lock at the fork; both processes record in
    the ledger.
    """
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
    """New records reach the ledger when the cache is no longer used, as at exit."""
    cache = ExecutableCache(native)
    cache.put(key(1), DATA)
    del cache
    assert key(1) in on_record(native)
