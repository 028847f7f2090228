"""Which graphs are stored, and how one is compared with those that are stored already."""

import asyncio
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any, ClassVar

import pytest

from jcache import GraphCache, NotStorable
from jcache.findings import Damage
from jcache.layout import Root
from jcache.store.quarantine import Quarantine
from tests.helpers.graph_functions import Hidden, half, shown
from tests.helpers.graph_programs import graph_file, graphs_of


def mutates(values: list[int]) -> int:
    values.append(1)
    return len(values)


class State:
    """What a function may change."""

    table: ClassVar[dict[str, int]] = {}


def remembers(n: int) -> int:
    State.table[str(n)] = n
    return n


def test_a_function_that_changes_its_inputs(cache: GraphCache, native: Root) -> None:
    """Its value is returned and not stored, since it would be found under inputs of another time; it is said once."""
    with pytest.warns(UserWarning, match=r"`mutates` is not stored.*changes its key") as said:
        assert [cache.get_or_build(mutates, [1, 2]) for _ in range(3)] == [3, 3, 3]
    assert len(said) == 1
    assert graphs_of(native) == [] and cache.stats().hits == 0
    assert dict(cache.stats().not_stored) == {"what it is built from changed meanwhile": 3}


def test_a_function_that_fills_a_memo(cache: GraphCache, native: Root) -> None:
    """Its value is stored: a container that only grew is no input that changed."""
    assert cache.get_or_build(remembers, 1) == 1
    assert len(graphs_of(native)) == 1


async def coroutine(n: int) -> int:
    return n


def generator(n: int) -> Generator[int]:
    yield from range(n)


def a_lock(n: int) -> list[Any]:
    return [n, {"lock": threading.Lock()}]


@pytest.mark.parametrize(
    ("function", "use", "part"),
    [
        (coroutine, asyncio.run, "coroutine"),
        (generator, list, "generator"),
        (a_lock, len, r"\[1\]\['lock'\]"),
    ],
)
def test_a_value_that_cannot_be_stored(
    cache: GraphCache, native: Root, function: Callable[..., Any], use: Callable[[Any], Any], part: str
) -> None:
    """It is returned as it is, can be used, and one warning names the part."""
    with pytest.warns(UserWarning, match=f"cannot be stored.*{part}") as said:
        assert [use(cache.get_or_build(function, 2)) for _ in range(2)] == [use(function(2))] * 2
    assert len(said) == 1 and said[0].filename == __file__
    assert graphs_of(native) == [] and dict(cache.stats().not_stored) == {"the value cannot be stored": 2}
    with pytest.raises(NotStorable):
        cache.save(threading.Lock(), half, 2)


def test_the_same_result_is_not_stored_again(cache: GraphCache, native: Root) -> None:
    """A graph that is built to be compared, and is as it was, leaves the stored one untouched."""
    cache.get_or_build(shown, Hidden(1))
    before = graph_file(native).stat()
    again = GraphCache(native.path, check="always")
    assert again.get_or_build(shown, Hidden(1)) == 1
    assert (again.stats().builds, again.stats().stored, dict(again.stats().not_stored)) == (1, 0, {})
    assert graph_file(native).stat() == before


def test_two_results_in_one_world_are_not_served(cache: GraphCache, native: Root) -> None:
    """Where two builds of one key differ and nothing tells why, each process builds, and `explain` gives the reason."""
    cache.get_or_build(shown, Hidden(1))
    always, later = GraphCache(native.path, check="always"), GraphCache(native.path)
    assert always.get_or_build(shown, Hidden(2)) == 2 and later.get_or_build(shown, Hidden(3)) == 3
    for refused in (always, later):
        (reason,) = refused.stats().not_stored
        assert (
            reason.startswith("two builds of it in the same world")
            and reason == refused.explain(shown, Hidden(1)).reason
        )
    assert len(graphs_of(native)) == 1


def test_results_of_two_worlds_are_stored_beside_each_other(
    cache: GraphCache, native: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each world is served the result that was built in it, under keys of their own."""
    argv = [*sys.argv]
    cache.get_or_build(shown, Hidden(1))
    monkeypatch.setattr(sys, "argv", ["train.py", "--other"])
    assert GraphCache(native.path).get_or_build(shown, Hidden(2)) == 2
    assert len(graphs_of(native)) == 2
    assert GraphCache(native.path).load(shown, Hidden(3)) == 2
    monkeypatch.setattr(sys, "argv", argv)
    assert GraphCache(native.path).load(shown, Hidden(3)) == 1


def test_a_saved_value_takes_the_place_of_the_stored_one(cache: GraphCache, native: Root) -> None:
    """An equal value changes nothing; another one replaces the stored graph, which goes to quarantine."""
    key = cache.save(0.25, half, 3)
    stored = graph_file(native).stat()
    assert cache.save(0.25, half, 3) == key and graph_file(native).stat() == stored
    assert cache.save(0.75, half, 3) == key and cache.load(half, 3) == 0.75
    assert [record.damage for record in Quarantine(native).records()] == [Damage.REPLACED]
