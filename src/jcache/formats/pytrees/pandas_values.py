"""Indexes, and the values of columns and indexes of pandas, as plain values.

Values are an object of one of these forms, whose first key tells which:

    numpy        an array of one of numpy's dtypes but object
    objects      a list of Python's values, and where there is a ``pandas.NA`` or ``pandas.NaT`` instead
    codes        a Categorical: codes, categories, whether they are ordered
    zone         points in time with a time zone: the array in UTC, and the dtype's name
    masked       pandas' own arrays with missing values: the array, the mask, the dtype's name
    strings      texts that Python holds: a list, where one is missing, and what stands for that
    arrow        all others, in Arrow's stream format, and the name of the dtype where that is none of Arrow's
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from jcache.formats.pytrees.grammar import CODEC_ADVICE, Unsupported

# ruff: noqa: ANN401 - of packages that need not be installed

_ARROW: Final = "arrow"  # as the name of a dtype: that of the stream


def _pandas() -> Any:
    return import_module("pandas")


def _pyarrow() -> Any:
    return import_module("pyarrow")


def is_of_numpy(dtype: Any) -> bool:
    """Return whether a dtype is one of numpy's."""
    import numpy as np

    return isinstance(dtype, np.dtype)


def writable(array: Any) -> Any:
    """Return an array that may be written to, which pandas shows write-protected although it is not."""
    if array.flags.writeable:
        return array
    view = array.view()
    try:
        view.flags.writeable = True
    except ValueError:
        return array.copy(order="K")
    return view


def plain_values(held: Any) -> dict[str, object]:
    """Return the values of a column or an index as a plain value; raise as `plain_array`."""
    return plain_array(held.to_numpy() if is_of_numpy(held.dtype) else held.array)


def plain_array(array: Any) -> dict[str, object]:
    """Return an array of numpy or pandas as a plain value.

    Raises:
        Unsupported: they cannot be stored.
    """
    pd, dtype = _pandas(), array.dtype
    if is_of_numpy(dtype):
        return {"numpy": writable(array)} if not dtype.hasobject else _plain_objects(array)
    if isinstance(dtype, pd.CategoricalDtype):
        return {"codes": writable(array.codes), "categories": plain_index(array.categories), "ordered": array.ordered}
    if isinstance(dtype, pd.DatetimeTZDtype):
        return {"zone": str(dtype), "values": writable(array.tz_convert(None).to_numpy())}
    if isinstance(dtype, pd.StringDtype) and dtype.storage == "python":
        missing = array.isna().tolist()
        texts = [None if gone else text for text, gone in zip(array.tolist(), missing, strict=True)]
        return {"strings": texts, "is_nan": dtype.na_value is not pd.NA}
    if hasattr(array, "_mask") and hasattr(array, "_data"):
        return {"masked": str(dtype), "values": writable(array._data), "mask": writable(array._mask)}
    return _plain_arrow(array)


def array_of(state: Any) -> Any:
    """Return the array of a plain value."""
    pd = _pandas()
    if "numpy" in state:
        return state["numpy"]
    if "objects" in state:
        return _objects(state)
    if "codes" in state:
        dtype = pd.CategoricalDtype(index_of(state["categories"]), ordered=state["ordered"])
        return pd.Categorical.from_codes(state["codes"], dtype=dtype)
    if "zone" in state:
        dtype = pd.api.types.pandas_dtype(state["zone"])
        made = pd.Series(state["values"], copy=False).dt.tz_localize("UTC").dt.tz_convert(dtype.tz)
        return made.array
    if "strings" in state:
        return pd.array(state["strings"], dtype=_string_dtype("python", is_nan=state["is_nan"]))
    if "masked" in state:
        dtype = pd.api.types.pandas_dtype(state["masked"])
        return dtype.construct_array_type()(state["values"], state["mask"])
    return _arrow(state)


def _string_dtype(storage: str, *, is_nan: bool) -> Any:
    more = {"na_value": float("nan")} if is_nan else {}  # which pandas before 2.3 does not know
    return _pandas().StringDtype(storage, **more)


def _plain_objects(array: Any) -> dict[str, object]:
    pd, values = _pandas(), list(array)
    gone = {
        name: [number for number, each in enumerate(values) if each is singleton]
        for name, singleton in (("NA", pd.NA), ("NaT", pd.NaT))
    }
    for number in [number for numbers in gone.values() for number in numbers]:
        values[number] = None
    return {"objects": values, **gone}


def _objects(state: Any) -> Any:
    import numpy as np

    pd, values = _pandas(), state["objects"]
    array = np.empty(len(values), object)
    for number, each in enumerate(values):
        array[number] = each
    array[state["NA"]] = pd.NA
    array[state["NaT"]] = pd.NaT
    return array


def _plain_arrow(array: Any) -> dict[str, object]:
    import numpy as np

    pd, dtype = _pandas(), array.dtype
    if not hasattr(array, "__arrow_array__"):
        raise Unsupported(f"has values of the dtype {dtype}", CODEC_ADVICE)
    try:
        pa = _pyarrow()
    except ImportError:
        raise Unsupported(f"has values of the dtype {dtype}, which need pyarrow", CODEC_ADVICE) from None
    values = array.__arrow_array__()
    values = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    table = pa.table({"values": values})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    is_text = isinstance(dtype, pd.StringDtype)
    name = f"string {dtype.storage}" if is_text else _ARROW if isinstance(dtype, pd.ArrowDtype) else str(dtype)
    stream = np.frombuffer(sink.getvalue(), np.uint8).copy()
    return {"arrow": name, "stream": stream, "is_nan": is_text and dtype.na_value is not pd.NA}


def _arrow(state: Any) -> Any:
    pd, pa, name = _pandas(), _pyarrow(), state["arrow"]
    with pa.ipc.open_stream(pa.py_buffer(state["stream"])) as reader:
        values = reader.read_all().column(0)
    if name == _ARROW:
        dtype = pd.ArrowDtype(values.type)
    elif name.startswith("string "):
        dtype = _string_dtype(name.partition(" ")[2], is_nan=state["is_nan"])
    else:
        dtype = pd.api.types.pandas_dtype(name)
    return dtype.__from_arrow__(values)


# -- indexes


def plain_index(index: Any) -> Any:
    """Return an index as a plain value; raise as `plain_array`."""
    pd = _pandas()
    if type(index) is pd.RangeIndex:
        return {"range": [index.start, index.stop, index.step], "name": index.name}
    if type(index) is pd.MultiIndex:
        levels = [plain_index(level) for level in index.levels]
        codes = [writable(each) for each in index.codes]
        return {"levels": levels, "codes": codes, "names": list(index.names), "sortorder": index.sortorder}
    freq = getattr(index, "freq", None) if type(index) is not pd.PeriodIndex else None
    return {
        "values": plain_values(index), "name": index.name,
        "freq": None if freq is None else freq.freqstr,
    }  # fmt: skip


def index_of(state: Any) -> Any:
    """Return the index of a plain value."""
    pd = _pandas()
    if "range" in state:
        return pd.RangeIndex(*state["range"], name=state["name"])
    if "levels" in state:
        levels, codes = [index_of(level) for level in state["levels"]], state["codes"]
        return pd.MultiIndex(levels, codes, state["sortorder"], state["names"], copy=False, verify_integrity=False)
    values = array_of(state["values"])
    index = pd.Index(values, dtype=values.dtype, name=state["name"], copy=False)
    if state["freq"] is not None:
        index.freq = state["freq"]
    return index


def is_same_index(one: Any, other: Any) -> bool:
    """Return whether two indexes are the same, in type, time zone and frequency as well."""
    if type(one) is not type(other) or one.dtype != other.dtype or not one.identical(other):
        return False
    if type(one) is _pandas().MultiIndex:
        return all(is_same_index(*pair) for pair in zip(one.levels, other.levels, strict=True))
    freq = "freq" if type(one) is not _pandas().PeriodIndex else "dtype"
    return bool(
        getattr(one, freq, None) == getattr(other, freq, None)
        and type(getattr(one, "tz", None)) is type(getattr(other, "tz", None))
    )
