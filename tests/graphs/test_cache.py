"""Graphs in a program: what is served, what is built, what is never stored, and that nothing fails the program."""

import functools
import os
import pickle
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jcache
from jcache import GraphCache, clock
from jcache.errors import InvalidValue
from jcache.findings import Damage
from jcache.graphs import graph_lookup
from jcache.layout import Kind, Root
from jcache.runtime import sealed_store
from jcache.store.economics import Economics
from jcache.store.ledger import Ledger
from jcache.store.quarantine import Quarantine
from tests.helpers.clocks import waits_for_locks
from tests.helpers.entries import HOLD_LOCK, process, recency_of
from tests.helpers.graph_functions import half, ramp, same
from tests.helpers.graph_programs import forked, graph_file, graphs_of
from tests.helpers.waiting import LIMIT_S, until

# -- serving


def test_a_graph_is_built_once(cache: GraphCache, native: Root) -> None:
    """The second call is served, by this cache and by another one; arguments count by what they mean."""
    built = cache.get_or_build(ramp, 5)
    assert same(built, ramp(5))
    for served in (cache.get_or_build(ramp, n=5), GraphCache(native.path).get_or_build(ramp, 5, theta=1.0)):
        assert same(served, built) and served["names"] == ("a", None) and served["values"].flags.writeable
    cache.get_or_build(ramp, 5, 2.0)
    stats = cache.stats()
    assert (stats.hits, stats.misses, stats.builds, stats.stored) == (1, 2, 2, 2)
    assert stats.build_seconds > 0 and stats.load_seconds > 0 and not stats.not_stored
    assert len(graphs_of(native)) == 2


def test_each_hit_is_a_graph_of_its_own(cache: GraphCache) -> None:
    """What a program does to a graph that it was given does not change the next one."""
    cache.get_or_build(ramp, 5)
    first = cache.get_or_build(ramp, 5)
    first["values"][:] = -1
    assert same(cache.get_or_build(ramp, 5), ramp(5))


def test_arguments_that_cannot_be_read() -> None:
    """What is no codec, and what is no size, is refused when the cache is made."""
    with pytest.raises(InvalidValue, match="no codec"):
        GraphCache(codec="zip")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="not a size"):
        GraphCache(max_size="much")


def outer(n: int, cache: GraphCache) -> list[float]:
    return [cache.get_or_build(half, i) for i in range(n)]


def test_functions_that_use_the_cache_themselves(cache: GraphCache) -> None:
    """Graphs are built of graphs, and know their parents; the cache that a function is given is not in its key."""
    from jcache.store.store import header_at

    assert cache.get_or_build(outer, 3, cache) == [0.0, 0.5, 1.0]
    other = GraphCache(cache.root, max_size="1GiB")
    assert other.get_or_build(outer, 3, other) == [0.0, 0.5, 1.0]
    assert (other.stats().hits, other.stats().misses) == (1, 0)
    (key,) = [key for key in graphs_of(Root(cache.root, plain=False)) if key.startswith("outer-")]  # type: ignore[arg-type]
    parents = header_at(graph_file(Root(cache.root, plain=False), key)).parents  # type: ignore[arg-type]
    assert len(parents) == 3 and all(parent.startswith("half-") for parent in parents)


def countdown(n: int, cache: GraphCache) -> int:
    return 0 if n == 0 else 1 + cache.get_or_build(countdown, n - 1, cache)


def endless(n: int, cache: GraphCache, depth: Path) -> int:
    """Asks for itself, until a file is there."""
    if depth.exists():
        return 1
    depth.touch()
    return 1 + cache.get_or_build(endless, n, cache, depth)


def test_recursion(cache: GraphCache, tmp_path: Path) -> None:
    """A function may ask for itself, with other arguments and, since it may have a reason to, with the same."""
    assert cache.get_or_build(countdown, 5, cache) == 5
    assert cache.stats().builds == 6
    assert cache.get_or_build(countdown, 7, cache) == 7
    assert cache.stats().builds == 8
    assert cache.get_or_build(endless, 1, cache, tmp_path / "there") == 2


# -- where


def test_a_root_that_is_removed_is_made_again(native: Root, cache: GraphCache) -> None:
    """When somebody removes the root of a running program, it builds, and its graphs are kept again."""
    cache.get_or_build(ramp, 3)
    shutil.rmtree(native.path)
    assert same(cache.get_or_build(ramp, 3), ramp(3)) and same(cache.get_or_build(ramp, 3), ramp(3))
    assert cache.stats().hits == 1 and jcache.info(native.path).kinds[Kind.GRAPHS].entries == 1


def test_a_full_disk(tmp_path: Path) -> None:
    """Where nothing can be written to the disk any more, graphs are built, and one warning says so."""
    program = """
import resource, signal, sys, warnings
from jcache import GraphCache

def build(n):
    return bytes(n)

cache = GraphCache(sys.argv[1])
cache.get_or_build(build, 10)
cache.flush()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert [len(cache.get_or_build(build, 200_000 + i)) for i in range(3)] == [200_000, 200_001, 200_002]
    assert cache.get_or_build(build, 10) == bytes(10)
assert len(said) == 1 and "cannot store" in str(said[0].message), said
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob(".jcache-tmp-*"))


def test_a_bound(native: Root) -> None:
    """Under a bound the least recently used graphs go; one that is larger than it is not stored, which is said."""
    cache = GraphCache(native.path, max_size="64KiB")
    for n in range(20):
        cache.get_or_build(blob, n)
    kept = graphs_of(native)
    assert 1 < len(kept) < 10 and cache.explain(blob, 19).hit and not cache.explain(blob, 0).hit
    with pytest.warns(UserWarning, match="bounded by 65536"):
        assert len(cache.get_or_build(blob, 0, 100_000)) == 100_000
    assert dict(cache.stats().not_stored) == {"larger than the cache may grow": 1}


def blob(n: int, size: int = 10_000) -> bytes:
    return bytes([n]) * size


@pytest.mark.full
@pytest.mark.parametrize("how", ["locked", "gone", "damaged", "a directory"])
def test_the_ledger_fails(native: Root, cache: GraphCache, how: str) -> None:
    """Graphs are served and stored without it."""
    cache.get_or_build(ramp, 3)
    cache.flush()
    if how == "gone":
        native.ledger.unlink()
    elif how == "damaged":
        native.ledger.write_bytes(b"no ledger" * 1000)
    elif how == "a directory":
        native.ledger.unlink()
        native.ledger.mkdir()
    hold = "import sqlite3, sys\nledger = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    hold += "ledger.execute('BEGIN EXCLUSIVE')\nprint('held', flush=True)\nsys.stdin.readline()"
    with process(hold if how == "locked" else "print('nothing', flush=True)", native.ledger):
        fresh = GraphCache(native.path)
        assert same(fresh.get_or_build(ramp, 3), ramp(3)) and same(fresh.get_or_build(ramp, 4), ramp(4))
        assert (fresh.stats().hits, fresh.stats().stored) == (1, 1)
        fresh.flush()


def test_a_hit_takes_no_lock(native: Root, cache: GraphCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the directory's lock, hits go on and do not ask for it, also under a bound."""
    cache = GraphCache(native.path, max_size="1GiB")
    cache.get_or_build(ramp, 3)
    with process(HOLD_LOCK, native.directory(Kind.GRAPHS)):
        waited = waits_for_locks(monkeypatch)
        assert same(cache.get_or_build(ramp, 3), ramp(3))
        assert waited == [] and cache.stats().hits == 1


def test_recency_is_written_once(native: Root, cache: GraphCache) -> None:
    """The first hit of a process marks the graph as used, the next ones do not."""
    cache.get_or_build(ramp, 3)
    (key,) = graphs_of(native)
    stored = recency_of(native.directory(Kind.GRAPHS), key)
    cache.get_or_build(ramp, 3)
    used = recency_of(native.directory(Kind.GRAPHS), key)
    cache.get_or_build(ramp, 3)
    assert stored < used == recency_of(native.directory(Kind.GRAPHS), key)


# -- what may not be served


def test_mapped_graphs_outlive_their_entries(native: Root, cache: GraphCache) -> None:
    """A graph in use stays whole when its entry is pruned, cleared or damaged: it is another file by then."""
    expected = big(200_000)
    cache.get_or_build(big, 200_000)
    first = cache.get_or_build(big, 200_000)
    jcache.prune(root=native.path, max_size=0)
    assert graphs_of(native) == [] and np.array_equal(first, expected)
    cache.get_or_build(big, 200_000)
    second = cache.get_or_build(big, 200_000)
    removed = cache.clear()
    assert removed is not None and len(removed.removed) == 1
    second[0] = -1
    assert np.array_equal(first, expected) and np.array_equal(second[1:], expected[1:])
    assert cache.stats().hits == 2


def big(n: int) -> Any:
    return np.arange(n, dtype=np.float64)


# -- what is not stored


def mutates(values: list[int]) -> int:
    values.append(1)
    return len(values)


def fails(n: int) -> int:
    raise ZeroDivisionError(n)


def test_a_function_that_fails(cache: GraphCache, native: Root) -> None:
    """What it raises is raised, each time, and nothing stays in the way."""
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cache.get_or_build(fails, 1)
    with pytest.raises(TypeError, match="positional argument"):
        cache.get_or_build(half)
    assert graphs_of(native) == [] and os.listdir(native.building) == []


def test_warnings_that_are_errors(native: Root, capsys: pytest.CaptureFixture[str]) -> None:
    """Where warnings are errors, what jcache warns of is printed, and the program goes on."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert GraphCache(native.path).get_or_build(mutates, [1]) == 2
    assert "is not stored" in capsys.readouterr().err


# -- save, load, clear


def test_saving_and_loading(cache: GraphCache, native: Root) -> None:
    """A program can store what it has built by itself, in the place of what is there, and load without building."""
    assert cache.load(ramp, 3) is None and cache.stats().misses == 1
    key = cache.save(0.25, half, 3)
    assert graphs_of(native) == [key] and cache.load(half, 3) == 0.25
    assert cache.save(0.25, half, 3) == key and Quarantine(native).records() == []
    assert cache.save(0.75, half, 3) == key and cache.get_or_build(half, 3) == 0.75
    assert [record.damage for record in Quarantine(native).records()] == [Damage.REPLACED]
    assert cache.stats().slower == () and cache.stats().builds == 0


def test_clearing(cache: GraphCache, native: Root) -> None:
    """All graphs go, pinned ones and other kinds stay."""
    cache.get_or_build(ramp, 3)
    cache.get_or_build(half, 3)
    executables = native.directory(Kind.EXECUTABLES)
    (executables / f"jit_f-{'0' * 64}-cache").write_bytes(b"x")
    removed = cache.clear()
    assert removed is not None and len(removed.removed) == 2 and graphs_of(native) == []
    assert len(os.listdir(executables)) == 1
    assert same(cache.get_or_build(ramp, 3), ramp(3)) and len(graphs_of(native)) == 1


# -- economics


class Meanwhile:
    """What happens while a graph is built; no part of its key."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __cache_key__(self) -> str:
        return ""


def slow(n: int, meanwhile: Meanwhile) -> int:
    meanwhile.act()
    return n


def brief(n: int, meanwhile: Meanwhile) -> int:
    meanwhile.act()
    return n


def test_economics(cache: GraphCache, native: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """What building and loading took is counted and in the ledger; where loading is slower, that is said."""
    passed: list[float] = []  # by what is not Python, whose code would count among what the graphs are built from
    opened = sealed_store.open_softly

    def slowly_opened(*arguments: Any) -> Any:
        passed.append(0.25)
        return opened(*arguments)

    monkeypatch.setattr(clock, "monotonic", functools.partial(sum, passed))
    monkeypatch.setattr(graph_lookup, "open_softly", slowly_opened)
    long, short = (Meanwhile(functools.partial(passed.append, seconds)) for seconds in (2, 0.125))
    for _ in range(3):
        cache.get_or_build(slow, 1, long)
        cache.get_or_build(brief, 1, short)
    cache.flush()
    stats = cache.stats()
    assert stats.functions == {
        "slow": Economics(builds=1, build_seconds=2, loads=2, load_seconds=0.5, spared_seconds=4),
        "brief": Economics(builds=1, build_seconds=0.125, loads=2, load_seconds=0.5, spared_seconds=0.25),
    }
    assert stats.slower == ("brief",)
    assert "loading `brief` takes longer than building it: " in str(stats) and stats.saved_seconds > 0
    assert pickle.loads(pickle.dumps(stats)) == stats
    ledger = Ledger(native.ledger)
    assert ledger.economics(Kind.GRAPHS) == dict(stats.functions)
    assert {known.hits for known in ledger.known(Kind.GRAPHS).values()} == {2}
    assert {known.origin for known in ledger.known(Kind.GRAPHS).values()} == {"program"}
    GraphCache(native.path).get_or_build(slow, 1, long)
    # a killed process leaves its figures: they are written a moment later
    until(lambda: ledger.economics(Kind.GRAPHS)["slow"].loads == 3)
    ledger.forget_runs()
    assert ledger.economics(Kind.GRAPHS) == {}
    ledger.close()


# -- threads and processes


def test_threads_build_once(native: Root) -> None:
    """Of eight threads that ask at once one builds, the others are served."""
    cache = GraphCache(native.path)
    asking: list[int] = []
    values: list[int] = []
    all_ask = threading.Event()

    def ask() -> None:
        asking.append(threading.get_ident())
        values.append(cache.get_or_build(slow, 7, Meanwhile(functools.partial(all_ask.wait, LIMIT_S))))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: len(asking) == 8)
    all_ask.set()
    for thread in threads:
        thread.join()
    assert values == [7] * 8 and cache.stats().builds == 1 and cache.stats().hits == 7


def test_forking(cache: GraphCache, native: Root) -> None:
    """A child forked before, or while something is built, uses the cache on, and its parent too."""
    cache.get_or_build(half, 2)
    with forked() as in_child:
        assert cache.get_or_build(half, 2) == 1.0
        assert cache.get_or_build(half, 3 if in_child else 4) in (1.5, 2.0)
    assert cache.get_or_build(half, 3) == 1.5 and cache.stats().builds == 2
    is_building, is_forked = threading.Event(), threading.Event()

    def wait() -> None:
        is_building.set()
        assert is_forked.wait(LIMIT_S)

    building = threading.Thread(target=cache.get_or_build, args=(slow, 9, Meanwhile(wait)))
    building.start()
    assert is_building.wait(LIMIT_S)
    with forked() as in_child:
        is_forked.set()
        if in_child:
            assert cache.get_or_build(slow, 9, Meanwhile(wait)) == 9
    building.join()
    assert cache.get_or_build(slow, 9, Meanwhile(wait)) == 9


def test_a_cache_can_be_sent_to_other_processes(cache: GraphCache) -> None:
    """Pickled, it is another one for the same root."""
    cache.get_or_build(half, 2)
    other = pickle.loads(pickle.dumps(cache))
    assert other.load(half, 2) == 1.0 and repr(other) == repr(cache) and str(cache.root) in repr(cache)


def test_partial_functions(cache: GraphCache) -> None:
    """A partial function has a key of what it holds."""
    assert same(cache.get_or_build(functools.partial(ramp, theta=2.0), 3), ramp(3, 2.0))
    assert same(cache.get_or_build(functools.partial(ramp, theta=2.0), 3), ramp(3, 2.0))
    assert same(cache.get_or_build(functools.partial(ramp, theta=3.0), 3), ramp(3, 3.0))
    assert cache.stats().hits == 1


def captured(values: Any) -> Callable[[], Any]:
    def build() -> Any:
        return values * 2

    return build


@pytest.mark.full
def test_a_closure_over_arrays(cache: GraphCache) -> None:
    """Arrays that a function closes over are part of its key, those of JAX too."""
    import jax.numpy as jnp

    for make in (np.ones, jnp.ones):
        assert np.array_equal(cache.get_or_build(captured(make(3))), [2, 2, 2])
        assert np.array_equal(cache.get_or_build(captured(make(3))), [2, 2, 2])
        assert np.array_equal(cache.get_or_build(captured(make(3) * 2)), [4, 4, 4])
    assert (cache.stats().hits, cache.stats().builds) == (2, 4)
    assert type(cache.get_or_build(captured(jnp.ones(3)))) is type(jnp.ones(3))
