"""What a call sets, as far as a served call can set it again."""

from pathlib import Path

import pytest

from tests.helpers.fingerprints import imported
from tests.helpers.set_values import called, source


@pytest.mark.parametrize(
    ("statement", "new"),
    [
        ("slotted.value = new", "(1,)"), ("held.value = new", "object()"), ("held.value = new", "[1]"),
        ("held.value = new", "float('nan')"), ("held.value = new", "BASE"), ("held.value = new", "BASE[2:]"),
        ("held.value = new", "np.arange(6).reshape(2, 3).T"), ("held.value = new", "np.array([object()])"),
        ("held.value = held.other = new", "np.arange(3)"), ("held.value = new", "(1, BASE)"),
        ("held.value = new", "'\\ud800'"), ("held.value = new", "np.zeros(1 << 20)"),
        ("TABLE['a'] = TABLE.pop('a') + 1", "0"), ("TABLE['a'] = TABLE.pop('a')", "0"), ("TABLE.pop('a')", "0"),
        ("held.value = new", "np.broadcast_to(np.arange(3.0), (3,))"), ("del held.value", "None"),
        ("lazy.made = new", "object()"), ("lazy.made = new", "BASE"), ("lazy.made = own.new = new", "np.ones(2)"),
        ("lazy.made = new", "[]"), ("own.new = __import__('time').time()", "0"),
    ],
)  # fmt: skip
def test_what_cannot_be_set_again_is_told(statement: str, new: str, tmp_path: Path) -> None:
    """Objects, lists, views of what is there already, an array under two names, and what has no plain bytes."""
    with imported(tmp_path, source(statement, new)) as model:
        model.TABLE.update(a=1.5, b=2.5)
        changed, settings = called(model)
    assert changed and settings == []


@pytest.mark.parametrize(
    "statement", ["held.value = 2", "value = 3", "TABLE['a'] = 1", "TABLE['n'] = 1", "lazy.size += 1"]
)
def test_counters_are_not_set_again(statement: str, tmp_path: Path) -> None:
    """They count how often a function is traced; a served call is no trace."""
    with imported(tmp_path, source(statement)) as model:
        model.held.value = model.TABLE["n"] = vars(model)["value"] = 0
        assert called(model)[1] == []


def test_objects_in_a_set_are_told_apart_by_nothing(tmp_path: Path) -> None:
    """So nothing is set again where a walk has visited several of one type there."""
    text = source("for each in {*layers}: each.value = new") + "layers = frozenset(layers)\n"
    with imported(tmp_path, text) as model:
        changed, settings = called(model)
    assert changed and settings == []
