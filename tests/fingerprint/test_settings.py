"""Values that a call sets come back from JSON as they were."""

import collections
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from jcache.fingerprint.settings import COUNTS, ITEMS, NEW, TUPLE, Maker, as_json, checked
from tests.helpers.fingerprints import imported
from tests.helpers.set_values import VALUES, called, set_again, source


@given(value=VALUES)
def test_any_value_comes_back_as_it_was(value: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of the same type, and equal; an array is writable."""
    directory, text = tmp_path_factory.mktemp("values"), source("held.value = new", value)
    new = eval(value, {"np": np, "collections": collections})
    with imported(directory, text) as model:
        model.held.value = "before" if type(new) is int else 7
        changed, settings = called(model)
    with imported(directory, text) as model:
        model.held.value = "before" if type(new) is int else 7
        set_again(model, settings)
        assert changed == [] and repr(model.held.value) == repr(new)
        assert not isinstance(new, np.ndarray) or model.held.value.flags.writeable


@given(value=VALUES)
def test_a_value_is_the_same_after_json(value: str) -> None:
    """Also one that nothing has set yet."""
    new = eval(value, {"np": np, "collections": collections})
    made = as_json(new, ())
    assert made is not None
    assert repr(Maker().decoded(json.loads(json.dumps(made))[0])) == repr(new)


@pytest.mark.parametrize("clock", [time.perf_counter, time.monotonic, time.time, time.time_ns])
def test_the_time_is_set_in_place_of_a_clock_reading(clock: Callable[[], float]) -> None:
    """Wherever it stands: readings have the distances that they had, and a number of seconds stays what it is."""
    first, second = clock(), clock()
    made = as_json([first, (second, 0.25), first], ())
    assert made is not None
    again, (later, seconds), same = Maker().decoded(made[0])
    assert first < again <= later <= clock() and again == same and seconds == 0.25
    assert later - again == pytest.approx(second - first, abs=1e4 if clock is time.time_ns else 1e-5)


def test_a_clock_reading_from_before_is_none_of_the_call(tmp_path: Path) -> None:
    """Another process has another one there, such as the time at which the program began."""
    for new, is_stored in (("T0", False), ("time.time()", True)):
        text = source("held.value = new", new) + "import time\nT0 = time.time()\n"
        with imported(tmp_path, text) as model:
            changed, settings = called(model)
        assert (changed == [] and settings != []) is is_stored


def test_what_is_shared_is_no_json() -> None:
    """An array that is known already, or that stands twice in one value."""
    array = np.arange(3)
    assert as_json((array, 1), [id(array)]) is None
    assert as_json((array, array), ()) is None
    assert as_json((array, array.copy()), ()) is not None


@pytest.mark.parametrize(
    "read",
    [
        [["n", 0, None]], [["n", 0, {NEW: 1.5}]], [["n", 1, {ITEMS: {TUPLE: [{TUPLE: ["k", 1]}]}}]],
        [["n", 0, {NEW: {TUPLE: [True]}}]], [["n", 0, {COUNTS: {TUPLE: [{TUPLE: ["k", 1]}]}}]], None,
    ],
)  # fmt: skip
def test_settings_are_checked(read: Any) -> None:
    """What `SetValues` makes is returned as it is."""
    assert checked(read) == read


@pytest.mark.parametrize(
    "read",
    [
        [["n", -1, 1]], [[1, 0, 1]], [["n", 0]], [["n", 0, {"other": 1}]], [["n", 0, [1]]], [["n", 0, {NEW: [1]}]],
        [["n", 0, {ITEMS: {TUPLE: [{TUPLE: ["k"]}]}}]], [["n", 0, {COUNTS: {TUPLE: ["k"]}}]],
        [["n", 0, {"clock": "sleep"}]], [["n", 0, {"array": ["O", [1], "AA=="]}]],
    ],
)  # fmt: skip
def test_anything_else_is_refused(read: Any) -> None:
    """So a damaged entry is told."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        checked(read)
