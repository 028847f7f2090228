"""The order in which entries go, and entries in columns of what a plan asks of each."""

import pytest
from hypothesis import given, strategies as st

from jcache.entry import Entry
from jcache.layout import Kind
from jcache.store.entries import of_entries
from jcache.store.eviction_order import Table, sort_key
from jcache.store.links import NO_LINKS, Ties, exact_name, node_of
from jcache.store.order import Order
from jcache.store.policy import Reason
from tests.helpers.entries import DAY, NOW, entry
from tests.store.test_eviction import entries


def table(some: list[Entry]) -> Table:
    return Table(of_entries(some), Ties(some, NO_LINKS))


def test_the_cheapest_to_rebuild_per_byte_comes_first() -> None:
    """With the cost order, entries of unknown seconds come first, then by seconds per byte, then by recency."""
    slow, quick, unknown = entry(1, 10, seconds=100.0), entry(2, 1000, seconds=100.0), entry(3, 10)
    older = entry(4, 1000, NOW - DAY, seconds=100.0)
    assert sorted([slow, quick, unknown, older], key=sort_key(Order.COST)) == [unknown, older, quick, slow]


@pytest.mark.parametrize("order", Order)
@given(entries)
def test_rows_are_ordered_as_entries_are(order: Order, some: list[Entry]) -> None:
    """The rows of a table come in the order of the sort key."""
    rows = table(some).ordered(range(len(some)), order)
    assert [some[row] for row in rows] == sorted(some, key=sort_key(order))


@given(entries, st.sets(st.sampled_from(Kind)))
def test_columns_are_of_the_entries(some: list[Entry], kinds: set[Kind]) -> None:
    """Sizes, uses and flags are those of the entries, and rows are found by kind and name."""
    some = [one._replace(kind=tuple(Kind)[number % 3], within_ns=number) for number, one in enumerate(some)]
    made = table(some)
    assert [some[row] for row in made.rows(kinds)] == [one for one in some if one.kind in kinds]
    half = {exact_name(one) for one in some[::2]}
    assert [some[row] for row in made.rows(list(Kind), half)] == [one for one in some if exact_name(one) in half]
    assert [some[row] for row in made.named({node_of(one) for one in some[::2]})] == some[::2]
    assert [made.used_ns(row) for row in range(len(some))] == [one.latest_ns for one in some]
    assert [row in made.pinned for row in range(len(some))] == [one.pinned for one in some]
    assert {made.of_age(row) for row in made.unknown} <= {Reason.WRITTEN}
