"""The code of nested functions, found again in their modules."""

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from jcache.errors import NotStorable, Unresolved
from jcache.traces.callbacks.codes import code_at, digest_of, place_of


def twice(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper, as decorators do."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(function(*args))

    return call


def outer(number: int) -> list[Any]:
    """Return functions of one name, two of which do the same."""
    made: list[Any] = [lambda value: value + number, lambda value: value * number]
    made.append(lambda value: value + number)
    return made


@twice
def decorated(value: Any) -> Any:
    """Return a nested function, the second time."""
    return value if callable(value) else (lambda: value)


class Holder:
    """A class with a method that makes functions."""

    @staticmethod
    def make() -> Callable[[], str]:
        """Return a nested function."""

        def inner() -> str:
            return "made"

        return inner


@pytest.mark.parametrize("function", [*outer(3), decorated(1), Holder.make(), twice(len)])
def test_the_code_of_a_nested_function_is_found_again(function: FunctionType) -> None:
    """In functions, behind decorators and in methods of classes; of equal ones the one that was meant."""
    code, namespace = code_at(*place_of(function))
    assert code is function.__code__ and namespace is globals()


def test_what_has_changed_is_not_found() -> None:
    """Code that does something else, of another name, of another module, or more often than it stands there."""
    name, qualname, digest, number = place_of(outer(1)[0])
    for other in (
        (name, qualname, digest[::-1], number), (name, "outer.<locals>.other", digest, number),
        ("no.such.module", qualname, digest, number), (name, qualname, digest, 7),
    ):  # fmt: skip
        with pytest.raises(Unresolved):
            code_at(*other)


def test_code_of_no_module_has_no_place() -> None:
    """What `exec` has made, and what is reached from no name of its module."""
    namespace: dict[str, Any] = {"__name__": __name__}
    exec("def made(): return 1", namespace)
    with pytest.raises(NotStorable, match="`made` cannot be found again"):
        place_of(namespace["made"])
    hidden = outer(1)[0]
    outer_of = vars(sys.modules[__name__])
    kept = outer_of.pop("outer")
    try:
        with pytest.raises(NotStorable):
            place_of(hidden)
    finally:
        outer_of["outer"] = kept


def test_lines_of_a_file_do_not_count() -> None:
    """The same code some lines further down has the same digest."""
    texts = ["def f(x): return x + 1", "\n\ndef f(x): return x + 1", "def f(x): return x + 2"]
    namespaces: list[dict[str, Any]] = [{}, {}, {}]
    for text, namespace in zip(texts, namespaces, strict=True):
        exec(text, namespace)
    one, same, other = (digest_of(namespace["f"].__code__) for namespace in namespaces)
    assert one == same != other
