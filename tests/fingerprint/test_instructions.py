"""The instructions of code objects: what each is about, and whether it loads what is called."""

from collections.abc import Callable
from typing import Any

import pytest

from jcache.fingerprint.instructions import ATTRIBUTE, steps_of

g: Any = None
h: Any = None
SILENT = {"EXTENDED_ARG", "CACHE", "NOP", "PRECALL", "NOT_TAKEN", "RESUME", "PUSH_NULL"}


def loaded(function: Callable[..., object]) -> list[tuple[object, bool]]:
    """The globals and attributes that a function loads, each with whether it is called."""
    return [
        (each.value, each.called)
        for each in steps_of(function.__code__)
        if each.name == "LOAD_GLOBAL" or each.name in ATTRIBUTE
    ]


CALLED: list[tuple[Callable[..., object], list[tuple[object, bool]]]] = [
    (lambda: g, [("g", False)]),
    (lambda: g(), [("g", True)]),
    (lambda: g(h), [("g", True), ("h", False)]),
    (lambda: h(g()), [("h", True), ("g", True)]),
    (lambda: (g, h(1)), [("g", False), ("h", True)]),
    (lambda x: x.a, [("a", False)]),
    (lambda x: x.a(), [("a", True)]),
    (lambda x: x.a.b(), [("a", False), ("b", True)]),
    (lambda x: x.a(g, h=h), [("a", True), ("g", False), ("h", False)]),
]


@pytest.mark.parametrize(("function", "expected"), CALLED)
def test_what_is_about_to_be_called_is_told(
    function: Callable[..., object], expected: list[tuple[object, bool]]
) -> None:
    """Of each global and attribute that is loaded, and not of the arguments of a call."""
    assert loaded(function) == expected


def test_instructions_that_do_nothing_are_left_out() -> None:
    """Also in a function of so many names that Python needs wide arguments for them."""
    names = [f"n{number}" for number in range(600)]
    namespace: dict[str, Any] = {}
    exec(f"def f(x):\n  try:\n    return [{', '.join(names)}, x.a()]\n  except ValueError:\n    pass", namespace)
    steps = steps_of(namespace["f"].__code__)
    assert SILENT.isdisjoint(each.name for each in steps)
    assert [each.value for each in steps if each.name == "LOAD_GLOBAL"][:600] == names


def test_a_call_tells_how_many_arguments_it_takes() -> None:
    """Which says what of the instructions before it is the first of them."""
    assert [each.number for each in steps_of((lambda: g(g(), h(1, 2, 3))).__code__) if each.name == "CALL"] == [0, 3, 2]
