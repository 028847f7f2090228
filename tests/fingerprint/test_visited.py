"""The code that a walk has visited tells what it asks of names, and how it uses them."""

from collections.abc import Callable
from types import FunctionType
from typing import Any

from jcache.fingerprint.code import meaning_of
from jcache.fingerprint.visited import ARGUMENT, VisitedCode
from jcache.fingerprint.ways import Way

cfg: Any = {"lr": 1.0}
log: Any = []


def rate() -> object:
    return cfg["lr"]


def outer() -> object:
    return inner(cfg)


def inner(given: Any) -> object:
    return given["inner"]


def note(value: Any) -> None:
    log.append(value.name)


def visited(*functions: Callable[..., object]) -> VisitedCode:
    """Return the code of some functions."""
    code = VisitedCode()
    for each in functions:
        assert isinstance(each, FunctionType)
        code.visit(each, meaning_of(each), is_generated=False)
    return code


def test_what_code_asks_of_a_name() -> None:
    """Also what functions ask to which it passes it, and what is visited later."""
    code = visited(rate)
    assert code.asked_of("cfg") == {"[lr]"}
    assert code.items() == {"cfg[lr]"}
    more: Any = (outer, inner)
    for each in more:
        code.visit(each, meaning_of(each), is_generated=False)
    assert code.asked_of("cfg") == {"[lr]", "[inner]"}


def test_what_a_function_asks_of_its_arguments() -> None:
    """It stands under another name, so that no global is taken for an argument."""
    function: Any = note
    code = visited(function)
    code.visit_parameters(function)
    assert code.asked_of(ARGUMENT + "value") == {".name"}
    assert code.asked_of("value") == set()
    assert code.asked_of_any("value") == {".name"}


def test_what_a_library_has_generated_asks_for_nothing() -> None:
    """It is used all the same."""
    function: Any = rate
    code = VisitedCode()
    code.visit(function, meaning_of(function), is_generated=True)
    assert code.asked_of("cfg") == set()
    assert code.uses_any({"cfg"})


def test_how_code_uses_names() -> None:
    """What is only filled is told from what is asked for an item."""
    ways = visited(rate, note).uses_by_name.ways
    assert "log" in ways[Way.FILLED]
    assert "cfg" in ways[Way.ITEM] | ways[Way.FLAG]
    assert not visited(note).uses_any({"cfg"})


def test_forgotten_code_is_not_kept() -> None:
    """Nothing is asked any more."""
    code = visited(rate)
    code.forget_code()
    assert not code.uses_any({"cfg"}) and code.functions == {}
