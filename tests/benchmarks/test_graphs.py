"""Loading a graph against phasic's JSON, numpy's own file of the same arrays and joblib's cache, in one run.

    pytest tests/benchmarks/test_graphs.py --benchmark-only -s

The graph is the coalescent of 34 samples, with 12,311 vertices, as phasic 0.32.1 stores it. Its JSON is read by
phasic's own function if phasic is installed, else by one that does the same.
"""

import importlib
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jcache import FileCodec, GraphCache
from jcache.formats import pytrees
from jcache.formats.envelope import Codec, seal
from jcache.store import verified_files
from jcache.store.mapped import open_sealed
from tests.benchmarks.measure import compare

SAMPLES = 34
ROUNDS = 15


def partitions(total: int, largest: int) -> Iterator[list[int]]:
    """How a number is a sum of positive ones, the largest first."""
    if total == 0:
        yield []
    for part in range(min(total, largest), 0, -1):
        for rest in partitions(total - part, part):
            yield [part, *rest]


def coalescent(samples: int) -> dict[str, Any]:
    """States and edges in the arrays that phasic serializes."""
    states = [tuple(np.bincount(parts, minlength=samples + 1)[1:]) for parts in partitions(samples, samples)]
    states.sort(key=lambda state: (-sum(state), state))
    index = {state: number for number, state in enumerate(states, 1)}
    edges = []
    for state, number in index.items():
        present = [size for size, count in enumerate(state) if count]
        for i, j in ((i, j) for i in present for j in present if i < j or (i == j and state[i] > 1)):
            rate = state[i] * (state[i] - 1) / 2 if i == j else state[i] * state[j]
            merged = list(state)
            merged[i] -= 1
            merged[j] -= 1
            merged[i + j + 1] += 1
            edges.append((number, index[tuple(merged)], rate))
    count = len(states) + 1
    return {
        "states": np.array([(0,) * samples, *states], np.int32),
        "vertex_indices": np.arange(count, dtype=np.int32),
        "edges": np.zeros((0, 3)),
        "constant_edges": np.zeros((0, 3)),
        "start_edges": np.ones((1, 2)),
        "param_edges": np.array(edges, np.float64),
        "start_param_edges": np.zeros((0, 2)),
        "param_length": 1,
        "state_length": samples,
        "n_vertices": count,
        "weight_mode": "linear",
        "dyn_ordering": False,
    }


@pytest.fixture(scope="module", name="graph")
def graph_fixture() -> dict[str, Any]:
    graph = coalescent(SAMPLES)
    assert graph["states"].shape == (12_311, SAMPLES) and graph["param_edges"].shape == (120_746, 3)
    return graph


@pytest.fixture(name="ours")
def ours_fixture(graph: dict[str, Any], tmp_path: Path) -> Callable[[], object]:
    """Verifies and loads it from an entry."""
    path = tmp_path / "entry"
    pieces = pytrees.dump(graph).pieces
    path.write_bytes(seal(pieces, kind="graphs", name="f", key="k", build_seconds=1.7, created_ns=1, codec=Codec.NONE))

    def load() -> object:
        return pytrees.load(open_sealed(str(path))[1])

    found: Any = load()
    assert found.keys() == graph.keys() and all(np.array_equal(found[name], graph[name]) for name in graph)
    print(f"\nentry: {path.stat().st_size:,} bytes")
    return load


def as_phasic_reads(value: Any) -> Any:
    """Return what phasic makes of JSON."""
    if isinstance(value, list):
        return [as_phasic_reads(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("__type__") == "ndarray":
        return np.array(as_phasic_reads(value["__data__"]))
    return {name: as_phasic_reads(item) for name, item in value.items()}


def phasic_reader() -> Callable[[Any], Any]:
    """Return phasic's reader if phasic is installed, else one that does the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has some when it is imported
        try:
            return importlib.import_module("phasic.graph_cache")._deserialize_value  # type: ignore[no-any-return]
        except ImportError:
            return as_phasic_reads


def test_load_against_phasic(benchmark: Any, graph: dict[str, Any], ours: Callable[[], object], tmp_path: Path) -> None:
    """Loading is at least twenty times as fast as phasic's reading of JSON, before it makes its own objects."""
    read = phasic_reader()
    path = tmp_path / "graph.json"
    data = {
        name: {"__type__": "ndarray", "__data__": value.tolist()} if isinstance(value, np.ndarray) else value
        for name, value in graph.items()
    }
    path.write_text(json.dumps({"version": "0.20.0", "graph_data": data}, indent=2))

    def peer() -> object:
        with open(path) as file:
            return read(json.load(file)["graph_data"])

    print(f"\n{path.stat().st_size:,} bytes of JSON, read by {read.__module__}")
    ratio = compare(benchmark, ours, peer, time.perf_counter, ROUNDS)
    print(f"{1 / ratio:.0f} x as fast as phasic's JSON")
    assert ratio <= 1 / 20


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["npz", "compressed npz"])
def test_load_against_numpy(
    benchmark: Any, graph: dict[str, Any], ours: Callable[[], object], tmp_path: Path, save: Callable[..., None]
) -> None:
    """Loading, which verifies every bit, takes at most twice as long as `numpy.load` for the same arrays."""
    path = tmp_path / "graph.npz"
    save(path, **{name: value for name, value in graph.items() if isinstance(value, np.ndarray)})

    def peer() -> object:
        with np.load(path) as arrays:
            return dict(arrays)

    print(f"\n{path.stat().st_size:,} bytes of .npz")
    assert compare(benchmark, ours, peer, time.perf_counter, ROUNDS) <= 2


# -- against joblib


def small(number: int, theta: float = 1.0) -> dict[str, Any]:
    return {"number": number, "theta": theta, "names": ["a", "b"], "rate": number * theta}


def large(size: int) -> np.ndarray[Any, Any]:
    return np.arange(size, dtype=np.float64)


def save(value: Any, path: str) -> None:
    with open(path, "wb") as file:
        np.save(file, value)


def load(path: str) -> Any:
    return np.load(path)


ROWS: dict[str, tuple[Callable[..., Any], int, FileCodec | None, float]] = {
    "small dictionary": (small, 3, None, 0.8),
    "4 MB array": (large, 500_000, None, 0.6),
    "4 MB file": (large, 500_000, FileCodec(save, load), 1.2),  # the key of a call has the codec's functions in it
}


@pytest.fixture(name="joblib")
def joblib_fixture() -> Any:
    return pytest.importorskip("joblib")


def read(value: Any) -> Any:
    """Return something for which all of a value is read."""
    return float(value.sum()) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("row", ROWS)
def test_hits_against_joblib(benchmark: Any, joblib: Any, tmp_path: Path, row: str) -> None:
    """A hit whose value is read takes less time than that of `joblib.Memory`, of a file about the same."""
    function, argument, codec, most = ROWS[row]
    cache = GraphCache(tmp_path / "ours", codec=codec)
    memory = joblib.Memory(tmp_path / "joblib", verbose=0).cache(function)

    def ours() -> object:
        return read(cache.get_or_build(function, argument))

    def peer() -> object:
        return read(memory(argument))

    assert ours() == peer() == ours()
    time.sleep(0.1)  # so that the files are older than the steps in which their change times are counted
    ratio = compare(benchmark, ours, peer, time.perf_counter, 100)
    assert cache.stats().builds == 1 and ratio <= most


@pytest.mark.parametrize("row", ["small dictionary", "4 MB array"])
def test_the_first_hit_of_a_process_against_joblib(benchmark: Any, joblib: Any, tmp_path: Path, row: str) -> None:
    """A hit of an entry that this process has not verified, which joblib never does, takes at most three
    times as long.
    """
    function, argument, codec, _ = ROWS[row]
    root = tmp_path / "ours"
    memory = joblib.Memory(tmp_path / "joblib", verbose=0).cache(function)

    def ours() -> object:
        verified_files.forget_all()
        return read(cache.get_or_build(function, argument))

    def peer() -> object:
        return read(memory(argument))

    cache = GraphCache(root, codec=codec)
    assert ours() == peer() == ours()
    cache.flush()
    time.sleep(0.1)
    assert compare(benchmark, ours, peer, time.perf_counter, 100) <= 3


def test_puts_against_joblib(benchmark: Any, joblib: Any, tmp_path: Path) -> None:
    """Storing a small value, which is recorded, compared and protected from other builders, takes at most three times
    as long as `joblib.Memory` needs.
    """
    cache = GraphCache(tmp_path / "ours")
    memory = joblib.Memory(tmp_path / "joblib", verbose=0).cache(small)
    numbers = itertools.count()
    compare(
        benchmark, lambda: cache.get_or_build(small, next(numbers)), lambda: memory(next(numbers)), time.perf_counter,
        300,
    )  # fmt: skip
    assert benchmark.extra_info["ratio to the peer"] <= 3
