"""Sequences of entries that are made when they are asked for."""

import tracemalloc
from collections.abc import Callable, Sequence
from math import nan

import pytest
from hypothesis import given, strategies as st

from jcache.admin.selection import Selection, select
from jcache.entry import Entry
from jcache.layout import Kind, Root
from jcache.store import entries as module
from jcache.store.entries import Entries, Picked, Timed, batches, in_order, joined, key_at, of_entries
from jcache.store.eviction import everything, plan
from jcache.store.policy import Policy
from jcache.store.store import Store
from tests.helpers.entries import NOW, add, entry, key

parts = st.lists(
    st.lists(
        st.builds(
            entry,
            st.integers(0, 100),
            st.integers(0, 5),
            st.integers(0, 3),
            kind=st.sampled_from(Kind),
            pinned=st.booleans(),
            legacy=st.booleans(),
            unknown=st.booleans(),
        ),
        max_size=6,
    ),
    max_size=4,
)


@given(parts, st.booleans())
def test_they_are_lists_of_entries(some: list[list[Entry]], nested: bool) -> None:
    """Joined, picked and timed sequences have the items, numbers and flags of the lists that they stand for."""
    whole = [one for part in some for one in part]
    rows = [len(whole) - 1 - row for row in range(len(whole))]
    whole_again = joined([joined(some), []]) if nested else Entries(some)
    for made, wanted in (
        (whole_again, whole),
        (Picked(whole_again, rows), whole[::-1]),
        (Timed(whole_again, [nan] * len(whole)), [one._replace(seconds=None) for one in whole]),
        (of_entries(whole), whole),
    ):
        assert list(made) == wanted == made and len(made) == len(wanted)
        assert [made[at] for at in range(-len(wanted), len(wanted))] == wanted * 2 and made[1:3] == wanted[1:3]
        assert [key_at(made, at) for at in range(len(wanted))] == [one.key for one in wanted]
        assert list(made.at(rows)) == wanted[::-1]
        for name in ("bytes", "recency_ns", "latest_ns", "created_ns"):
            assert list(made.numbers(name)) == [getattr(one, name) for one in wanted]
        assert [tuple(Kind)[code] for code in made.numbers("kind")] == [one.kind for one in wanted]
        for name in ("pinned", "legacy", "unknown"):
            assert list(made.rows_with(name)) == [at for at, one in enumerate(wanted) if getattr(one, name)]


@pytest.mark.parametrize("part", [2, 10_000])
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 3)), max_size=40))
def test_rows_in_an_order(part: int, numbers: list[tuple[int, float]]) -> None:
    """Rows are ordered as tuples of their numbers are, and equal ones by the last key, however they are sorted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SMALL_PART", part)
        columns = [one for one, _ in numbers], [other for _, other in numbers]
        found = in_order(range(len(numbers)), lambda row: -row, *columns)
    assert list(found) == sorted(range(len(numbers)), key=lambda row: (*numbers[row], -row))


def test_batches() -> None:
    """Items come in lists of the wanted length, the last one shorter."""
    assert list(batches(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batches([], 2)) == []


ACTIONS: dict[str, Callable[[Store], Sequence[object]]] = {
    "listing": lambda store: store.listing(Kind.EXECUTABLES),
    "entries": lambda store: store.entries(),
    "prune": lambda store: plan(store.entries(), Policy(max_entries=10), now_ns=NOW).victims,
    "clear": lambda store: everything(store.entries()).victims,
    "ls": lambda store: select(store, Selection(), seconds=False),
    "ls with seconds": lambda store: select(store, Selection()),
}


@pytest.mark.full
@pytest.mark.parametrize("action", ACTIONS)
def test_an_entry_takes_little_memory(plain: Root, action: str) -> None:
    """What commands hold of a root is less than its names alone would take as texts."""
    count = 3000
    for number in range(count):
        add(plain.path, key(number), 10)
    with Store(plain) as store:
        len(ACTIONS[action](store))
        tracemalloc.start()
        found = ACTIONS[action](store)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(found) >= count - 10 and size < 150 * count
