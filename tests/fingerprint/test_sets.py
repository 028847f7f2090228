"""Encoding of sets."""

import itertools

import pytest

from jcache.fingerprint.sets import items_in_order
from jcache.fingerprint.values import Encoder


class Thing:
    def __init__(self, n: int) -> None:
        self.n = n


def test_a_set_gets_its_items_again_in_their_order() -> None:
    """A set of numbers has an order, which depends on that in which it got them; one with texts has another each time.

    Of the numbers here those with the remainders of one another share places in the set's table.
    """
    assert items_in_order({64, 8}) == [*{64, 8}] and items_in_order({8, 64}) == [*{8, 64}]
    assert items_in_order({8}.union([3, 64]), {8}) == [3, 64]
    assert items_in_order({"b", "a", 3}) == ["a", "b", 3] and items_in_order(set()) == []
    found = 0
    for numbers in itertools.permutations([64, 8, 32, 128, 0, 5]):
        try:
            made = set(items_in_order(set(numbers)))
        except TypeError:
            continue
        assert [*made] == [*set(numbers)]
        found += 1
    assert found


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
