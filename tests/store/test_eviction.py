"""Plans: the entries to evict."""

from collections import Counter
from collections.abc import Iterable

from hypothesis import given, strategies as st

from jcache.entry import Entry
from jcache.store.eviction import Excess, everything, make_room, plan
from jcache.store.order import Order
from jcache.store.policy import Plan, Policy, Reason, Share, Verdict, reasons
from tests.helpers.entries import DAY, NOW, entry

entries = st.lists(
    st.builds(
        entry,
        st.integers(0, 10**6),
        st.integers(0, 1000),
        st.integers(0, 40).map(lambda days: NOW - days * DAY),
        pinned=st.booleans() | st.just(False),
        legacy=st.booleans() | st.just(False),
        seconds=st.none() | st.floats(0, 100),
    ),
    max_size=25,
    unique_by=lambda e: e.key,
)
bounds = st.none() | st.integers(0, 30)
policies = st.builds(
    Policy,
    max_bytes=st.none() | st.integers(0, 15_000),
    max_entries=bounds,
    min_free_bytes=st.none() | st.integers(0, 20_000),
    max_age_ns=bounds.map(lambda days: None if days is None else days * DAY),
    keep_last=bounds,
    legacy=st.booleans(),
    order=st.sampled_from(Order),
)
FREE = 5_000


def decide(some: list[Entry], policy: Policy, free: int = FREE) -> Plan:
    return plan(some, policy, now_ns=NOW, free_bytes=free)


def of(verdicts: Iterable[Verdict], *why: Reason) -> list[Entry]:
    return [entry for entry, reason in verdicts if not why or reason in why]


def kept(decided: Plan) -> list[Entry]:
    return of(decided.kept)


@given(entries, policies)
def test_every_entry_goes_or_stays(some: list[Entry], policy: Policy) -> None:
    """Victims and kept are together all entries, each of them once."""
    decided = decide(some, policy)
    assert Counter(of(decided.victims)) + Counter(kept(decided)) == Counter(some)


@given(entries, policies)
def test_nothing_is_left_to_do(some: list[Entry], policy: Policy) -> None:
    """A second plan for the kept entries, with the freed space, has no victim."""
    decided = decide(some, policy)
    freed = sum(e.bytes for e in of(decided.victims))
    assert not decide(kept(decided), policy, FREE + freed).victims


@given(entries.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))), policies)
def test_the_order_of_entries_does_not_matter(some: tuple[list[Entry], list[Entry]], policy: Policy) -> None:
    """A plan does not depend on the order of the entries."""
    assert decide(some[0], policy) == decide(some[1], policy)


@given(entries, policies)
def test_bounds_hold_unless_something_protects(some: list[Entry], policy: Policy) -> None:
    """Afterwards every bound holds, or only pinned, last and legacy entries are left."""
    decided = decide(some, policy)
    stay = [e for e in kept(decided) if not e.legacy]
    if not of(decided.kept, Reason.WITHIN):
        return
    if policy.max_bytes is not None:
        assert sum(e.bytes for e in stay) <= policy.max_bytes
    if policy.max_entries is not None:
        assert len(stay) <= policy.max_entries
    if policy.min_free_bytes is not None:
        assert FREE + sum(e.bytes for e in of(decided.victims)) >= policy.min_free_bytes


@given(entries, policies)
def test_pinned_entries_stay(some: list[Entry], policy: Policy) -> None:
    """No pinned entry is a victim, whatever the policy, legacy or not."""
    assert not [e for e in of(decide(some, policy).victims) if e.pinned]


@given(entries, policies)
def test_the_last_ones_stay(some: list[Entry], policy: Policy) -> None:
    """The most recently used ones that `keep_last` names stay; legacy ones do not count among them."""
    current = sorted((e for e in some if not e.legacy), key=lambda e: (e.recency_ns, e.key))
    last = current[len(current) - min(policy.keep_last or 0, len(current)) :]
    assert set(last) <= set(kept(decide(some, policy)))


@given(entries, policies)
def test_legacy_entries_go_only_if_asked(some: list[Entry], policy: Policy) -> None:
    """No bound removes a legacy entry; `legacy` removes all that are not pinned."""
    gone = {e for e in of(decide(some, policy).victims) if e.legacy}
    assert gone == ({e for e in some if e.legacy and not e.pinned} if policy.legacy else set())


@given(entries, policies.filter(lambda policy: policy.order is Order.LRU))
def test_victims_are_the_least_recently_used_prefix(some: list[Entry], policy: Policy) -> None:
    """With LRU, the victims are exactly the least recently used of the removable entries, in this order. An
    entry that alone exceeds the bound goes before them.
    """
    decided = decide(some, policy)
    gone = [e for e in of(decided.victims) if not e.legacy]
    may_go = [e for e in some if not e.legacy and e not in of(decided.kept, Reason.PINNED, Reason.LAST)]
    bound = max((e.bytes for e in some), default=0) if policy.max_bytes is None else policy.max_bytes
    small = [e for e in gone if e.bytes <= bound]
    fitting = (e for e in may_go if e.bytes <= bound)
    assert small == sorted(fitting, key=lambda e: (e.recency_ns, e.key))[: len(small)]
    if any(e in small for e in of(decided.victims, Reason.SPACE)):
        assert {e for e in may_go if e.bytes > bound} <= set(gone)


@given(entries, st.integers(0, 15_000), st.sampled_from(Order))
def test_no_more_goes_than_must(some: list[Entry], bound: int, order: Order) -> None:
    """Without the last victim of a bound, the bound would be exceeded."""
    decided = decide(some, Policy(max_bytes=bound, order=order))
    gone = of(decided.victims, Reason.SPACE)
    if gone:
        stay = sum(e.bytes for e in kept(decided) if not e.legacy)
        assert stay + gone[-1].bytes > bound


def test_the_cheapest_to_rebuild_per_byte_goes_first() -> None:
    """With the cost order, entries of unknown seconds go first, then by seconds per byte, then by recency."""
    slow, quick, unknown = entry(1, 10, seconds=100.0), entry(2, 1000, seconds=100.0), entry(3, 10)
    older = entry(4, 1000, NOW - DAY, seconds=100.0)
    some = [slow, quick, unknown, older]
    decided = decide(some, Policy(max_entries=1, order=Order.COST))
    assert of(decided.victims) == [unknown, older, quick]


@given(entries.filter(bool))
def test_age_is_strict(some: list[Entry]) -> None:
    """An entry used exactly that long ago, or in the future, stays; one that is a nanosecond older goes."""
    oldest = min(e.recency_ns for e in some)
    assert not of(decide(some, Policy(max_age_ns=NOW - oldest)).victims)
    gone = of(decide(some, Policy(max_age_ns=NOW - oldest - 1)).victims, Reason.AGE)
    assert set(gone) == {e for e in some if e.recency_ns == oldest and not e.pinned and not e.legacy}


def test_criteria_add_up() -> None:
    """An entry goes as soon as one criterion asks for it; those that went count for the others."""
    some = [entry(i, 100, NOW - i * DAY) for i in range(10)]
    decided = decide(some, Policy(max_age_ns=6 * DAY, max_entries=5))
    assert reasons(decided.victims) == {Reason.AGE: Share(3, 300), Reason.SPACE: Share(2, 200)}
    assert kept(decided) == [entry(i, 100, NOW - i * DAY) for i in (4, 3, 2, 1, 0)]


def test_keep_last_alone_removes_all_others() -> None:
    """Without a bound, keeping the last entries removes all others; with one, only as many as the bound requires."""
    some = [entry(i, 100, NOW - i * DAY) for i in range(5)]
    assert len(decide(some, Policy(keep_last=2)).victims) == 3
    assert len(decide(some, Policy(keep_last=2, max_entries=4)).victims) == 1
    assert len(decide(some, Policy(keep_last=2, max_entries=0)).victims) == 3
    assert len(decide(some, Policy(keep_last=0)).victims) == 5


def test_free_space_counts_what_goes_anyway() -> None:
    """Entries that go for other reasons free space as well; if the free space is unknown, nothing goes for it."""
    some = [entry(i, 100, NOW - i * DAY) for i in range(10)]
    policy = Policy(min_free_bytes=1000, max_age_ns=7 * DAY)
    assert len(decide(some, policy, free=750).victims) == 3
    assert len(decide(some, policy, free=800).victims) == 2
    assert not plan(some, Policy(min_free_bytes=1000), now_ns=NOW).victims


@given(entries, st.booleans())
def test_clearing(some: list[Entry], legacy: bool) -> None:
    """Clearing removes all entries except pinned ones and, by default, legacy ones."""
    decided = everything(some, legacy=legacy)
    assert of(decided.victims) == [e for e in some if not e.pinned and (legacy or not e.legacy)]
    assert Counter(of(decided.victims) + kept(decided)) == Counter(some)


@given(entries, st.integers(-5, 30), st.integers(-100, 15_000))
def test_room_is_made_as_needed(some: list[Entry], count: int, size: int) -> None:
    """`make_room` takes candidates in the order given and stops as soon as the excess is gone."""
    taken = list(make_room(some, Excess(count, size)))
    assert taken == some[: len(taken)]

    def enough(n: int) -> bool:
        return n >= count and sum(e.bytes for e in some[:n]) >= size

    assert enough(len(taken)) or len(taken) == len(some)
    assert not taken or not enough(len(taken) - 1)


def test_an_entry_over_the_bound_goes_alone() -> None:
    """An entry that alone exceeds the bound goes alone, and smaller ones stay, however old they are."""
    some = [entry(number, size=10, used_ns=NOW - number * DAY) for number in range(5)]
    large = entry(9, size=1000, used_ns=NOW)
    decided = plan([*some, large], Policy(max_bytes=100), now_ns=NOW)
    assert [verdict.entry for verdict in decided.victims] == [large]
    assert len(decided.kept) == 5
