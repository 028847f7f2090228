"""A policy holds the criteria of an eviction."""

import pytest

from jcache.store.policy import Order, Policy


@pytest.mark.parametrize(
    ("policy", "empty"),
    [(Policy(), True), (Policy(order=Order.COST), True), (Policy(max_bytes=0), False), (Policy(legacy=True), False)],
)
def test_a_policy_that_asks_for_nothing(policy: Policy, empty: bool) -> None:
    """An order alone asks for nothing; a bound of zero asks for much."""
    assert policy.empty is empty
