"""Builders of values of scipy, pandas and networkx, each the same for the same numbers, and what compares two of them.

As a program it loads the graphs of calls, given as JSON, without running their functions, and compares each with what
the function builds:

    python -m tests.helpers.package_values ROOT < CALLS
"""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from jcache import GraphCache

DTYPES = ("float64", "float32", "int8", "int64", "complex64", "bool")


def sparse(form: str, kind: str, rows: int, columns: int, dtype: str, seed: int, touched: str) -> Any:
    """Return a sparse matrix or array; `touched` tells which of its flags are known."""
    sp, rng = import_module("scipy.sparse"), np.random.default_rng(seed)
    count = int(rng.integers(0, rows * columns + 1))
    where = rng.integers(0, rows, count), rng.integers(0, columns, count)
    values = rng.integers(0, 3, count).astype(dtype)
    matrix = getattr(sp, f"coo_{kind}")((values, where), shape=(rows, columns))
    if touched == "summed":
        matrix.sum_duplicates()
    matrix = getattr(sp, f"{form}_{kind}")(matrix)
    if touched == "asked":
        getattr(matrix, "has_sorted_indices", None)
        getattr(matrix, "has_canonical_format", None)
    if touched == "wide" and form in {"csr", "csc", "bsr"}:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    if touched == "reversed" and form in {"csr", "csc"}:
        matrix.indices, matrix.data = matrix.indices[::-1], matrix.data[::-1].copy()
        matrix.has_sorted_indices = False
    return matrix


def tree(kind: str, count: int, dimensions: int, seed: int, options: dict[str, Any]) -> Any:
    """Return a search tree or a triangulation of random points."""
    points = np.random.default_rng(seed).random((count, dimensions))
    return getattr(import_module("scipy.spatial"), kind)(points, **options)


def network(kind: str, nodes: list[Any], edges: list[tuple[int, int, Any]], removed: int) -> Any:
    """Return a graph with attributes; `removed` is the number of the node that was removed and is new again."""
    graph = getattr(import_module("networkx"), kind)(made_of=[removed])
    graph.add_nodes_from(
        (node if not isinstance(node, list) else tuple(node), {"place": n}) for n, node in enumerate(nodes)
    )
    names = list(graph)
    for one, other, weight in edges:
        graph.add_edge(names[one % len(names)], names[other % len(names)], weight=weight, at=np.arange(one % 3))
    graph.remove_node(names[removed % len(names)])
    graph.add_node(names[removed % len(names)])
    graph.adj, graph.nodes, graph.edges  # noqa: B018  which are kept in the graph then
    return graph


def column(kind: str, rows: int, seed: int) -> Any:
    """Return the values of a column."""
    pd, rng = import_module("pandas"), np.random.default_rng(seed)
    numbers, gone = rng.integers(0, 4, rows), rng.random(rows) < 0.3
    some = [None if lost else int(number) for number, lost in zip(numbers, gone, strict=True)]
    texts = [None if each is None else "äbc"[each:] for each in some]
    makers: dict[str, Callable[[], Any]] = {
        "texts": lambda: texts,
        "objects": lambda: pd.Series([pd.NA if each is None else [each, str(each), (each,), 1.5, pd.NaT][each + 1]
                                      for each in some], dtype=object),
        "categories": lambda: pd.Categorical(texts, categories=["c", "bc", "äbc", "", "z"], ordered=seed % 2 == 0),
        "times": lambda: pd.to_datetime(pd.Series(numbers), unit="D").dt.as_unit(["s", "ns"][seed % 2]),
        "zoned": lambda: pd.to_datetime(pd.Series(numbers), unit="h").dt.tz_localize("UTC").dt.tz_convert(
            ["UTC", "Europe/Berlin", "+02:30"][seed % 3]),
        "spans": lambda: pd.to_timedelta(pd.Series(numbers), unit="h"),
        "Int64": lambda: pd.array(some, dtype="Int64"),
        "Float32": lambda: pd.array(some, dtype="Float32"),
        "boolean": lambda: pd.array([each and each > 1 for each in some], dtype="boolean"),
        "python texts": lambda: pd.array(texts, dtype="string[python]"),
        "arrow texts": lambda: pd.array(texts, dtype="string[pyarrow]"),
        "periods": lambda: pd.PeriodIndex.from_ordinals(numbers, freq=["M", "D"][seed % 2]).array,
        "ranges": lambda: pd.arrays.IntervalArray.from_arrays(numbers, numbers + 1, closed="left"),
    }  # fmt: skip
    return makers[kind]() if kind in makers else numbers.astype(kind)


def index(kind: str, rows: int, seed: int, name: Any) -> Any:
    """Return an index of rows."""
    pd = import_module("pandas")
    name = tuple(name) if isinstance(name, list) else name
    if kind == "range":
        return pd.RangeIndex(seed, seed + 2 * rows, 2, name=name)
    if kind == "days":
        return pd.date_range("2020-01-03", periods=rows, freq=["D", "B", "MS"][seed % 3], name=name)
    if kind == "levels":
        rng = np.random.default_rng(seed)
        return pd.MultiIndex.from_arrays([rng.integers(0, 3, rows), [*map(str, range(rows))]], names=[name, None])
    return pd.Index(column(kind, rows, seed), name=name)


def table(kinds: list[str], rows: int, labels: str, seed: int, name: Any, unique: bool) -> Any:
    """Return a table of such columns."""
    pd = import_module("pandas")
    frame = pd.DataFrame({n: column(kind, rows, seed + n) for n, kind in enumerate(kinds)}, index=range(rows))
    frame.index = index(labels, rows, seed, name)
    frame.columns = pd.Index(
        [f"c{n}" for n in range(len(kinds))], name=name if not isinstance(name, list) else tuple(name)
    )
    frame.attrs["of"] = {"seed": seed}
    return frame.set_flags(allows_duplicate_labels=not unique) if frame.index.is_unique else frame


def series(kind: str, rows: int, labels: str, seed: int, name: Any) -> Any:
    """Return a column with labels."""
    made = import_module("pandas").Series(
        column(kind, rows, seed), name=tuple(name) if isinstance(name, list) else name
    )
    made.index = index(labels, rows, seed, name)
    return made


BUILDERS = {each.__name__: each for each in (sparse, tree, network, table, series)}


def same(one: Any, other: Any) -> bool:
    """Return whether two such values are the same in every bit, order and flag."""
    if type(one) is not type(other):
        return False
    package = type(one).__module__.partition(".")[0]
    if package == "pandas":
        return _same_pandas(one, other)
    if package == "networkx":
        return _same_networks(one, other)
    if package == "scipy" and hasattr(one, "nnz"):
        return same(vars(one), vars(other))
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tolist() if one.dtype.hasobject else one.tobytes()) == (
            other.dtype, other.shape, other.tolist() if other.dtype.hasobject else other.tobytes(),
        )  # fmt: skip
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "leafsize"):
        return all(
            same(getattr(one, each), getattr(other, each)) for each in ("data", "indices", "mins", "boxsize")
        ) and (same(*(each.query(one.data, k=2) if one.n else () for each in (one, other))))
    if hasattr(one, "simplices"):
        return all(same(getattr(one, each), getattr(other, each)) for each in ("points", "simplices", "neighbors"))
    return bool(one == other)


def _same_pandas(one: Any, other: Any) -> bool:
    testing, pd = import_module("pandas.testing"), import_module("pandas")
    try:
        if isinstance(one, pd.DataFrame):
            testing.assert_frame_equal(one, other, check_exact=True, check_freq=True, check_column_type=True)
        else:
            testing.assert_series_equal(one, other, check_exact=True, check_freq=True)
    except AssertionError:
        return False
    labels = [one.index, other.index]
    return (
        one.attrs == other.attrs
        and one.flags.allows_duplicate_labels == other.flags.allows_duplicate_labels
        and labels[0].identical(labels[1])
        and getattr(labels[0], "freq", None) == getattr(labels[1], "freq", None)
    )


def _same_networks(one: Any, other: Any) -> bool:
    views = [
        [each.graph, list(each.nodes(data=True)), [(node, list(each.adj[node].items())) for node in each.adj],
         [(node, list(each.pred[node])) for node in each] if each.is_directed() else None]
        for each in (one, other)
    ]  # fmt: skip
    return repr(views[0]) == repr(views[1])


def main(root: str) -> None:
    cache = GraphCache(root, check="never")
    wrong = []
    for name, arguments in json.load(sys.stdin):
        found = cache.load(BUILDERS[name], **arguments)
        if found is None or not same(found, BUILDERS[name](**arguments)):
            wrong.append([name, arguments])
    print(json.dumps(wrong))


if __name__ == "__main__":
    from tests.helpers import package_values  # the functions' module is then the one of whoever has stored

    package_values.main(sys.argv[1])
