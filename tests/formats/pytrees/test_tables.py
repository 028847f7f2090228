"""Tables and columns of pandas come back with values, labels, names, attributes and flags."""

import pickle
from typing import Any

import numpy as np
import pytest

from jcache.errors import NotStorable
from jcache.formats.pytrees import dump
from tests.formats.pytrees.test_pytrees import again
from tests.helpers.package_values import same, series, table

pd = pytest.importorskip("pandas")


def tables() -> dict[str, Any]:
    numbers = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=list("xyz"))
    twice = pd.DataFrame([[1, "a", 2.0]] * 2, columns=["a", "b", "a"])
    return {
        "numbers": numbers, "part": numbers.iloc[::2, 1:], "same names": twice, "empty": pd.DataFrame(),
        "no columns": pd.DataFrame(index=range(3)), "no rows": twice.iloc[:0], "levels": numbers.set_index(["x", "y"]),
        "level names": numbers.set_index([["a", "a", "b", "b"], [1, 2, 1, 2]]).rename_axis(["p", None]),
        "wide": pd.DataFrame(np.zeros((2, 300), "i2")), "column": numbers["y"], "no name": pd.Series([1, None]),
        "column names": numbers.rename_axis(columns="of"),
        "mixed": table(["int8", "texts", "times"], 3, "days", 1, "n", True),
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(tables()))
def test_tables_come_back(name: str) -> None:
    """A table comes back as it is, with memory laid out in the same order."""
    made = tables()[name]
    found = again(made)
    assert same(made, found)
    if name in {"numbers", "wide", "column"}:
        assert found.to_numpy().strides == made.to_numpy().strides


def test_attributes_and_flags_come_back() -> None:
    """What a program has noted in ``attrs``, and that labels must be unique, is kept."""
    made = table(["float64"], 3, "range", 1, "name", True)
    found = again(made)
    assert found.attrs == {"of": {"seed": 1}} and not found.flags.allows_duplicate_labels
    found.attrs["of"]["seed"] = 2
    assert made.attrs == {"of": {"seed": 1}}


def test_tables_within_other_values_come_back() -> None:
    """Tables may stand in a dict, in a column's attributes, and twice in a value."""
    made = series("int64", 3, "int64", 1, "n")
    made.attrs["table"] = [1]
    first, second = again([made, made])
    assert first is second and same(made, first)


def test_attributes_of_the_program_are_refused() -> None:
    """An attribute that the program has set beside the columns is a reason not to store a table."""
    made = tables()["numbers"]
    object.__setattr__(made, "title", "mine")
    with pytest.raises(NotStorable, match="an attribute `title`"):
        dump(made)


def test_no_pickle_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither storing nor loading a table pickles anything."""
    for name in ("dumps", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, None)
    assert same(again(tables()["mixed"]), tables()["mixed"])
