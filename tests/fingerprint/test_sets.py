"""Encoding of sets."""

import pytest

from jcache.fingerprint.values import Encoder


class Thing:
    def __init__(self, n: int) -> None:
        self.n = n


@pytest.mark.parametrize("kind", [set, frozenset])
def test_the_order_of_a_set_does_not_count(kind: type) -> None:
    """Texts are in another order in each process; these are in two orders here."""
    names = [f"name {number}" for number in range(100)]
    assert Encoder().encode(kind(names)) == Encoder().encode(kind(reversed([*names, *names])))
    assert Encoder().encode(kind(names)) != Encoder().encode(kind(names[1:]))


@pytest.mark.parametrize(
    ("items", "is_ordered"),
    [([1, "a", None], True), ([(1, 2), (2, 1)], True), ([Thing(1)], True), ([Thing(1), Thing(2)], False)],
)
def test_two_objects_of_one_type_have_no_order(items: list[object], is_ordered: bool) -> None:
    """Then a walk may visit them in another order in another process."""
    encoder = Encoder()
    encoder.encode({*items})
    assert encoder.snapshot.is_ordered == is_ordered
    assert encoder.encode([*items]) and encoder.snapshot.is_ordered == is_ordered
