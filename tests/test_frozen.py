"""Tests for the mapping that does not change."""

import copy
import pickle

import pytest

from jcache.frozen import Frozen


def test_it_is_a_mapping_in_the_order_it_was_made() -> None:
    """It reads like a dict in its order, equals one, and is independent of the dict from which it was made."""
    items = {"b": 1, "a": 2}
    frozen = Frozen(items)
    items["c"] = 3
    assert list(frozen) == ["b", "a"] and frozen == {"b": 1, "a": 2} and len(frozen) == 2
    assert repr(frozen) == "{'b': 1, 'a': 2}" and frozen["a"] == 2 and frozen.get("c") is None


def test_it_cannot_be_changed() -> None:
    """Neither an item nor an attribute can be set."""
    frozen = Frozen({"a": 1})
    with pytest.raises(TypeError):
        frozen["a"] = 2  # type: ignore[index]
    with pytest.raises(AttributeError):
        frozen.other = 2  # type: ignore[attr-defined]


def test_it_can_be_copied_pickled_and_hashed() -> None:
    """It can be copied, pickled and hashed, and the copies are equal."""
    frozen = Frozen({"a": Frozen({"b": 1})})
    assert pickle.loads(pickle.dumps(frozen)) == copy.deepcopy(frozen) == frozen
    assert hash(frozen) == hash(copy.copy(frozen))
