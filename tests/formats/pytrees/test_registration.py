"""Classes that the program registers, to be stored by functions of its own."""

from typing import Any

import numpy as np
import pytest

from jcache.errors import InvalidValue, NotStorable, Unresolved
from jcache.formats import pytrees
from jcache.formats.pytrees import registration
from tests.formats.pytrees.test_pytrees import again, stored
from tests.helpers.graph_classes import Derived, Pair, Plain


@pytest.fixture(name="registry", autouse=True)
def registry_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty registry, for a test alone."""
    monkeypatch.setattr(registration, "_by_class", {})
    monkeypatch.setattr(registration, "_by_name", {})


def test_registered_classes_come_back() -> None:
    """A class with ``to_dict`` and ``from_dict`` is stored as its dict, wherever it stands; arrays in it are views."""
    assert pytrees.register_class(Plain) is Plain
    found = again({"a": [Plain(np.arange(3)), Plain([Plain(1)])]})
    assert np.array_equal(found["a"][0].points, np.arange(3))
    assert found["a"][1].points[0].points == 1


def test_registering_says_how_and_under_which_name() -> None:
    """Registered functions and names, also as a decorator, take precedence over every other way to store."""
    decorated = pytrees.register_class(name="pair", to_dict=list, from_dict=lambda two: Pair(*two[::-1]))(Pair)
    assert decorated is Pair
    assert again(Pair(1, 2)) == Pair(2, 1)
    assert b'"pair"' in stored(Pair(1, 2)) and b"graph_classes" not in stored(Pair(1, 2))


def test_a_name_is_of_one_class() -> None:
    """A second class with a taken name is refused; the same class defined again, as in a notebook, replaces
    the first.
    """
    pytrees.register_class(Plain, name="plain")
    with pytest.raises(InvalidValue, match=r"'plain' is the name of tests.helpers.graph_classes:Plain already"):
        pytrees.register_class(Pair, name="plain", to_dict=list, from_dict=tuple)
    anew = type("Plain", (Plain,), {"__module__": Plain.__module__, "__qualname__": Plain.__qualname__})
    pytrees.register_class(anew, name="plain")
    assert type(again(anew(1))) is anew
    with pytest.raises(NotStorable):
        pytrees.dump(Plain(1))


def test_registering_what_cannot_be_is_refused() -> None:
    """An object that is no class, or has no functions to convert it, is refused as a wrong argument."""
    for wrong in (3, Plain(1)):
        with pytest.raises(InvalidValue, match="is not a class"):
            pytrees.register_class(wrong)  # type: ignore[call-overload]
    with pytest.raises(InvalidValue, match="has no `to_dict` or no `from_dict`"):
        pytrees.register_class(Derived)


def test_registered_classes_may_fail() -> None:
    """If ``to_dict`` raises, the value is refused; if ``from_dict`` raises, the graph cannot be made here."""

    def fail(_: object) -> Any:
        raise LookupError("no such thing")

    pytrees.register_class(Plain, to_dict=fail)
    with pytest.raises(NotStorable, match=r"`\[0\]` is of type .*Plain, .*no such thing"):
        pytrees.dump([Plain(1)])
    pytrees.register_class(Plain)
    payload = memoryview(stored(Plain(1)))
    pytrees.register_class(Plain, from_dict=fail)
    with pytest.raises(Unresolved, match="no such thing"):
        pytrees.load(payload)
    registration._by_name.clear()
    with pytest.raises(Unresolved, match=r"call `jcache.register_class` before"):
        pytrees.load(payload)


def test_a_class_that_turns_into_itself_is_refused() -> None:
    """A ``to_dict`` that returns the instance itself is refused."""
    pytrees.register_class(Plain, to_dict=lambda plain: [plain])
    with pytest.raises(NotStorable, match="contains itself"):
        pytrees.dump(Plain(1))
