"""What counts by its type alone, and what has no fingerprint."""

import contextvars
import io
import itertools
import logging
import os
import re
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jcache.errors import GraphKeyError
from jcache.fingerprint import fingerprint
from jcache.fingerprint.refusals import Refused, check, is_beside
from tests.helpers.fingerprints import build, key_of


def generator() -> Iterator[int]:
    yield 1


def deep(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


HELD = generator  # for as long as this module


class Doubled(itertools.chain):  # type: ignore[type-arg]
    def __next__(self) -> int:
        return 2 * int(super().__next__())


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a generator": (generator, "a generator"),
    "an iterator": (lambda: iter([1]), "an iterator"),
    "map": (lambda: map(str, []), "an iterator"),
    "a class derived from one of C": (lambda: Doubled([1]), "an iterator"),
    "repeat": (lambda: itertools.repeat(1), "an iterator"),
    "a weak proxy": (lambda: weakref.proxy(HELD), "a weak proxy, which hides its object"),
    "deep nesting": (lambda: deep(10_000), "nested too deeply"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_fingerprint_is_refused(case: str) -> None:
    """With the reason, wherever it is."""
    make, reason = REFUSED[case]
    with pytest.raises(GraphKeyError, match=reason):
        fingerprint(build, (make(),))


class Loader:
    """An iterator, all of whose state is in its attributes."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.number += 1
        return self.number


def test_an_iterator_of_python_counts_by_its_attributes() -> None:
    """Nothing is taken from it."""
    loaders = [Loader(1), Loader(1), Loader(2)]
    keys = [fingerprint(build, (each,)).hash for each in loaders]
    assert keys[0] == keys[1] != keys[2] and loaders[0].number == 1


class Counted:
    def __init__(self) -> None:
        self.source = iter([1])


cfg = Counted()


def helper() -> object:
    return cfg.source


def reader() -> object:
    return helper()


def test_a_refusal_names_the_thing_and_the_way_out() -> None:
    """What, where in it, of which type, how it is reached, why, and what to do."""
    with pytest.raises(GraphKeyError) as error:
        fingerprint(reader)
    text = str(error.value)
    assert text.startswith("global `cfg`.source of type list_iterator (reached from reader → helper → cfg)")
    assert "`__cache_key__`" in text and text.endswith(".") and text.count(". ") == 0


OPAQUE: dict[str, Callable[[], Any]] = {
    "a lock": threading.Lock,
    "a thread": threading.Thread,
    "a logger": lambda: logging.getLogger("a"),
    "a context variable": lambda: contextvars.ContextVar("a"),
    "a socket": lambda: socket.socket.__new__(socket.socket),
    "a hidden function": lambda: np.frompyfunc(build, 1, 1),
    "a file for writing": lambda: open(os.devnull, "w"),  # noqa: SIM115
    "the output": lambda: sys.stdout,
}


@pytest.mark.parametrize("case", OPAQUE)
def test_what_nobody_can_see_into_counts_by_its_type(case: str) -> None:
    """Two of a type share a key, which no other value has."""
    one, other = OPAQUE[case](), OPAQUE[case]()
    assert key_of(one) == key_of(other)
    assert key_of(one) not in {key_of(value) for value in (None, object(), threading.RLock())}
    for value in (one, other):
        getattr(value, "close", bool)() if isinstance(value, io.TextIOWrapper) and value is not sys.stdout else None


@pytest.mark.parametrize("value", [iter([]), (x for x in ""), map(str, []), open, 1, [1], io.StringIO("a")])
def test_what_changes_by_being_read_is_refused(value: object) -> None:
    """Iterators and generators are; a file is not, though it gives its lines one after the other."""
    if isinstance(value, Iterator) and not isinstance(value, io.IOBase):
        with pytest.raises(Refused, match="which reading uses up"):
            check(value)
    else:
        check(value)


def test_a_refusal_tells_the_way_from_the_value_that_was_asked_about() -> None:
    """Each step further up stands before those below it."""
    refused = Refused(Counted(), "it is broken").below("[0]").below(".a")
    assert (refused.path, refused.type_name, str(refused)) == (".a[0]", f"Counted in {__name__}", "it is broken")


class OwnLogger(logging.Logger): ...


def test_what_runs_beside_the_program_is_known_by_its_class() -> None:
    """Or by one of the bases of its class."""
    beside = [threading.Lock(), OwnLogger("a"), contextvars.copy_context(), sys._getframe()]
    assert all(map(is_beside, beside))
    assert not any(map(is_beside, (Counted(), 1, "threading", io.BytesIO(), re.compile("a"))))
