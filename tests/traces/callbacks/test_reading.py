"""Callbacks made of recipes that somebody may have changed."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from jcache.errors import Unresolved
from jcache.fingerprint.arguments import Call
from jcache.traces.callbacks import read, write

ROWS: list[Any] = []


def traced() -> Any:
    """Stand for a function that is traced."""
    return ROWS


def make(rows: Any, name: str) -> Callable[..., Any]:
    """Return a nested function that holds many things."""

    def call(value: int = 1, *, more: Any = (1, "a")) -> Any:
        return rows, name, value, more

    return call


ORIGIN = Call(traced, (), {})


def recipes() -> Any:
    """Return recipes of all kinds, as JSON has them."""
    written = write([make([{"a": b"x"}, {1}, ROWS, len, int], "n"), ROWS.append, make(1j, "m")], ORIGIN)
    return json.loads(json.dumps(written))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each item of some JSON as its container and key."""
    keys = value.keys() if type(value) is dict else range(len(value)) if type(value) is list else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


@pytest.mark.full
def test_a_recipe_that_was_changed_makes_a_function_or_is_refused(chance: random.Random) -> None:
    """Whatever stands in its place: no other error is raised."""
    others: list[Any] = [
        None,
        True,
        -1,
        0,
        7,
        0.5,
        "",
        "a",
        "x:y",
        [],
        ["made", 0],
        ["made", 99],
        ["tuple", 1],
        ["data", "!"],
        {},
    ]
    for _ in range(400):
        changed = copy.deepcopy(recipes())
        container, key = chance.choice(list(places(changed)))
        container[key] = chance.choice(others)
        with suppress(Unresolved):
            assert all(map(callable, read(changed, ORIGIN)))


def test_nothing_is_imported_and_changed_code_is_refused() -> None:
    """A function of a module that is not imported, and one whose code is another one now."""
    for value, reason in (
        (["object", "wave:open", None], "is not imported"),
        (["object", ":make", "0" * 32], "changed"),
    ):
        with pytest.raises(Unresolved, match=reason):
            read({"made": [], "callbacks": [value]}, ORIGIN)
    with pytest.raises(Unresolved, match="it is no function"):
        read({"made": [], "callbacks": [1]}, ORIGIN)
