"""Graphs that are values of scipy, pandas and networkx: the next process gets the very same, or they are not stored."""

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from jcache import GraphCache
from jcache.layout import Root
from tests.helpers import package_values
from tests.helpers.graph_programs import graph_file
from tests.helpers.package_values import BUILDERS, DTYPES, network, same, series, sparse, table, tree

HOME = Path(__file__).parents[2]
seeds, names = st.integers(0, 99), st.sampled_from([None, "name", 3, ["two", 1]])
kinds = st.sampled_from([
    *DTYPES, "float16", "texts", "objects", "categories", "times", "zoned", "spans", "Int64", "Float32", "boolean",
    "python texts", "arrow texts", "periods", "ranges",
])  # fmt: skip
labels = st.sampled_from(
    ["range", "days", "levels", "int64", "float64", "texts", "categories", "zoned", "Int64", "periods"]
)
nodes = st.integers() | st.text(max_size=3) | st.lists(st.integers(0, 3), min_size=1, max_size=2) | st.booleans()
weights = st.floats(allow_nan=False) | st.text(max_size=2)
CALLS: dict[str, tuple[str, st.SearchStrategy[dict[str, Any]]]] = {
    "sparse": ("scipy", st.fixed_dictionaries({
        "form": st.sampled_from(["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]),
        "kind": st.sampled_from(["matrix", "array"]), "rows": st.integers(1, 5), "columns": st.integers(1, 5),
        "dtype": st.sampled_from(DTYPES), "seed": seeds,
        "touched": st.sampled_from(["", "summed", "asked", "wide", "reversed"]),
    })),
    "tree": ("scipy", st.fixed_dictionaries({
        "kind": st.sampled_from(["KDTree", "cKDTree"]), "count": st.integers(1, 60), "dimensions": st.integers(1, 3),
        "seed": seeds, "options": st.fixed_dictionaries({}, optional={
            "leafsize": st.integers(1, 9), "balanced_tree": st.booleans(), "compact_nodes": st.booleans(),
            "boxsize": st.sampled_from([1.5, 2.0]),
        }),
    }) | st.fixed_dictionaries({
        "kind": st.just("Delaunay"), "count": st.integers(6, 40), "dimensions": st.integers(2, 3), "seed": seeds,
        "options": st.just({}),
    })),
    "network": ("networkx", st.fixed_dictionaries({
        "kind": st.sampled_from(["Graph", "DiGraph", "MultiGraph", "MultiDiGraph"]),
        "nodes": st.lists(nodes, min_size=1, max_size=5),
        "edges": st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), weights), max_size=9),
        "removed": st.integers(0, 5),
    })),
    "table": ("pandas", st.fixed_dictionaries({
        "kinds": st.lists(kinds, max_size=4), "rows": st.integers(0, 6), "labels": labels, "seed": seeds, "name": names,
        "unique": st.booleans(),
    })),
    "series": ("pandas", st.fixed_dictionaries({
        "kind": kinds, "rows": st.integers(0, 6), "labels": labels, "seed": seeds, "name": names,
    })),
}  # fmt: skip


@pytest.fixture(name="cache")
def cache_fixture(native: Root, monkeypatch: pytest.MonkeyPatch) -> GraphCache:
    """Return a cache for a process that has not imported the modules of other tests, which would count in each call."""
    for name in [name for name in sys.modules if ".test_" in name]:
        monkeypatch.delitem(sys.modules, name)
    return GraphCache(native.path, check="never")


def loaded_elsewhere(root: Root, calls: list[tuple[str, dict[str, Any]]]) -> Any:
    """Return the calls whose graphs another process does not load as they were built."""
    done = subprocess.run(
        [sys.executable, "-m", package_values.__name__, str(root.path)], input=json.dumps(calls), text=True,
        capture_output=True, cwd=HOME, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.full
@pytest.mark.whole
@pytest.mark.parametrize("name", CALLS)
def test_values_come_back_in_another_process(native: Root, cache: GraphCache, name: str) -> None:
    """Each value is stored, and the next process gets one with the same bits, labels, order, attributes and flags."""
    package, arguments = CALLS[name]
    pytest.importorskip(package)
    if package == "pandas":
        pytest.importorskip("pyarrow")
    calls: list[tuple[str, dict[str, Any]]] = []

    @settings(max_examples=40)
    @given(arguments)
    def store(given: dict[str, Any]) -> None:
        given = json.loads(json.dumps(given))
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="The graph")
            cache.get_or_build(BUILDERS[name], **given)
        found: Any = cache.load(BUILDERS[name], **given)
        built = BUILDERS[name](**given)
        assert same(found, built)
        if package == "pandas" and given["rows"] > 1 and given.get("kinds", [given.get("kind")])[:1] != ["objects"]:
            for each in (found, built):
                change_first(each)
            assert same(found, built)
        calls.append((name, given))

    store()
    assert loaded_elsewhere(native, calls) == []


def change_first(table: Any) -> None:
    """Change the first value of a table or column of pandas, if it has one."""
    if table.ndim == 1:
        table.iloc[0] = table.iloc[1]
    elif table.shape[1]:
        table.iloc[0, 0] = table.iloc[1, 0]


EXAMPLES: dict[str, tuple[str, Callable[[], Any]]] = {
    "sparse": ("scipy", lambda: sparse("csr", "array", 4, 4, "float64", 1, "")),
    "tree": ("scipy", lambda: tree("KDTree", 30, 2, 1, {})),
    "triangulation": ("scipy", lambda: tree("Delaunay", 30, 2, 1, {})),
    "network": ("networkx", lambda: network("DiGraph", [1, "a"], [(0, 1, 2.0)], 0)),
    "table": ("pandas", lambda: table(["float64", "texts"], 4, "days", 1, "name", True)),
    "series": ("pandas", lambda: series("zoned", 4, "levels", 1, "name")),
}


def example(name: str) -> Any:
    return EXAMPLES[name][1]()


@pytest.mark.full
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_damaged_value_is_built_again(native: Root, name: str) -> None:
    """An entry of which one bit was changed is set aside, and the value is built and stored again."""
    pytest.importorskip(EXAMPLES[name][0])
    GraphCache(native.path).get_or_build(example, name)
    path = graph_file(native)
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    cache = GraphCache(native.path)
    with pytest.warns(UserWarning, match="was damaged"):
        assert same(cache.get_or_build(example, name), example(name))
    assert cache.stats().builds == 1 and same(cache.get_or_build(example, name), example(name))
    assert cache.stats().hits == 1


@pytest.mark.full
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_change_to_a_value_changes_no_other(cache: GraphCache, name: str) -> None:
    """Each hit has memory of its own, and one value that is mentioned twice is one object in a hit."""
    pytest.importorskip(EXAMPLES[name][0])

    cache.save([example(name)] * 2, twice, name)
    first, again = cache.load(twice, name), cache.load(twice, name)
    assert first is not None and again is not None
    assert first[0] is first[1] and first[0] is not again[0]
    change(first[0])
    assert not same(first[0], again[0]) and same(again[0], example(name)) and same(cache.load(twice, name), again)


def twice(name: str) -> list[Any]:
    return [example(name)] * 2


def change(value: Any) -> None:
    """Change a value in place."""
    if hasattr(value, "simplices"):
        value.simplices[0] = 0
    elif hasattr(value, "iloc"):
        value.iloc[0] = value.iloc[1]
    elif hasattr(value, "add_node"):
        value.add_node("new")
    else:
        value.data[0] = 7


@pytest.mark.full
def test_matrices_share_arrays_as_they_did(cache: GraphCache) -> None:
    """Two matrices with the same indices, and the array that one was made of, share memory in a hit."""
    sp = pytest.importorskip("scipy.sparse")
    one = sparse("csr", "array", 5, 5, "float64", 3, "")
    other = sp.csr_array((one.data * 2, one.indices, one.indptr), shape=one.shape)
    cache.save([one, other, one.data], twice, "shared")
    found = cache.load(twice, "shared")
    assert found is not None and found[2] is found[0].data
    assert (found[0].indices is found[1].indices) == (one.indices is other.indices)
    assert np.shares_memory(found[0].indices, found[1].indices)
    assert not np.shares_memory(found[0].data, found[1].data)


class Unfit:
    """Values that cannot be made again of plain data."""

    @staticmethod
    def frozen() -> Any:
        networkx = pytest.importorskip("networkx")
        return networkx.freeze(networkx.path_graph(3))

    @staticmethod
    def view() -> Any:
        return pytest.importorskip("networkx").path_graph(3).subgraph([0, 1])

    @staticmethod
    def growing() -> Any:
        return pytest.importorskip("scipy.spatial").Delaunay(np.random.default_rng(1).random((9, 2)), incremental=True)

    @staticmethod
    def changed_tree() -> Any:
        made = pytest.importorskip("scipy.spatial").cKDTree(np.random.default_rng(1).random((40, 2)))
        made.data[0] = 9
        return made

    @staticmethod
    def other_options() -> Any:
        points = np.random.default_rng(1).random((9, 2))
        return pytest.importorskip("scipy.spatial").Delaunay(points, qhull_options="QJ Pp")

    @staticmethod
    def labelled() -> Any:
        matrix = sparse("csr", "matrix", 3, 3, "float64", 1, "")
        matrix.title = "mine"
        return matrix

    @staticmethod
    def objects() -> Any:
        return pytest.importorskip("pandas").Series([object()])

    @staticmethod
    def sparse_column() -> Any:
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame({"a": pandas.arrays.SparseArray([0, 0, 1])})

    @staticmethod
    def not_a_number() -> Any:
        made = pytest.importorskip("networkx").Graph()
        made.add_edge(float("nan"), 1)
        return made


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in vars(Unfit) if name[0] != "_"])
def test_what_would_not_come_back_is_not_stored(cache: GraphCache, name: str) -> None:
    """A value that would not come back as it is costs one warning, which names a codec, and is built each time."""
    build = getattr(Unfit, name)
    with pytest.warns(UserWarning, match="is not stored: The value cannot be stored") as told:
        cache.get_or_build(build)
    cache.get_or_build(build)
    assert len(told) == 1 and "codec=jcache.FileCodec(save, load)" in str(told[0].message)
    assert cache.stats().builds == 2 and cache.stats().stored == 0


PLAIN = """
import sys
import jcache
from jcache.formats import pytrees
pytrees.load(memoryview(bytearray(b"".join(pytrees.dump([1, {"a": (2.5, None)}]).pieces))))
for value in (object(), sys):
    try:
        pytrees.dump(value)
    except jcache.NotStorable:
        pass
print(*sorted({"scipy", "pandas", "networkx", "pyarrow", "jax", "numpy"} & sys.modules.keys()))
"""


def test_no_package_is_imported_to_find_out() -> None:
    """Storing and refusing plain values imports none of the packages whose values could be stored."""
    done = subprocess.run([sys.executable, "-c", PLAIN], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
