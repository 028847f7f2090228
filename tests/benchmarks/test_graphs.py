"""Loading a graph against phasic's JSON and against numpy's own file of the same arrays, in one run.

    pytest tests/benchmarks/test_graphs.py --benchmark-only -s

The graph is the coalescent of 34 samples, with 12,311 vertices, as phasic 0.32.1 stores it. Its JSON is read by
phasic's own function if phasic is installed, else by one that does the same.
"""

import importlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jcache.formats import pytrees
from jcache.formats.envelope import Codec, seal
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
        return pytrees.load(open_sealed(path)[1])

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
