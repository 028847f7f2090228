"""Each dtype of pandas has a plain form; without pyarrow only those that need it have none."""

from typing import Any

import numpy as np
import pytest

from jcache.errors import NotStorable
from jcache.formats.pytrees import dump, pandas_values
from jcache.formats.pytrees.pandas_values import array_of, index_of, is_same_index, plain_array, plain_index, writable
from tests.formats.pytrees.test_pytrees import again
from tests.helpers.package_values import column, index

pd = pytest.importorskip("pandas")
KINDS = {
    "float64": "numpy", "objects": "objects", "categories": "codes", "times": "numpy",
    "zoned": "zone", "spans": "numpy", "Int64": "masked", "Float32": "masked", "boolean": "masked",
    "python texts": "strings", "arrow texts": "arrow", "periods": "arrow", "ranges": "arrow",
}  # fmt: skip


def without_pyarrow() -> Any:
    raise ImportError


@pytest.mark.parametrize("kind", KINDS)
def test_values_have_plain_forms(kind: str) -> None:
    """The values of each dtype become the form that its name says, and come back from it."""
    pytest.importorskip("pyarrow")
    values = pd.Series(column(kind, 6, 4))
    state: Any = plain_array(values.array if not isinstance(values.dtype, np.dtype) else values.to_numpy())
    assert next(iter(state)) == KINDS[kind]
    found = pd.Series(array_of(again(state)), dtype=values.dtype)
    pd.testing.assert_series_equal(found, values)


@pytest.mark.parametrize("kind", [kind for kind, form in KINDS.items() if form not in {"arrow", "codes"}])
def test_most_forms_need_no_pyarrow(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, times, objects and texts that Python holds are stored without pyarrow."""
    made = pd.Series(column(kind, 6, 4))
    monkeypatch.setattr(pandas_values, "_pyarrow", without_pyarrow)
    pd.testing.assert_series_equal(again(made), made)


def test_what_needs_pyarrow_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow, a dtype that is stored in Arrow's format is refused by its name."""
    pytest.importorskip("pyarrow")
    made = pd.Series(column("periods", 6, 4))
    monkeypatch.setattr(pandas_values, "_pyarrow", without_pyarrow)
    with pytest.raises(NotStorable, match=r"period\[.\], which need pyarrow.*codec=jcache.FileCodec"):
        dump(made)


@pytest.mark.parametrize("kind", ["range", "days", "levels", "int64", "categories", "zoned", "Int64", "spans"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_indexes_come_back(kind: str, seed: int) -> None:
    """An index has the same type, labels, names, time zone and frequency."""
    made = index(kind, 5, seed, ("a", 1))
    assert is_same_index(made, index_of(again(plain_index(made)))) and is_same_index(made, again(made))


def test_indexes_that_differ_are_told_apart() -> None:
    """A frequency, a name, a time zone or a level more is another index."""
    days = index("days", 5, 1, "n")
    others = [days.rename("m"), pd.DatetimeIndex(list(days), name="n"), days.tz_localize("UTC"), days[:4], list(days)]
    assert [is_same_index(days, each) for each in others] == [False] * 5


def test_write_protected_arrays_are_made_writable() -> None:
    """An array that is only shown write-protected is taken as it is; of one that is so, a copy."""
    array = np.arange(3)
    shown = array.view()
    shown.flags.writeable = False
    assert np.shares_memory(writable(shown), array) and writable(array) is array
    array.flags.writeable = False
    assert not np.shares_memory(writable(array), array) and writable(array).flags.writeable
