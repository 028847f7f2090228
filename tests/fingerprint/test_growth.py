"""A container that has only grown is told from one that has changed, and a memo from a log."""

from collections import Counter, deque
from typing import Any

import numpy as np
import pytest

from jcache.fingerprint.growth import counts, has_grown, is_memo, tells

ONE, TWO = object(), object()
GROWN: list[tuple[Any, Any]] = [
    ([ONE], [ONE, TWO]), ({ONE}, {ONE, TWO}), ({"a": ONE}, {"a": ONE, "b": TWO}), (deque([ONE]), deque([ONE, TWO])),
    ([], []), ({"n": 1}, {"n": 2}), ([1], [2, 3]), (Counter(a=1), Counter(a=2)),
]  # fmt: skip
OTHER: list[tuple[Any, Any]] = [
    ([ONE], [TWO, ONE]), ([ONE], []), ({"a": ONE}, {"a": TWO}), ({"a": ONE}, {"b": ONE}), ({ONE}, {TWO}),
    (["a"], ["b"]), ([1], [1.0]), ([ONE], deque([ONE])),
]  # fmt: skip


def test_a_container_has_grown_if_all_items_are_in_their_places() -> None:
    """An integer may be another one; nothing else may."""
    assert [has_grown(*each) for each in GROWN] == [True] * len(GROWN)
    assert [has_grown(*each) for each in OTHER] == [False] * len(OTHER)


def test_integers_that_were_replaced_count() -> None:
    """In dicts and lists; a set has none."""
    assert counts({"n": 1}, {"n": 2}) and counts([1, ONE], [2, ONE, TWO])
    assert not counts({"a": ONE}, {"a": ONE, "n": 1}) and not counts([ONE], [ONE, 1]) and not counts({1}, {1, 2})


@pytest.mark.parametrize("value", [np.ones(2), abs, (np.ones(2), 1), lambda x: x])
def test_a_memo_gets_arrays_and_functions(value: object) -> None:
    """Numbers, texts and functions with a state may count or number something."""
    assert is_memo({}, {"a": value}) and not is_memo([], [value])
    assert not any(is_memo({}, {"a": each}) for each in (1, "a", [value], np.float32(1), lambda x, k=ONE: k))


def test_what_tells_other_code_of_arrays() -> None:
    """Shapes, types and structures in a dict; functions in any container."""
    assert tells({}, {"a": (1, 2)}) and tells({}, {"a": np.dtype("float32")}) and tells([], [lambda: 1])
    assert not tells({}, {"a": 1}) and not tells([], [(1, 2)]) and not tells({"a": (1,)}, {"a": (1,)})
