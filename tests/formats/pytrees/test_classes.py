"""Instances in graphs: enumerations, namedtuples, dataclasses, and classes that are registered."""

import enum
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jcache.errors import NotStorable, Unresolved
from jcache.formats import pytrees
from tests.formats.pytrees.test_pytrees import again, stored
from tests.helpers import graph_classes as classes
from tests.helpers.graph_classes import Bits, Color, Derived, Guessing, Level, Mode, Pair, Plain, Point, Slotted, Word


@pytest.mark.parametrize(
    "member",
    [
        *Color, Color.CRIMSON, Level.LOW, Word.YES, *Mode, Mode.READ | Mode.WRITE, Mode(0), Bits.ONE | Bits.TWO,
        Bits(0), Bits(8), Guessing.A,
    ],
    ids=lambda member: f"{type(member).__name__}.{member.name}",
)  # fmt: skip
def test_members_are_the_same_objects(member: enum.Enum) -> None:
    """A member of an enumeration, an alias and a combination of flags are loaded as the same objects."""
    is_one = type(member)(member.value) is member  # before Python 3.11.4, some combinations are made anew each time
    assert again([member])[0] is member if is_one else again([member])[0] == member
    assert again({(1, member): member}) == {(1, member): member}


def test_dataclasses_are_made_without_their_code() -> None:
    """Frozen, slotted, keyword-only and derived fields come back; ``__init__`` and the like are not called."""
    value = Derived(Slotted(size=3, more=[np.ones(2)]), second=[classes.Box[int](5)])
    assert value.remembered == 5
    found = again(value)
    assert type(found) is Derived and type(found.first) is Slotted
    assert found.first.size == 3 and np.array_equal(found.first.more[0], np.ones(2))
    assert found.second == [classes.Box(5)] and found.fixed == 4
    assert found.sum[0].size == 3 and found.sum[1] == found.second
    assert "remembered" not in vars(found) and found.remembered == 5
    unmakeable = object.__new__(classes.Unmakeable)
    vars(unmakeable)["value"] = 3
    assert vars(again(unmakeable)) == {"value": 3}


def test_namedtuples_are_made_without_their_code() -> None:
    """Both kinds of namedtuples are loaded, and so is a subclass that cannot be called."""
    strict = tuple.__new__(classes.Strict, (1, [2]))
    found = again([Point(1, (2,)), Pair(3), strict])
    assert found == [Point(1, (2,)), Pair(3), strict]
    assert [type(item) for item in found] == [Point, Pair, classes.Strict]


def with_attribute(instance: Any) -> Any:
    instance.extra = 1
    return instance


def with_hidden() -> Any:
    instance: Any = classes.Hiding()
    instance.hidden = 1
    return instance


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "attribute": (lambda: with_attribute(Derived(1)), "has an attribute `extra` that is none of its fields"),
    "hidden": (with_hidden, "has an attribute `hidden` that is none of its fields"),
    "unset": (classes.Unset, "has no value in its field `value`"),
    "descriptor": (classes.Described, "has code for its field `value`"),
    "exception": (classes.Failing, "is built on a class that only C code can make"),
    "mapping": (classes.Mapped, "is built on a class that only C code can make"),
    "finalizer": (classes.Finalized, r"has a finalizer \(`__del__`\)"),
    "local": (classes.local, "cannot be found again by its module and name"),
    "loose": (lambda: with_attribute(classes.Loose(1)), "holds more or less than its fields"),
    "text": (lambda: {"a": [classes.Text("a")]}, r"`\['a'\]\[0\]` is of type tests.helpers.graph_classes:Text"),
    "guessing": (lambda: Guessing.A | Guessing.B, "does not have it as a member"),
    "plain": (
        lambda: Derived(Plain(1)),
        r"`.first` is of type tests.helpers.graph_classes:Plain, .* `jcache.register_class`",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_instances_that_could_not_be_made_again_are_refused(name: str) -> None:
    """State beside the fields, code in their place, and classes of C or without a name are refused with the reason."""
    make, message = REFUSED[name]
    with pytest.raises(NotStorable, match=message):
        pytrees.dump(make())


def changed(value: object, old: bytes, new: bytes) -> memoryview:
    """Return a payload in which a text of the tree is replaced by another of the same length."""
    data = stored(value)
    assert old in data and len(old) == len(new)
    return memoryview(data.replace(old, new))


@pytest.mark.parametrize(
    ("value", "old", "new", "message"),
    [
        (Color.RED, b"graph_classes", b"graph_clauses", "helpers.graph_clauses`, which has `Color`, is not imported"),
        (Color.RED, b":Color", b":Colon", "`tests.helpers.graph_classes` has no class `Colon`"),
        (Color.RED, b":Color", b":local", "`tests.helpers.graph_classes` has no class `local`"),
        (Color.RED, b'"RED"', b'"TED"', "`tests.helpers.graph_classes:Color` has no member `TED`"),
        (Color.RED, b'"RED",1', b'"RED",2', "value of `tests.helpers.graph_classes:Color.RED` has changed from 2 to 1"),
        (Mode.READ | Mode.WRITE, b",3]", b",4]", "has no combination of flags 4"),
        (Mode.READ | Mode.WRITE, b":Mode", b":Word", "is no Flag"),
        (Pair(1), b":Pair", b":Text", "is no tuple"),
        (Pair(1), b'"right"', b'"wrong"', "no longer has the fields"),
        (Pair(1), b":Pair", b":Mode", "is no tuple"),
        (Slotted(size=1), b'"size"', b'"side"', "no longer has the fields"),
        (Slotted(size=1), b":Slotted", b":Derived", "no longer has the fields"),
        (classes.Box(1), b":Box", b":Set", "has no class `Set`"),
        (Derived(1), b":Derived", b":Mapped\x20", "has no class"),
        (
            Derived(1),
            b"tests.helpers.graph_classes:Derived",
            b"tests.helpers.graph_classes:Failing",
            "only C code can make",
        ),
        (
            Derived(1),
            b"tests.helpers.graph_classes:Derived",
            b"os:environ.data.get.setxxxx" + b"x" * 8,
            "has no class|not imported",
        ),
    ],
)
def test_a_class_that_has_changed_is_no_reason_to_guess(value: object, old: bytes, new: bytes, message: str) -> None:
    """A class that is gone, of another sort, or with other fields or values is reported, and no instance is made."""
    with pytest.raises(Unresolved, match=message):
        pytrees.load(changed(value, old, new))


def test_nothing_is_imported_for_a_class() -> None:
    """A class of a module that is not imported is not found, and the module is not imported."""
    module = "this"
    assert module not in sys.modules
    with pytest.raises(Unresolved, match="`this`, which has"):
        pytrees.load(changed(Color.RED, b"tests.helpers.graph_classes:Color", b"this:" + b"s" * 28))
    assert module not in sys.modules
