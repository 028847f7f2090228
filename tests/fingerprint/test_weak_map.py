"""What is known of objects: each is itself, whatever it is equal to, and is forgotten when it is gone."""

import weakref

from jcache.fingerprint.weak_map import WeakIdentities, weakly


class Alike:
    """Objects that are all equal and share a hash."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Unhashable(Alike):
    __hash__ = None  # type: ignore[assignment]


def test_equal_objects_are_known_apart() -> None:
    """What is put for one object is got for that object alone, also for one that has no hash."""
    known: WeakIdentities[str] = WeakIdentities()
    one, other, third = Alike(), Alike(), Unhashable()
    known.put(one, "one")
    known.put(third, "third")
    assert (known.get(one), known.get(other), known.get(third)) == ("one", None, "third")


def test_the_last_value_counts() -> None:
    """What is put for an object replaces what was known of it."""
    known: WeakIdentities[int] = WeakIdentities()
    one = Alike()
    for number in range(3):
        known.put(one, number)
    assert known.get(one) == 2


def test_an_object_has_nothing_from_one_whose_address_it_gets() -> None:
    """Nothing is known of a new object, wherever in memory it lies."""
    known: WeakIdentities[int] = WeakIdentities()
    addresses = []
    for number in range(100):
        one = Alike()
        addresses.append(id(one))
        assert known.get(one) is None
        known.put(one, number)
        del one
    assert len(set(addresses)) < len(addresses)


def test_values_are_freed_with_their_objects() -> None:
    """A value is held for as long as its object lives, and the object is not kept alive."""
    known: WeakIdentities[Alike] = WeakIdentities()
    one, value = Alike(), Alike()
    freed = weakref.ref(value)
    known.put(one, value)
    del value
    assert freed() is not None
    del one
    assert freed() is None


def test_functions_are_not_kept_alive() -> None:
    """Unless their type has no weak references."""

    def function() -> None:
        pass

    of = weakly(function)
    assert of() is function
    del function
    assert of() is None and weakly(abs)() is abs and weakly([].append)() is not None
