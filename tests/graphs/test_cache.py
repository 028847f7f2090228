"""Graphs in a program: what is served, what is built, what is never stored, and that nothing fails the program."""

import asyncio
import functools
import os
import pickle
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import jcache
from jcache import GraphCache, GraphKeyError, NotStorable, clock, graph
from jcache.errors import InvalidValue
from jcache.findings import Damage
from jcache.formats.envelope import Codec, seal
from jcache.graphs import graph_lookup
from jcache.layout import Kind, Root
from jcache.runtime import sealed_store
from jcache.store.economics import Economics
from jcache.store.ledger import Ledger
from jcache.store.quarantine import Quarantine
from jcache.store.roots import InUse, create_root, in_use, put_in_use
from tests.helpers.clocks import waits_for_locks
from tests.helpers.entries import HOLD_LOCK, mounted_read_only, process, recency_of, tree
from tests.helpers.graph_programs import forked, graph_file, graphs_of
from tests.helpers.waiting import LIMIT_S, until

FACTOR = 3


def half(n: int) -> float:
    return n / 2


def ramp(n: int, theta: float = 1.0) -> dict[str, Any]:
    """A graph: arrays and plain values."""
    return {"values": np.arange(n) * theta * FACTOR, "half": half(n), "names": ("a", None)}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (
        one.keys() == other.keys() and np.array_equal(one["values"], other["values"]) and one["half"] == other["half"]
    )


@pytest.fixture
def cache(native: Root) -> Iterator[GraphCache]:
    cache = GraphCache(native.path)
    yield cache
    cache.flush()


@pytest.fixture(autouse=True)
def nothing_in_use(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No root is enabled or named by the environment, and everything is said anew."""
    from jcache.runtime import warn

    for name in ("JCACHE_DIR", "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    warn.warn_once.forget()
    before = in_use()
    yield
    put_in_use(before)


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


def test_the_decorator(native: Root) -> None:
    """A decorated function is called as before, and says what it is, has a cache, explains, and builds without it."""
    decorated = graph(root=native.path)(ramp)
    assert same(decorated(4), ramp(4)) and same(decorated(4, theta=1.0), ramp(4))
    assert decorated.cache.stats().hits == 1
    assert decorated.__name__ == "ramp" and decorated.__doc__ == ramp.__doc__
    assert decorated.build is ramp and same(decorated.build(4), ramp(4)) and decorated.cache.stats().hits == 1
    assert decorated.explain(4).hit and not decorated.explain(5).hit


class Model:
    """Has methods that build graphs; its state is part of their keys."""

    def __init__(self, scale: int) -> None:
        self.scale = scale

    def plain(self, n: int) -> list[int]:
        return [self.scale * i for i in range(n)]

    @graph
    def decorated(self, n: int) -> list[int]:
        return [self.scale * i for i in range(n)]

    @classmethod
    @graph
    def of_class(cls, n: int) -> str:
        return f"{cls.__name__}{n}"

    @staticmethod
    @graph
    def static(n: int) -> int:
        return n + 1


def test_methods(cache: GraphCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound methods and decorated ones count the instance's state among the arguments."""
    monkeypatch.setenv("JCACHE_DIR", str(cache.root))
    for scale in (2, 3):
        model = Model(scale)
        for _ in range(2):
            assert cache.get_or_build(model.plain, 3) == model.decorated(3) == [0, scale, 2 * scale]
    assert Model.of_class(1) == Model(1).of_class(1) == "Model1" and Model.static(1) == 2  # type: ignore[arg-type, call-arg]
    assert (cache.stats().hits, Model.decorated.cache.stats().hits) == (2, 2)
    assert Model.decorated.explain(Model(2), 3).hit and not Model.decorated.explain(Model(4), 3).hit


def test_only_functions_are_decorated() -> None:
    """What a class method is before it is bound is none."""
    with pytest.raises(InvalidValue, match="below @classmethod"):
        graph(3)  # type: ignore[call-overload]
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


def test_the_root_that_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a root it is the one in use, else the environment's, each time as it is then; a plain one stays plain."""
    cache = GraphCache()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "jax"))
    assert cache.root == tmp_path / "jax" and not (tmp_path / "jax" / "CACHEDIR.TAG").exists()
    monkeypatch.setenv("JCACHE_DIR", str(tmp_path / "ours"))
    assert cache.root == tmp_path / "ours" and (tmp_path / "ours" / "CACHEDIR.TAG").exists()
    enabled = create_root(tmp_path / "enabled")
    put_in_use(InUse(enabled))
    cache.get_or_build(ramp, 3)
    assert cache.root == enabled.path and len(graphs_of(enabled)) == 1
    put_in_use(None)
    assert cache.root == tmp_path / "ours"


def test_a_relative_root_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that changes its directory, while it builds or later, goes on with the same root."""
    monkeypatch.chdir(tmp_path)
    cache = GraphCache("cache")
    (tmp_path / "elsewhere").mkdir()
    cache.get_or_build(go, "elsewhere")
    cache.get_or_build(half, 4)
    assert cache.get_or_build(half, 4) == 2.0 and cache.stats().hits == 1
    assert len(graphs_of(Root(tmp_path / "cache", plain=False))) == 2
    assert os.listdir(tmp_path / "elsewhere") == []


def go(where: str) -> str:
    os.chdir(where)
    return where


def test_read_only_roots_are_read_through(native: Root, tmp_path: Path) -> None:
    """What the first root lacks is looked for in the others, in their order, and nothing is written there."""
    shared = create_root(tmp_path / "shared")
    team = GraphCache(shared.path)
    team.get_or_build(ramp, 3)
    team.flush()
    before = tree(shared.path)
    cache = GraphCache(native.path, read_only=[tmp_path / "absent", shared.path])
    with pytest.warns(UserWarning, match="There is no cache at"):
        assert same(cache.get_or_build(ramp, 3), ramp(3))
    assert cache.stats().hits == 1 and graphs_of(native) == []
    cache.get_or_build(ramp, 4)
    assert len(graphs_of(native)) == 1 and tree(shared.path) == before


def test_a_root_that_cannot_be_written_still_hits(native: Root, cache: GraphCache) -> None:
    """A read-only root serves; what it lacks is built, and one warning says so."""
    cache.get_or_build(ramp, 3)
    cache.flush()
    with mounted_read_only(native.path):
        fresh = GraphCache(native.path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert same(fresh.get_or_build(ramp, 3), ramp(3))
        with pytest.warns(UserWarning, match="read-only") as said:
            assert same(fresh.get_or_build(ramp, 4), ramp(4)) and same(fresh.get_or_build(ramp, 5), ramp(5))
        assert len(said) == 1 and said[0].filename == __file__
    stats = fresh.stats()
    assert (stats.hits, stats.builds, stats.stored) == (1, 2, 0)
    assert dict(stats.not_stored) == {"the cache cannot be written": 2}


def test_there_is_no_root(tmp_path: Path) -> None:
    """Where no root can be, functions are called as ever, and one warning says why."""
    (tmp_path / "file").write_text("something else")
    cache = GraphCache(tmp_path / "file")
    with pytest.warns(UserWarning, match="none is stored") as said:
        assert same(cache.get_or_build(ramp, 3), ramp(3)) and cache.load(ramp, 3) is None
    assert len(said) == 1
    assert cache.save(1, ramp, 3) is None and cache.clear() is None and cache.root is None
    assert "no root" in cache.explain(ramp, 3).reason
    assert cache.stats().builds == 1


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


@pytest.mark.parametrize("position", [0, 15, 100, 400, -1])
def test_a_changed_bit(native: Root, cache: GraphCache, position: int) -> None:
    """A damaged graph is not served: it goes to quarantine, and is built and stored anew in the same call."""
    cache.get_or_build(ramp, 3)
    path = graph_file(native)
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    with pytest.warns(UserWarning, match="in quarantine now"):
        assert same(cache.get_or_build(ramp, 3), ramp(3))
    (record,) = Quarantine(native).records()
    assert record.damage is Damage.SEAL and record.kind is Kind.GRAPHS
    assert same(cache.get_or_build(ramp, 3), ramp(3)) and cache.stats().hits == 1


@pytest.mark.full
@pytest.mark.parametrize("what", ["empty", "directory", "link", "another graph", "another version"])
def test_something_else_has_its_name(native: Root, cache: GraphCache, tmp_path: Path, what: str) -> None:
    """What is no graph of the key is set aside, not followed and not served."""
    cache.get_or_build(ramp, 3)
    path = graph_file(native)
    other = seal(b"", kind="graphs", name="x", key=f"x-{'0' * 64}", build_seconds=1.0, created_ns=1, codec=Codec.NONE)
    content = {"empty": b"", "another graph": other, "another version": b"\x89jcache\n\0\0\0\2" + other[12:]}
    data = path.read_bytes()
    path.unlink()
    if what == "directory":
        path.mkdir()
    elif what == "link":
        (tmp_path / "real").write_bytes(data)
        path.symlink_to(tmp_path / "real")
    else:
        path.write_bytes(content[what])
    with pytest.warns(UserWarning, match="was damaged"):
        assert same(cache.get_or_build(ramp, 3), ramp(3))
    assert same(cache.get_or_build(ramp, 3), ramp(3)) and cache.stats().hits == 1


def test_a_damaged_graph_of_a_read_only_root(native: Root, tmp_path: Path) -> None:
    """It is passed over and left, with one warning."""
    shared = create_root(tmp_path / "shared")
    GraphCache(shared.path).get_or_build(ramp, 3)
    path = graph_file(shared)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="is not used"):
        assert same(GraphCache(native.path, read_only=shared.path).get_or_build(ramp, 3), ramp(3))
    assert path.exists() and len(graphs_of(native)) == 1


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


class State:
    """What a function may change."""

    table: ClassVar[dict[str, int]] = {}


def remembers(n: int) -> int:
    State.table[str(n)] = n
    return n


def test_a_function_that_changes_its_inputs(cache: GraphCache, native: Root) -> None:
    """Its value is returned and not stored, since it would be found under inputs of another time; it is said once."""
    with pytest.warns(UserWarning, match=r"`mutates` is not stored.*changes its key") as said:
        assert [cache.get_or_build(mutates, [1, 2]) for _ in range(3)] == [3, 3, 3]
    assert len(said) == 1
    assert graphs_of(native) == [] and cache.stats().hits == 0
    assert dict(cache.stats().not_stored) == {"what it is built from changed meanwhile": 3}


def test_a_function_that_fills_a_memo(cache: GraphCache, native: Root) -> None:
    """Its value is stored: a container that only grew is no input that changed."""
    assert cache.get_or_build(remembers, 1) == 1
    assert len(graphs_of(native)) == 1


async def coroutine(n: int) -> int:
    return n


def generator(n: int) -> Generator[int]:
    yield from range(n)


def a_lock(n: int) -> list[Any]:
    return [n, {"lock": threading.Lock()}]


@pytest.mark.parametrize(
    ("function", "use", "part"),
    [
        (coroutine, asyncio.run, "coroutine"),
        (generator, list, "generator"),
        (a_lock, len, r"\[1\]\['lock'\]"),
    ],
)
def test_a_value_that_cannot_be_stored(
    cache: GraphCache, native: Root, function: Callable[..., Any], use: Callable[[Any], Any], part: str
) -> None:
    """It is returned as it is, can be used, and one warning names the part."""
    with pytest.warns(UserWarning, match=f"cannot be stored.*{part}") as said:
        assert [use(cache.get_or_build(function, 2)) for _ in range(2)] == [use(function(2))] * 2
    assert len(said) == 1 and said[0].filename == __file__
    assert graphs_of(native) == [] and dict(cache.stats().not_stored) == {"the value cannot be stored": 2}
    with pytest.raises(NotStorable):
        cache.save(threading.Lock(), half, 2)


CONNECTION: Iterator[int] = iter(())  # which reading uses up


def connected(n: int) -> int:
    return n + len(list(CONNECTION))


def test_a_function_without_a_key(cache: GraphCache, native: Root) -> None:
    """It is called without the cache, and one warning says why and what to do; save raises, explain tells."""
    with pytest.warns(
        UserWarning, match=r"(?s)`connected` is built without the cache: .*CONNECTION.*__cache_key__"
    ) as said:
        assert [cache.get_or_build(connected, i) for i in range(3)] == [0, 1, 2]
    assert cache.load(connected, 1) is None
    assert len(said) == 1 and said[0].filename == __file__
    with pytest.raises(GraphKeyError, match="CONNECTION"):
        cache.save(1, connected, 1)
    explanation = cache.explain(connected, 1)
    assert explanation.key is None and "CONNECTION" in explanation.reason and "CONNECTION" in str(explanation)
    assert graphs_of(native) == [] and cache.stats().builds == 3


class Odd:
    """An argument whose own code fails."""

    def __cache_key__(self) -> str:
        raise RuntimeError("not today")


def takes(odd: object) -> int:
    return 1


def test_code_of_the_user_that_fails(cache: GraphCache) -> None:
    """A key that cannot be made, for whatever reason, is one that is not there."""
    with pytest.warns(UserWarning, match="not today"):
        assert cache.get_or_build(takes, Odd()) == 1


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


# -- save, load, explain, clear


def test_saving_and_loading(cache: GraphCache, native: Root) -> None:
    """A program can store what it has built by itself, in the place of what is there, and load without building."""
    assert cache.load(ramp, 3) is None and cache.stats().misses == 1
    key = cache.save(0.25, half, 3)
    assert graphs_of(native) == [key] and cache.load(half, 3) == 0.25
    assert cache.save(0.25, half, 3) == key and Quarantine(native).records() == []
    assert cache.save(0.75, half, 3) == key and cache.get_or_build(half, 3) == 0.75
    assert [record.damage for record in Quarantine(native).records()] == [Damage.REPLACED]
    assert cache.stats().slower == () and cache.stats().builds == 0


def test_explaining(cache: GraphCache, native: Root) -> None:
    """It says whether a call is a hit, and else what differs from the nearest graph; it builds and writes nothing."""
    assert cache.explain(ramp, 3).reason.startswith("nothing of this name")
    cache.get_or_build(ramp, 3)
    cache.get_or_build(ramp, 4, theta=2.0)
    cache.flush()
    before = tree(native.path)
    assert cache.explain(ramp, 3).hit and "hit" in str(cache.explain(ramp, 3))
    missed = cache.explain(ramp, 4, theta=3.0)
    assert not missed.hit and missed.nearest is not None and missed.nearest in graphs_of(native)
    assert len(missed.changes) == 1 and "2.0 → 3.0" in missed.changes[0] and "theta" in str(missed)
    assert pickle.loads(pickle.dumps(missed)) == missed
    assert tree(native.path) == before


def test_explaining_a_changed_helper_and_global(cache: GraphCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a function reaches is named."""
    cache.get_or_build(ramp, 3)
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "FACTOR", 4)
    (change,) = cache.explain(ramp, 3).changes
    assert "FACTOR" in change and "3 → 4" in change
    monkeypatch.setattr(module, "FACTOR", 3)
    monkeypatch.setattr(module, "half", third)
    assert any("half" in change or "third" in change for change in cache.explain(ramp, 3).changes)
    assert cache.get_or_build(ramp, 3)["half"] == 1.0
    monkeypatch.undo()
    assert cache.get_or_build(ramp, 3)["half"] == 1.5 and cache.stats().hits == 1


def third(n: int) -> float:
    return n / 3


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


def test_a_closure_over_arrays(cache: GraphCache) -> None:
    """Arrays that a function closes over are part of its key, those of JAX too."""
    import jax.numpy as jnp

    for make in (np.ones, jnp.ones):
        assert np.array_equal(cache.get_or_build(captured(make(3))), [2, 2, 2])
        assert np.array_equal(cache.get_or_build(captured(make(3))), [2, 2, 2])
        assert np.array_equal(cache.get_or_build(captured(make(3) * 2)), [4, 4, 4])
    assert (cache.stats().hits, cache.stats().builds) == (2, 4)
    assert type(cache.get_or_build(captured(jnp.ones(3)))) is type(jnp.ones(3))
