"""Parts of a fingerprint in words, and what has changed between two of them."""

import re
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from jcache.fingerprint import changes, fingerprint
from jcache.fingerprint.describe import attribute_of, describe, in_short, some, vars_of


def test_changes_in_words() -> None:
    """What differs between two fingerprints is told part by part, a changed function first, then arguments."""

    def model(theta: float, n: int = 1) -> None: ...

    one, other = fingerprint(model, (2.0,)), fingerprint(model, (3.0,))
    assert changes(one.parts, other.parts) == ["theta 2.0 → 3.0"]
    old = {"helper rate": "code 1", "distribution numpy": "2.2.0", "argument a": "1"}
    new = {"helper rate": "code 2", "distribution numpy": "2.3.1", "global cfg": "5"}
    assert changes(old, new) == ["helper `rate` changed", "a 1 is gone", "global cfg 5 is new", "numpy 2.2.0 → 2.3.1"]


class Slotted:
    __slots__ = ("x",)


def test_an_attribute_whose_code_raises_is_missing() -> None:
    """An object whose class raises another error than `AttributeError` for a missing attribute has none."""

    class Items(dict[str, int]):
        __getattr__ = dict.__getitem__

    items = Items(rate=2)
    assert attribute_of(items, "rate") == 2
    assert attribute_of(items, "__func__", items) is items and attribute_of(items, "__self__") is None


def test_the_attributes_of_an_object_are_a_copy() -> None:
    """An object without a `__dict__` has none."""
    held = SimpleNamespace(x=1)
    found = vars_of(held)
    assert found == {"x": 1} and vars_of(Slotted()) == {}
    found["x"] = 2
    assert held.x == 1


class Config:
    def __init__(self, rate: float, inner: object = None, token: str = "abc") -> None:
        self.rate, self.inner, self.token, self.name = rate, inner, token, "a, b)"


class Both(NamedTuple):
    left: object
    right: object


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (Config(1.0), Config(2.0), "a rate=1.0 → rate=2.0"),
        (Config(1.0, {"x": [1, 2]}), Config(1.0, {"x": [1, 3]}), "a inner={'x': [1, 2]} → inner={'x': [1, 3]}"),
        (Config(1.0, {"x": {"y": 1.0}}), Config(1.0), "a inner={'x': {'y': 1.0}} → inner=None"),
        (Both(1, (2, [])), Both(1, (3, [])), "a right=(2, []) → right=(3, [])"),
        (Both(0, Config(1.0, Both(2, 3))), Both(1, Config(1.0, Both(2, 4))),
         "a left=0, right.inner.right=3 → left=1, right.inner.right=4"),
        (Both(1, SimpleNamespace(n=1)), Both(1, Both(1, 2)),
         "a right=SimpleNamespace(n=1) → right=Both(left=1, right=2)"),
        (SimpleNamespace(n=1, m=2), SimpleNamespace(n=1, m=3), "a m=2 → m=3"),
        ({"x": 1, "y": {}}, {"y": {}}, "a 'x': 1 → nothing"),
        ([{"x": 1}, 2], [{"x": 1}, 3], "a 2 → 3"),
    ],
)  # fmt: skip
def test_what_objects_and_containers_hold_is_told_apart(one: object, other: object, told: str) -> None:
    """Of what has changed in one, that alone is shown."""

    def f(a: object) -> None: ...

    assert changes(fingerprint(f, (one,)).parts, fingerprint(f, (other,)).parts) == [told]


def test_what_is_not_told_apart_by_what_is_shown_is_by_its_digest() -> None:
    """Secrets, long texts, arrays within; what is too large or too deep is not shown at all."""

    def f(a: object) -> None: ...

    for one, other in [
        (Config(1.0), Config(1.0, token="abd")),
        (Config(1.0, np.ones(3)), Config(1.0, np.zeros(3))),
        (list(range(100)), list(range(1, 101))),
    ]:
        [told] = changes(fingerprint(f, (one,)).parts, fingerprint(f, (other,)).parts)
        assert re.fullmatch(r"a (\S+ )[0-9a-f]{24} → \1[0-9a-f]{24}", told)


def test_secrets_are_not_written_down() -> None:
    """Texts under names that secrets have are told apart by a digest."""

    def f(token: str, name: str, keys: list[str]) -> None: ...

    parts = fingerprint(f, ("abc", "def", ["ghi"])).parts
    assert parts["argument name"] == "'def'"
    assert parts["argument token"].startswith("str[3] ") and parts["argument keys"].startswith("list[1] ")
    assert fingerprint(f, ("abd", "def", ["ghi"])).parts["argument token"] != parts["argument token"]


DIGEST = bytes(range(32))
TAIL = f" {DIGEST.hex()[:24]}"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "None"), (True, "True"), (1.5, "1.5"), (-float("nan"), "nan"), ("it's", '"it\'s"'), (b"a", "b'a'"),
        ([1, "a"], "[1, 'a']"), ((1,), "(1,)"), ({2, 1}, "{1, 2}"), (np.float32(0.5), "np.float32(0.5)"),
        (10**50, f"int{TAIL}"), ("a" * 90, f"str[90]{TAIL}"), ([[1], 2], f"[[1], 2]{TAIL}"),
        (np.zeros((2, 3), "i4"), f"int32[2,3]{TAIL}"), (SimpleNamespace(n=1), f"SimpleNamespace(n=1){TAIL}"),
        ({"b": 1, "a": {"c": 2}}, "{'a': {'c': 2}, 'b': 1}" + TAIL), (list(range(70)), f"list[70]{TAIL}"),
    ],
)  # fmt: skip
def test_a_value_is_told_in_words(value: object, words: str) -> None:
    """A short one as Python writes it, any other by what it holds or is, with the beginning of its digest."""
    assert describe(value, DIGEST) == words
    assert in_short(value) == words.removesuffix(TAIL)


def test_numbers_under_secret_names_are_shown() -> None:
    """A count of tokens tells no secret, and a text does, also within an object."""
    assert describe(5, DIGEST, "argument tokens") == "5"
    assert describe("abc", DIGEST, "argument tokens") == f"str[3]{TAIL}"
    assert describe(SimpleNamespace(password="abc", n=1), DIGEST) == f"SimpleNamespace(n=1, password=str[3]){TAIL}"


class Watchful:
    """A class whose code may not run while one of its objects is told."""

    def __init__(self) -> None:
        vars(self)["n"] = 1

    def __getattribute__(self, name: str) -> object:
        if name == "__dict__":
            return object.__getattribute__(self, name)
        raise AssertionError

    __repr__ = __str__ = __len__ = __iter__ = property(lambda self: 1 / 0)


def test_no_code_of_a_users_class_runs() -> None:
    """The attributes that are shown are those that the object has."""
    assert describe(Watchful(), DIGEST) == f"Watchful(n=1){TAIL}"


@pytest.mark.parametrize("count", [2, 3, 4, 10])
def test_the_first_changes_stand_for_many(count: int) -> None:
    """Three are told, and how many more there are."""
    told = some([f"change {number}" for number in range(count)])
    assert told.count("change") == min(count, 3)
    assert told.endswith(f" and {count - 3} more") == (count > 3)
