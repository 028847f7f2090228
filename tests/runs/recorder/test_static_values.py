"""Static arguments are written as text, and no code of the program runs for it."""

import enum
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import pytest
from hypothesis import given, strategies as st

from jcache.runs.recorder.static_values import text_of, texts


class Mode(enum.Enum):
    FAST = 1


class Size(NamedTuple):
    wide: int
    high: int


@dataclass(frozen=True)
class Settings:
    steps: int
    mode: Mode
    size: Size


class Trap:
    """A value whose every method and property fails the test."""

    def _fail(self, *_: Any) -> NoReturn:
        pytest.fail("code of the program ran")

    __repr__ = __str__ = __eq__ = __hash__ = __iter__ = __len__ = __bool__ = __format__ = _fail
    value = property(_fail)


def a_function(x: int) -> int:
    return x


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (2.5, "2.5"),
        ("relu", "'relu'"),
        (None, "None"),
        ((1, (2, "a")), "(1, (2, 'a'))"),
        ({"a": [1, 2]}, "{'a': (1, 2)}"),
        (frozenset({"b", "a"}), "('a', 'b')"),
        (Mode.FAST, "Mode.FAST"),
        (Size(1, 2), "Size(wide=1, high=2)"),
        (Settings(3, Mode.FAST, Size(1, 2)), "Settings(steps=3, mode=Mode.FAST, size=Size(wide=1, high=2))"),
        (a_function, f"{__name__}.a_function"),
        (Settings, f"{__name__}.Settings"),
        (object(), "<builtins.object>"),
        (Trap(), f"<{__name__}.Trap>"),
        ([Trap()], f"(<{__name__}.Trap>)"),
    ],
)
def test_text_of(value: Any, text: str) -> None:
    """Plain values are written as Python writes them, records by their fields, and other objects by their class."""
    assert text_of(value) == text


@given(st.recursive(st.integers() | st.text() | st.none(), lambda inner: st.lists(inner) | st.tuples(inner, inner)))
def test_texts_are_short(value: Any) -> None:
    """A text has at most 300 characters, however large or nested a value is, and equal values have equal texts."""
    assert len(text_of(value)) <= 300 and text_of(value) == text_of(value)


def test_endless_values() -> None:
    """A value that contains itself ends."""
    endless: list[Any] = []
    endless.append(endless)
    assert len(text_of(endless)) < 300


def test_names_of_static_arguments() -> None:
    """An argument has the name of its parameter, also if it is given by position from the end, else its position."""

    def info(numbers: tuple[int, ...], names: tuple[str, ...], parameters: str | None) -> Any:
        signature = None if parameters is None else SimpleNamespace(parameters=dict.fromkeys(parameters.split()))
        return SimpleNamespace(static_argnums=numbers, static_argnames=names, fun_signature=signature)

    assert texts(info((1,), ("n",), "x n"), (0, 3), {}) == {"n": "3"}
    assert texts(info((1,), ("n",), "x n"), (0,), {"n": 4}) == {"n": "4"}
    assert texts(info((-1,), (), "x n"), (0, 3), {}) == {"n": "3"}
    assert texts(info((1, 5), (), None), (0, 3), {}) == {"1": "3"}


Old = namedtuple("Old", "a b")


def test_old_named_tuples() -> None:
    """A named tuple of collections is a record as well, and an overridden field is not asked."""

    class Own(Old):
        @property
        def a(self) -> NoReturn:
            pytest.fail("code of the program ran")

    assert text_of(Old(1, 2)) == "Old(a=1, b=2)"
    assert text_of(Own(1, 2)).endswith("Own(a=1, b=2)")
