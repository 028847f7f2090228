"""Encodings say what a value is and where they end, so that no two values share one."""

import itertools
import struct

import pytest

from jcache.fingerprint.encoding import SCALARS, constant, several, tagged, text, unordered

NAN = float("nan")
OTHER_NAN: float = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]
CONSTANTS: list[object] = [
    None, True, False, 1, 0, -1, 16, 10**30, 1.0, 0.0, -0.0, NAN, float("inf"), 1j, complex(-0.0, 1), complex(NAN, 1),
    "", "1", "a", "ab", "\ud800", b"", b"1", b"ab", ..., NotImplemented, (), ("a", "b"), ("ab",), (("a",), "b"),
    ("a", ("b",)), ("str1:a",), frozenset(), frozenset({"a", "b"}), frozenset({("a", "b")}), frozenset({"ab"}),
    slice(1, 2), slice(None, 1, 2), (1, 2, None),
]  # fmt: skip


def test_no_encoding_is_the_beginning_of_another() -> None:
    """Whoever reads encodings that stand one behind the other knows where each ends, and which value it is."""
    encodings = [constant(each) or b"" for each in CONSTANTS]
    for one, other in itertools.permutations(encodings, 2):
        assert one and not other.startswith(one)


def test_what_is_the_same_has_one_encoding() -> None:
    """The usual NaN is one value, others have bits of their own, and the items of a set have no order."""
    assert constant(NAN) == constant(float("nan")) == SCALARS[float](NAN)
    assert len({constant(NAN), constant(-NAN), constant(OTHER_NAN)}) == 3
    assert constant(frozenset(["a", "b", "c"])) == constant(frozenset(["c", "b", "a"]))
    assert unordered(b"set", [text("a"), text("b")]) == unordered(b"set", [text("b"), text("a")])


@pytest.mark.parametrize("inner", [[1], {}, set(), object(), bytearray(b"a")])
def test_only_what_cannot_change_is_a_constant(inner: object) -> None:
    """Anything else has no encoding here, nor has a tuple or a slice that holds it."""
    assert constant(inner) is constant((1, inner)) is constant(((inner,),)) is constant(slice(inner)) is None


def test_a_subclass_is_no_scalar() -> None:
    """A number or text of a class of its own is not the number or text alone."""

    class Rate(float): ...

    class Name(str):
        __slots__ = ()

    assert constant(Rate(1)) is constant((Name("a"),)) is constant(frozenset({Name("a")})) is None


def test_how_encodings_are_put_together_counts() -> None:
    """By the tag, the number of encodings, and their order."""
    one, other = tagged(b"t", b"1"), tagged(b"t", b"2")
    made = [
        several(b"a", [one, other]), several(b"a", [other, one]), several(b"b", [one, other]), several(b"a", [one]),
        several(b"a", []), several(b"a", [several(b"a", [one, other])]), several(b"a", [one, several(b"a", [other])]),
    ]  # fmt: skip
    assert len(set(made)) == len(made)
