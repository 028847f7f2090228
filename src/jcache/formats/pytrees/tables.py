"""Tables, columns and indexes of pandas: arrays as they are, and Arrow's stream format for what pyarrow holds.

A table is stored by its columns, or by one array where all of them are of one of numpy's dtypes. What stands for their
values and labels is in `pandas_values`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from jcache.formats.pytrees.adapters import ClassAdapter
from jcache.formats.pytrees.grammar import Unsupported
from jcache.formats.pytrees.pandas_values import (
    array_of,
    index_of,
    is_of_numpy,
    is_same_index,
    plain_index,
    plain_values,
    writable,
)

# ruff: noqa: ANN401 - of a package that need not be installed

_HELD: Final = frozenset({"_mgr", "_item_cache", "_attrs", "_flags", "_name", "_cacher", "_is_copy"})


def _pandas() -> Any:
    return import_module("pandas")


# -- columns and tables


def _plain_series(series: Any) -> object:
    return {
        "values": plain_values(series),
        "index": plain_index(series.index), "name": series.name, **_more(series),
    }  # fmt: skip


def _series(_cls: Any, state: Any) -> Any:
    values = array_of(state["values"])
    series = _pandas().Series(
        values, dtype=values.dtype, index=index_of(state["index"]), name=state["name"], copy=False
    )  # fmt: skip
    return _with_more(series, state)


def _is_same_series(one: Any, other: Any) -> bool:
    return (
        one.dtype == other.dtype
        and type(one.array) is type(other.array)
        and type(getattr(one.dtype, "tz", None)) is type(getattr(other.dtype, "tz", None))
        and is_same_index(one.index, other.index)
    )


def _plain_frame(frame: Any) -> object:
    state = {"index": plain_index(frame.index), "columns": plain_index(frame.columns), **_more(frame)}
    dtypes = list(frame.dtypes)
    if dtypes and is_of_numpy(dtypes[0]) and not dtypes[0].hasobject and all(each == dtypes[0] for each in dtypes):
        return {**state, "block": writable(frame.to_numpy(dtype=dtypes[0]))}
    return {**state, "arrays": [plain_values(frame.iloc[:, number]) for number in range(len(dtypes))]}


def _frame(_cls: Any, state: Any) -> Any:
    pd, index, columns = _pandas(), index_of(state["index"]), index_of(state["columns"])
    if "block" in state:
        frame = pd.DataFrame(state["block"], index=index, columns=columns, copy=False)
    else:
        arrays = [array_of(each) for each in state["arrays"]]
        made = [pd.Series(each, dtype=each.dtype, index=index, copy=False) for each in arrays]
        frame = pd.DataFrame(dict(enumerate(made)), index=index, copy=False)
        frame.columns = columns
    return _with_more(frame, state)


def _is_same_frame(one: Any, other: Any) -> bool:
    if one.shape != other.shape or not is_same_index(one.columns, other.columns):
        return False
    columns = range(one.shape[1])
    return is_same_index(one.index, other.index) and all(
        _is_same_series(one.iloc[:, number], other.iloc[:, number]) for number in columns
    )


def _more(table: Any) -> dict[str, object]:
    """Return what a table or column has besides its values and labels."""
    for name in vars(table).keys() - _HELD:
        raise Unsupported(f"has an attribute `{name}` that others of its class lack")
    return {"attrs": dict(table.attrs), "unique": not table.flags.allows_duplicate_labels}


def _with_more(table: Any, state: Any) -> Any:
    if state["attrs"]:
        table.attrs.update(state["attrs"])
    if state["unique"]:
        table.flags.allows_duplicate_labels = False
    return table


_INDEXES: Final = (
    "Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "CategoricalIndex", "PeriodIndex",
    "IntervalIndex",
)  # fmt: skip
ADAPTERS: Final = {
    "pandas:DataFrame": ClassAdapter(_plain_frame, _frame, _is_same_frame),
    "pandas:Series": ClassAdapter(_plain_series, _series, _is_same_series),
    **{
        f"pandas:{name}": ClassAdapter(plain_index, lambda _cls, state: index_of(state), is_same_index)
        for name in _INDEXES
    },
}
