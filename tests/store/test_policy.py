"""A policy holds the criteria of an eviction."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from jcache.layout import Kind
from jcache.store.order import Order
from jcache.store.policy import Policy, Reason, Share, Verdict, Verdicts, reasons
from tests.helpers.entries import entry

verdicts = st.lists(
    st.builds(
        lambda number, size, kind, reason: Verdict(entry(number, size, kind=kind), reason),
        st.integers(0, 20),
        st.integers(0, 100),
        st.sampled_from(Kind),
        st.sampled_from(Reason),
    ),
    max_size=20,
)


@pytest.mark.parametrize(
    ("policy", "empty"),
    [(Policy(), True), (Policy(order=Order.COST), True), (Policy(max_bytes=0), False), (Policy(legacy=True), False)],
)
def test_a_policy_that_asks_for_nothing(policy: Policy, empty: bool) -> None:
    """An order alone asks for nothing; a bound of zero asks for much."""
    assert policy.empty is empty


@given(verdicts, verdicts)
def test_verdicts_are_a_list_of_verdicts(some: list[Verdict], more: list[Verdict]) -> None:
    """Verdicts in columns are, add up and are picked as a list of them, and keep its sums."""
    made = Verdicts.of(some)
    assert list(made) == some == made and made == tuple(some) and made + more == some + more
    assert made.at(range(len(some) - 1, -1, -1)) == some[::-1]
    assert made.bytes == sum(entry.bytes for entry, _ in some)
    assert made.for_reasons(Reason.AGE) == [verdict for verdict in some if verdict.reason is Reason.AGE]
    assert {kind: [made[at].entry.kind for at in places] for kind, places in made.by_kind().items()} == {
        kind: [kind] * sum(entry.kind is kind for entry, _ in some) for kind in Kind
    }
    counted = Counter(reason for _, reason in some)
    assert (
        reasons(some)
        == made.shares()
        == {
            reason: Share(count, sum(entry.bytes for entry, why in some if why is reason))
            for reason, count in counted.items()
        }
    )
