"""Objects of the program's classes, and what has a name, are made again from their names and their state."""

import collections
import json
import math
import threading
import types
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from jcache.fingerprint import objects
from jcache.fingerprint.settings import Maker, as_json, checked


class Kind(Enum):
    """Members of it are found by their names."""

    A = 1


class Inner:
    """An object that another one holds."""

    def __init__(self) -> None:
        self.kind = Kind.A


class Table(Inner):
    """An object with a constructor that must not run again."""

    made = 0

    def __init__(self, size: int) -> None:
        super().__init__()
        type(self).made += 1
        self.size, self.names, self.inner, self.function = size, ["a"], Inner(), math.sin


class Slotted:
    """An object without a dict."""

    __slots__ = ("size",)


class Ended(Inner):
    """An object that does something when it goes."""

    def __del__(self) -> None: ...


class Number(float):
    """An object that is more than its dict."""


def made_in_a_function() -> object:
    class Local: ...

    return Local()


def test_an_object_is_made_again_without_its_constructor() -> None:
    """With all that it holds, as other objects than those before."""
    table, made = Table(3), Table.made
    written = as_json(table, ())
    again = Maker().decoded(json.loads(json.dumps(written))[0])
    assert type(again) is Table and again is not table and again.inner is not table.inner and Table.made == made
    assert type(again.inner) is Inner and again.inner.kind is Kind.A and again.function is math.sin
    assert {**vars(again), "inner": 0} == {**vars(table), "inner": 0} and [*vars(again)] == [*vars(table)]


@pytest.mark.parametrize("value", [math, math.sin, Table, Kind.A, len, Table.__init__, json.dumps])
def test_what_has_a_name_is_found_by_it(value: object) -> None:
    """Modules, functions, classes and members of enumerations."""
    name = objects.name_of(value)
    assert name is not None and objects.found(name) is value


@pytest.mark.parametrize("value", [lambda: 1, types.ModuleType("math"), [].append, 3, None, "math"])
def test_what_another_process_does_not_find_has_no_name(value: object) -> None:
    """A function without a name, a module of another one's name, a method of an object, and plain values."""
    assert objects.name_of(value) is None


@pytest.mark.parametrize(
    "make", [Slotted, Ended, Number, made_in_a_function, types.SimpleNamespace, threading.RLock, object]
)
def test_other_objects_are_not_made_again(make: Callable[[], object]) -> None:
    """Those with slots, a destructor or another kind of state, and those of classes that nobody finds."""
    assert objects.state_of(make()) is None and as_json(make(), ()) is None


def test_no_code_of_the_program_runs() -> None:
    """Neither what shows an object nor what tells its class."""

    class Watchful:
        def __repr__(self) -> str:
            raise AssertionError

        __class__ = property(__repr__)

    value = Watchful()
    for each in (value, {value}, frozenset({value}), [value], (value,)):
        assert as_json(each, ()) is None


def test_one_object_in_two_places_is_not_made_twice() -> None:
    """It would be two objects."""
    inner, table = Inner(), Table(1)
    assert as_json((inner, inner), ()) is None and as_json(inner, [id(inner)]) is None
    table.inner = table
    assert as_json(table, ()) is None
    assert as_json(collections.deque([1], 2), ()) is None and as_json(collections.defaultdict(lambda: 1), ()) is None


@pytest.mark.parametrize("name", ["no_module:Table", f"{__name__}:NoTable"])
def test_a_missing_class_is_an_error(name: str) -> None:
    """A lookup error."""
    with pytest.raises(LookupError):
        Maker().decoded({"object": [name, {"dict": []}]})


@pytest.mark.parametrize("name", ["no_module:Table", f"{__name__}:Table"])
def test_an_object_is_checked_without_being_made(name: str) -> None:
    """Whether its class is there or not."""
    read: Any = [["n", 0, {"object": [name, {"dict": [{"tuple": ["a", {"named": "no_module:f"}]}]}]}]]
    assert checked(read) == read


@pytest.mark.parametrize(
    "value",
    [
        {"object": ["m:C"]}, {"object": [1, {"dict": []}]}, {"object": ["m:C", {"list": [1]}]}, {"named": 1},
        {"object": ["m:C", 1]},
    ],
)  # fmt: skip
def test_a_damaged_object_is_told(value: object) -> None:
    """Also where its class is not there."""
    with pytest.raises((TypeError, ValueError, KeyError, AttributeError)):
        checked([["n", 0, value]])
