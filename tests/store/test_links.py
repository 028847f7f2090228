"""Plans over entries that hang together: traces, their programs, and the executables that they need."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.entry import GRACE_NS, Entry
from jcache.layout import Kind
from jcache.store.eviction import everything, plan
from jcache.store.links import Links, Ties
from jcache.store.order import Order
from jcache.store.policy import Plan, Policy, Reason, Share, reasons
from tests.helpers.entries import DAY, NOW, entry, key
from tests.store.test_eviction import FREE, kept, of, policies

sizes, days = st.integers(0, 1000), st.integers(0, 40)
OLD = NOW - 2 * GRACE_NS


def trace(number: int, size: int = 100, used_ns: int = OLD, **more: Any) -> Entry:
    return entry(number, size, used_ns, kind=Kind.TRACES, key=key(number, "step"), **more)


def program(number: int, size: int = 100, used_ns: int = OLD, **more: Any) -> Entry:
    return entry(number, size, used_ns, kind=Kind.TRACES, key=key(number, "step.stablehlo"), **more)


@dataclass(frozen=True)
class World:
    """Entries and the links between them."""

    entries: list[Entry]
    links: Links

    def decide(self, policy: Policy, some: list[Entry] | None = None, free: int = FREE, **more: Any) -> Plan:
        entries = self.entries if some is None else some
        return plan(entries, policy, now_ns=NOW, free_bytes=free, links=self.links, **more)

    def programs(self, of_trace: Entry) -> list[Entry]:
        return [e for e in self.entries if self.links.trace_of.get(e.key) == of_trace.key]

    def needed(self, by: Entry) -> list[Entry]:
        names = self.links.executables.get(by.key, ())
        return [e for e in self.entries if e.kind is Kind.EXECUTABLES and e.key in names]

    def larger_than(self, bound: int | None) -> set[Entry]:
        """An entry that alone exceeds a bound goes, with its trace and programs as one, and the traces that need it."""
        if bound is None:
            return set()
        units = [[one, *self.programs(one)] for one in self.traces]
        parts = {e for unit in units for e in unit}
        single = {e for e in self.entries if e not in parts and e.bytes > bound}
        large = [unit for unit in units if sum(e.bytes for e in unit) > bound or single & {*self.needed(unit[0])}]
        return single | {e for unit in large for e in unit}

    @property
    def traces(self) -> list[Entry]:
        return [e for e in self.entries if e.key.startswith("step-") and self.programs(e)]


def world_of(*linked: tuple[Entry, list[Entry], list[Entry]], others: tuple[Entry, ...] = ()) -> World:
    """A world of traces with their programs and executables, and of other entries; programs among them are strays."""
    found = {e: None for t, programs, executables in linked for e in (t, *programs, *executables)}
    links = Links(
        {p.key: t.key for t, programs, _ in linked for p in programs},
        {t.key: frozenset(e.key for e in executables) for t, _, executables in linked if executables},
        frozenset(e.key for e in others if e.key.startswith("step.stablehlo")),
    )
    return World([*found, *others], links)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Some traces with one to three programs that name some of a few executables; strays, and others."""

    def some(make: Any, number: int) -> Entry:
        pinned = draw(st.sampled_from([False, False, False, True]))
        made: Entry = make(
            number, draw(sizes), OLD - draw(days) * DAY, pinned=pinned, seconds=draw(st.none() | st.floats(0, 100))
        )
        return made

    pool = [some(entry, number) for number in range(draw(st.integers(0, 6)))]
    linked = []
    for number in range(draw(st.integers(0, 5))):
        programs = [some(program, 10 * number + i) for i in range(draw(st.integers(1, 3)))]
        needed = draw(st.lists(st.sampled_from(pool), max_size=3)) if pool else []
        linked.append((some(trace, number), programs, needed))
    strays = [some(program, 1000 + number) for number in range(draw(st.integers(0, 2)))]
    world = world_of(*linked, others=(*strays, *(e for e in pool)))
    return World(draw(st.permutations(list(dict.fromkeys(world.entries)))), world.links)


@given(worlds(), policies)
def test_every_entry_goes_or_stays(world: World, policy: Policy) -> None:
    """Victims and kept are together all entries, each of them once."""
    decided = world.decide(policy)
    assert Counter(of(decided.victims)) + Counter(kept(decided)) == Counter(world.entries)


@given(worlds(), policies)
def test_nothing_is_left_to_do(world: World, policy: Policy) -> None:
    """A second plan for the kept entries, with the freed space, has no victim."""
    decided = world.decide(policy)
    freed = sum(e.bytes for e in of(decided.victims))
    assert not world.decide(policy, kept(decided), FREE + freed).victims


@given(worlds(), policies, st.randoms())
def test_the_order_of_entries_does_not_matter(world: World, policy: Policy, random: Any) -> None:
    """A plan does not depend on the order of the entries."""
    other = list(world.entries)
    random.shuffle(other)
    assert world.decide(policy) == world.decide(policy, other)


@given(worlds(), policies)
def test_bounds_hold_unless_something_protects(world: World, policy: Policy) -> None:
    """Afterwards every bound holds, or nothing is left that could go."""
    decided = world.decide(policy)
    if not of(decided.kept, Reason.WITHIN):
        return
    if policy.max_bytes is not None:
        assert sum(e.bytes for e in kept(decided)) <= policy.max_bytes
    if policy.max_entries is not None:
        assert len(kept(decided)) <= policy.max_entries
    if policy.min_free_bytes is not None:
        assert FREE + sum(e.bytes for e in of(decided.victims)) >= policy.min_free_bytes


@given(worlds(), policies)
def test_a_trace_that_stays_has_all_that_it_needs(world: World, policy: Policy) -> None:
    """A trace that stays keeps its programs and executables, and no program stays whose trace goes."""
    decided = world.decide(policy)
    staying = set(kept(decided))
    for one in world.traces:
        programs = world.programs(one)
        assert {one, *programs} <= staying or not {one, *programs} & staying
        if one in staying:
            assert set(world.needed(one)) <= staying


@given(worlds(), policies)
def test_a_trace_goes_first(world: World, policy: Policy) -> None:
    """A trace goes before its programs and executables, so that an interruption leaves no useless trace."""
    order = {e: number for number, e in enumerate(of(world.decide(policy).victims))}
    for one in world.traces:
        later = [*world.programs(one), *world.needed(one)]
        assert all(order[one] < order[e] for e in later if e in order)


def test_a_trace_over_the_bound_goes_alone() -> None:
    """An entry that alone exceeds the bound goes alone, with the trace that needs it; smaller entries stay."""
    small = entry(1, 10, OLD - DAY)
    large = world_of((trace(1, 10), [program(1, 10)], [entry(2, 200)]), others=(small,))
    decided = large.decide(Policy(max_bytes=100))
    assert of(decided.victims) == [trace(1, 10), program(1, 10), entry(2, 200)]
    assert kept(decided) == [small]
    together = world_of((trace(1, 60), [program(1, 60)], []), others=(small,))
    assert kept(together.decide(Policy(max_bytes=100))) == [small]


@given(worlds(), policies)
def test_pins_protect_what_is_needed(world: World, policy: Policy) -> None:
    """Pinned entries stay; if a trace or its program is pinned, all that it needs stays as well."""
    for decided in (world.decide(policy), everything(world.entries, links=world.links)):
        staying = set(kept(decided))
        assert {e for e in world.entries if e.pinned} <= staying
        for one in world.traces:
            if one.pinned or any(e.pinned for e in world.programs(one)):
                assert {one, *world.programs(one), *world.needed(one)} <= staying


@given(worlds(), policies)
def test_strays_go(world: World, policy: Policy) -> None:
    """A program without its trace goes whatever is asked, unless it is pinned, or young: its trace may be coming."""
    strays = [e for e in world.entries if e.key in world.links.strays and not e.pinned]
    assert set(strays) == set(of(world.decide(policy).victims, Reason.STRAY))
    young = [e._replace(created_ns=NOW - GRACE_NS + 1) for e in world.entries]
    assert not of(world.decide(policy, young).victims, Reason.STRAY)


@given(worlds(), policies.filter(lambda policy: policy.order is Order.LRU))
def test_victims_are_the_least_recently_used(world: World, policy: Policy) -> None:
    """With LRU, no entry stays that was used, by itself or for a trace, before a victim of the bound. An
    entry that alone exceeds the bound, and a trace that needs it, go however recently they were used.
    """
    decided = world.decide(policy)
    ties = Ties(world.entries, world.links)
    hopeless = world.larger_than(policy.max_bytes)
    over = [e for e in of(decided.victims, Reason.SPACE, Reason.WITH_TRACE) if e not in hopeless]
    gone = [ties.used_ns(e) for e in over]
    assert not gone or all(ties.used_ns(e) >= max(gone) for e in of(decided.kept, Reason.WITHIN))


@given(worlds(), st.integers(0, 10_000), st.sampled_from(Order))
def test_no_more_goes_than_must(world: World, bound: int, order: Order) -> None:
    """Without the last victim of a bound, or the last trace, the bound would be exceeded."""
    decided = world.decide(Policy(max_bytes=bound, order=order))
    gone = of(decided.victims, Reason.SPACE, Reason.WITH_TRACE)
    if gone:
        last = decided.because.get(gone[-1].key, gone[-1].key)
        together = [e for e in gone if last in (e.key, decided.because.get(e.key))]
        assert sum(e.bytes for e in (*kept(decided), *together)) > bound


@given(worlds(), policies)
def test_a_plan_for_executables_alone(world: World, policy: Policy) -> None:
    """A plan for executables removes and counts only these; those of a recent trace go later, those of a
    pinned one stay.
    """
    decided = world.decide(policy, kinds=[Kind.EXECUTABLES])
    assert {e.kind for e in (*of(decided.victims), *kept(decided))} <= {Kind.EXECUTABLES}
    for one in world.traces:
        if one.pinned or any(e.pinned for e in world.programs(one)):
            assert set(world.needed(one)) <= set(kept(decided))


@given(worlds(), st.booleans())
def test_clearing(world: World, legacy: bool) -> None:
    """Clearing removes all entries except pinned ones and those that belong to a pinned trace."""
    decided = everything(world.entries, legacy=legacy, links=world.links)
    pinned = {e for e in world.entries if e.pinned}
    for one in world.traces:
        if {one, *world.programs(one)} & pinned:
            pinned |= {one, *world.programs(one), *world.needed(one)}
    assert set(kept(decided)) == pinned
    assert Counter(of(decided.victims) + kept(decided)) == Counter(world.entries)


def test_the_recency_of_a_trace_is_that_of_what_it_needs() -> None:
    """A large executable that was last used by itself a month ago stays for a trace that was used today."""
    needed, other = entry(1, 1000, NOW - 30 * DAY), entry(2, 1000, NOW - 20 * DAY)
    world = world_of((trace(1), [program(1)], [needed]), others=(other,))
    decided = world.decide(Policy(max_bytes=1500))
    assert of(decided.victims) == [other]
    assert not world.decide(Policy(max_age_ns=25 * DAY)).victims


def test_an_executable_of_two_traces_goes_with_the_last() -> None:
    """An executable stays as long as one of its traces stays."""
    shared = entry(1, 100, NOW - 30 * DAY)
    old, new = trace(1, used_ns=NOW - 20 * DAY), trace(2, used_ns=NOW - 10 * DAY)
    of_old, of_new = program(1, used_ns=NOW - 20 * DAY), program(2, used_ns=NOW - 10 * DAY)
    world = world_of((old, [of_old], [shared]), (new, [of_new], [shared]))
    assert of(world.decide(Policy(max_age_ns=15 * DAY)).victims) == [old, of_old]
    assert of(world.decide(Policy(max_entries=1)).victims) == [old, of_old, new, of_new]
    assert of(world.decide(Policy(max_age_ns=5 * DAY)).victims) == [old, of_old, new, of_new, shared]


def test_why_is_told() -> None:
    """Entries that go or stay with a trace have the trace's key."""
    needed = entry(1, 1000, NOW - 30 * DAY)
    mine, other = trace(1, pinned=True), trace(2)
    world = world_of((mine, [program(1)], [needed]), (other, [program(2)], []), others=(program(3),))
    decided = world.decide(Policy(max_entries=0))
    assert reasons(decided.victims) == {
        Reason.SPACE: Share(1, 100), Reason.WITH_TRACE: Share(1, 100), Reason.STRAY: Share(1, 100)
    }  # fmt: skip
    assert reasons(decided.kept) == {Reason.PINNED: Share(1, 100), Reason.NEEDED: Share(2, 1100)}
    assert decided.because == {program(2).key: other.key, program(1).key: mine.key, needed.key: mine.key}


@pytest.mark.full
@pytest.mark.parametrize("order", Order)
def test_plans_of_many_linked_entries(order: Order) -> None:
    """Entries that all of 10,000 traces share cost one step for each link, not for each pair."""
    shared = entry(0)
    world = world_of(*((trace(i), [program(i)], [shared, entry(i)]) for i in range(10_000)))
    decided = world.decide(Policy(max_entries=15_000, order=order))
    assert len(kept(decided)) in (14_999, 15_000)
