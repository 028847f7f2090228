"""Which attributes of an object there are, and which of them count."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest

from jcache.fingerprint import fingerprint
from jcache.fingerprint.attributes import (
    FIELDS,
    has_fields,
    held,
    is_frozen,
    is_hash,
    is_hash_of,
    is_kept,
    is_whole,
    names_reading,
)
from tests.helpers.fingerprints import imported


class Slotted:
    __slots__ = ("__hidden", "set", "unset")

    def __init__(self) -> None:
        self.__hidden, self.set = 1, 2


class Watchful(Slotted):
    """A class whose code may not run while one of its objects is looked at."""

    computed = property(lambda self: 1 / 0)

    def __getattribute__(self, name: str) -> object:
        raise AssertionError

    def __dir__(self) -> list[str]:
        raise AssertionError


def test_an_object_holds_its_attributes_and_slots() -> None:
    """Those that are set, by the names under which they lie; none of its own code runs."""
    watchful = Watchful()
    object.__setattr__(watchful, "free", 3)
    assert dict(held(watchful)) == {"free": 3, "_Slotted__hidden": 1, "set": 2}


def test_a_slot_that_a_derived_class_hides_has_its_value() -> None:
    """A slot of the same name or another attribute hides it from the program, but not from its class's methods."""

    class Own(Slotted):
        __slots__ = ("set",)
        unset = 5

    own = Own()
    vars(Slotted)["unset"].__set__(own, 6)
    vars(Slotted)["set"].__set__(own, 7)
    assert sorted(held(own)) == [("_Slotted__hidden", 1), ("set", 2), ("set", 7), ("unset", 6)]


@dataclasses.dataclass(frozen=True)
class Frozen: ...


@dataclasses.dataclass
class Thawed: ...


class Gives:
    def __getattr__(self, name: str) -> object: ...


class GivesAll:
    def __getattribute__(self, name: str) -> object: ...


WHOLE: list[tuple[type, bool]] = [
    (Frozen, False), (Gives, True), (GivesAll, True), (type("Derived", (Gives,), {}), True),
    (Slotted, False), (Thawed, False), (type("OfFrozen", (Frozen,), {}), False),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "expected"), WHOLE)
def test_all_attributes_count_where_names_tell_nothing(cls: type, expected: bool) -> None:
    """Of classes that give any attribute, themselves or by a base."""
    assert is_whole(cls) is expected


def test_a_frozen_dataclass() -> None:
    """One that is declared as such itself: a derived class may have other attributes."""
    assert is_frozen(Frozen) and not is_frozen(Thawed) and not is_frozen(type("OfFrozen", (Frozen,), {}))


def test_what_has_fields() -> None:
    """A dataclass and what is derived from one, whose fields code may read without their names."""
    for cls in (Frozen, Thawed, type("OfFrozen", (Frozen,), {})):
        assert has_fields(cls) and names_reading(cls, "lr") == {"lr", FIELDS}
    assert not has_fields(Slotted) and names_reading(Slotted, "set") == {"set"}


class Model:
    plain = 1

    @functools.cached_property
    def size(self) -> Any:
        return self.of_cached

    @property
    def area(self) -> Any:
        return self.of_getter

    @area.setter
    def area(self, value: Any) -> None:
        value.of_setter()

    @classmethod
    def made(cls: Any) -> Any:
        return cls.of_class

    @staticmethod
    def helped(x: Any) -> Any:
        return x.of_static

    def step(self) -> Any:
        return [lambda: self.of_lambda, self.of_method]

    def __getattr__(self, name: str) -> Any: ...


def test_what_a_cached_property_keeps_is_told_from_an_attribute() -> None:
    """Of the class itself and of one derived from it, unless that replaces the property."""
    derived, other = type("Derived", (Model,), {}), type("Other", (), {"size": 1})
    assert not is_kept(type("Replaced", (Model,), {"size": 0}), "size")
    assert is_kept(type("Again", (type("Plain", (), {"size": 0}),), {"size": vars(Model)["size"]}), "size")
    assert [is_kept(Model, name) for name in ("size", "area", "plain", "missing")] == [True, False, False, False]
    assert is_kept(derived, "size") and not is_kept(other, "size")


class Keyed:
    """A static argument that keeps its hash."""

    def __init__(self, name: str) -> None:
        self.name, self.hash = name, hash(name)

    def __hash__(self) -> int:
        return self.hash


class Failing:
    def __hash__(self) -> int:
        raise TypeError("not today")


def test_a_hash_that_an_object_keeps_is_told_from_other_numbers() -> None:
    """Each process has another one of a text; the object's own hash must be the same number."""
    name = next(name for name in map(str, range(100)) if is_hash(hash(name)))
    keyed = Keyed(name)
    assert is_hash_of(keyed.hash, keyed) and not is_hash_of(keyed.hash + 1, keyed)
    assert not is_hash_of(hash(held), held) and not is_hash_of(1, Failing())
    assert not any(map(is_hash, (1, -(1 << 39), True, 1e30, "a", None))) and is_hash(-(1 << 40))
    assert is_hash(None, "_hash") and not is_hash(1, "_hash")


REPLACES = """
from dataclasses import dataclass, field, replace
class Trainer:
    def __init__(self): self.run_id, self.rate = "a", 0.5
@dataclass
class State:
    a: int = 1
    b: int = 2
    kept: list = field(default_factory=list)
@dataclass
class Derived(State):
    def __post_init__(self): self.c = self.a * 10 + LIMIT
@dataclass(frozen=True)
class Frozen:
    a: int = 1
    b: int = 2
class Holder:
    def __init__(self): self.state, self.frozen = State(), Frozen()
LIMIT, trainer, holder = 3, Trainer(), Holder()
items, held, inner, derived = [State()], {"k": State()}, Frozen(State()), [Derived()]
def moved(state): return replace(state, a=5)
def f(x): return str(%s), trainer.rate
"""


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ("moved(items[0])", "items[0].b = 7"),
        ("moved(held['k'])", "held['k'].b = 7"),
        ("moved(holder.state)", "holder.state.b = 7"),
        ("moved(holder.frozen)", "holder.frozen = Frozen(b=7)"),
        ("moved(inner.a)", "inner.a.b = 7"),
        ("moved(derived[0]).c", "LIMIT = 7"),
    ],
)
def test_to_replace_a_field_reads_the_others(value: str, change: str, tmp_path: Path) -> None:
    """`dataclasses.replace` reads the fields of dataclasses and makes an instance; it opens no other object."""
    with imported(tmp_path, REPLACES % value) as model:
        found = [fingerprint(model.f, (1,)).hash]
        for each in ("trainer.run_id = 'b'", change):
            exec(each, vars(model))
            found.append(fingerprint(model.f, (1,)).hash)
    assert found[0] == found[1] != found[2]


CASE = """
    import unittest
    class Case(unittest.TestCase):
        def test_it(self): pass
        def scaled(self): return self.rate
    def made(**attributes):
        case = Case("test_it")
        case._outcome = (each for each in range(3))
        vars(case).update(attributes)
        def build(): return case.scaled()
        return build
"""


def test_attributes_of_a_test_case_count_by_their_names(tmp_path: Path) -> None:
    """As those of any object: the classes of `unittest` and of libraries for tests read none that decides anything."""
    with imported(tmp_path, CASE) as model:
        keys = [
            fingerprint(model.made(**each)).hash
            for each in ({"rate": 1}, {"rate": 1, "other": iter([1])}, {"rate": 2}, {"rate": 1, "_cleanups": [print]})
        ]
        assert keys[0] == keys[1] == keys[3] != keys[2]
