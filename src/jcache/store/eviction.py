"""Plan evictions: a policy and entries give a plan, a value to print or to execute. Pure; the only eviction code.

What is over the bound by itself goes first, since it could not stay whatever else went. Of the others the victims are,
with `Order.LRU`, exactly the least recently used prefix of what may be evicted. With `Order.COST` those
go first that cost the fewest seconds to build again for each byte they take (Greedy-Dual-Size's H = cost / size,
Cao and Irani 1997, without its ageing term); equal ones by recency. Criteria add up: an entry goes as soon as one of
them asks for it, and stays if it is pinned or among the last ones to keep.

A trace and its programs are one: they were used when any of them was, go together, the trace first, and what keeps one
of them keeps all. An executable that a trace needs was used when the trace was, goes after it, and stays as long as
something keeps the trace (`jcache.store.links`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from jcache.entry import Entry, is_young
from jcache.frozen import Frozen
from jcache.layout import Kind
from jcache.store.links import NO_LINKS, Links, Name, Node, Ties, exact_name
from jcache.store.policy import Order, Plan, Policy, Reason, Verdict

_AFTER: Final = 2  # a trace and its programs


_ASKED_FOR: Final = frozenset({Reason.CLEARED, Reason.NAMED, Reason.MATCHED})
_STAYING: Final = frozenset({Reason.PINNED, Reason.LAST, Reason.NEEDED, Reason.OLD_FORMAT})


class Excess(NamedTuple):
    """The amounts over the bounds; nothing is over where neither number is positive."""

    entries: int
    bytes: int


def make_room(candidates: Iterable[Entry], excess: Excess) -> Iterator[Entry]:
    """Yield the candidates that must go, taken in the given order only until the excess is gone."""
    entries, size = excess
    if entries <= 0 and size <= 0:
        return
    for entry in candidates:
        yield entry
        entries -= 1
        size -= entry.bytes
        if entries <= 0 and size <= 0:
            return


def plan(
    entries: Iterable[Entry],
    policy: Policy,
    *,
    now_ns: int,
    free_bytes: int | None = None,
    links: Links = NO_LINKS,
    kinds: Collection[Kind] = tuple(Kind),
    only: Collection[Name] | None = None,
) -> Plan:
    """Return the plan that brings the entries within the policy.

    Args:
        entries: all entries that the policy is about, and those that are linked to them.
        policy: what to keep to.
        now_ns: the present, nanoseconds since 1970.
        free_bytes: what the file system has free; needed for ``min_free_bytes``.
        links: between the entries.
        kinds: of the entries that the policy is about; others are as they are.
        only: the entries that the policy is about; None for all. A trace and its programs count only if all of them
            are named.

    Returns:
        Victims and kept entries, together all of ``entries`` of these kinds. Planning again on what is kept finds no
        victim.
    """
    everyone = list(entries)
    ties = Ties(everyone, links)
    subject = [entry for entry in _only(everyone, ties, only) if entry.kind in kinds]
    ordered = sorted(subject, key=_order(ties, Order.LRU))
    strays = {_id(entry) for entry in ties.strays if not is_young(entry.created_ns, now_ns)}
    last = _last(ordered, strays, policy.keep_last or 0)
    staying = [entry for entry in everyone if entry.pinned or _id(entry) in last]
    protected = ties.protected_by(staying, [entry for entry in staying if not entry.pinned])
    fixed = {**dict.fromkeys(protected, Reason.NEEDED), **dict.fromkeys(strays, Reason.STRAY)}
    fixed |= dict.fromkeys(last, Reason.LAST)
    victims: list[Verdict] = []
    kept: list[Verdict] = []
    candidates: list[Entry] = []
    oldest_ns = None if policy.max_age_ns is None else now_ns - policy.max_age_ns
    for entry in ordered:
        reason = Reason.PINNED if entry.pinned else fixed.get(_id(entry))
        reason = reason or _criterion(entry, policy, ties.used_ns(entry), oldest_ns)
        if reason is None:
            candidates.append(entry)
        else:
            (kept if reason in _STAYING else victims).append(Verdict(entry, reason))
    stay = [v.entry for v in kept if not v.entry.legacy] + candidates
    excess = _excess(stay, policy, sum(v.entry.bytes for v in victims), free_bytes)
    over, within = _split_at_bound(candidates, policy, ties, excess)
    victims += (Verdict(entry, Reason.SPACE) for entry in over)
    gone = {verdict.entry.key for verdict in victims} if ties.units else ()
    for entry in within:
        old = oldest_ns is not None and ties.used_ns(entry, gone) < oldest_ns
        (victims if old else kept).append(Verdict(entry, _reason_of_age(entry) if old else Reason.WITHIN))
    return _explained(victims, kept, ties, protected)


def _only(entries: Sequence[Entry], ties: Ties, only: Collection[Name] | None) -> Sequence[Entry]:
    """Return the entries that a policy is about, as `plan` has it."""
    if only is None:
        return entries
    about = ties.without_parts(only)
    return [entry for entry in entries if exact_name(entry) in about]


def _split_at_bound(
    candidates: Sequence[Entry], policy: Policy, ties: Ties, excess: Excess
) -> tuple[list[Entry], list[Entry]]:
    """Return the candidates that go to make room, in the order in which they go, and the others."""
    ordered = sorted(candidates, key=_order(ties, policy.order or Order.LRU))
    if policy.max_bytes is not None:
        hopeless = _over(ordered, policy.max_bytes, ties)
        ordered.sort(key=lambda entry: _id(entry) not in hopeless)
    chosen = ties.whole(ordered, len(list(make_room(ordered, excess))))
    return ordered[:chosen], ordered[chosen:]


def _criterion(entry: Entry, policy: Policy, used_ns: int, oldest_ns: int | None) -> Reason | None:
    """Return why an unprotected entry goes or stays; None if the bounds decide."""
    if entry.legacy:
        return Reason.LEGACY if policy.legacy else Reason.OLD_FORMAT
    if oldest_ns is not None and used_ns < oldest_ns:
        return _reason_of_age(entry)
    return Reason.NOT_LAST if policy.keep_last is not None and not policy.bounded else None


def _reason_of_age(entry: Entry) -> Reason:
    return Reason.WRITTEN if entry.unknown else Reason.AGE


def everything(
    entries: Iterable[Entry],
    *,
    legacy: bool = False,
    links: Links = NO_LINKS,
    kinds: Collection[Kind] = tuple(Kind),
) -> Plan:
    """Return the plan that keeps only pinned entries, what they need and, unless asked for too, legacy ones."""
    everyone = list(entries)
    ties = Ties(everyone, links)
    protected = ties.protected_by([entry for entry in everyone if entry.pinned])
    victims: list[Verdict] = []
    kept: list[Verdict] = []
    for entry in everyone:
        if entry.kind not in kinds:
            continue
        if entry.pinned:
            kept.append(Verdict(entry, Reason.PINNED))
        elif _id(entry) in protected:
            kept.append(Verdict(entry, Reason.NEEDED))
        elif entry.legacy and not legacy:
            kept.append(Verdict(entry, Reason.OLD_FORMAT))
        else:
            victims.append(Verdict(entry, Reason.CLEARED))
    victims.sort(key=lambda verdict: ties.is_program(verdict.entry))  # after their traces
    return _explained(victims, kept, ties, protected)


def chosen(entries: Iterable[Entry], wanted: Iterable[Entry], reason: Reason, *, links: Links = NO_LINKS) -> Plan:
    """Return the plan that removes some entries, and with traces their programs, but what is pinned or needed for that.

    Args:
        entries: all entries that are linked to each other.
        wanted: those of them that are to go.
        reason: why.
        links: between the entries.

    Returns:
        Victims and kept entries, together those that are wanted and the programs of traces among them.
    """
    everyone = list(entries)
    ties = Ties(everyone, links)
    protected = ties.protected_by([entry for entry in everyone if entry.pinned])
    going = dict.fromkeys(map(exact_name, wanted), reason)
    for trace, unit in ties.units.items():
        if (Kind.TRACES, trace, False) in going:
            for entry in unit:
                going.setdefault(exact_name(entry), Reason.WITH_TRACE)
    victims: list[Verdict] = []
    kept: list[Verdict] = []
    for entry in everyone:
        why = going.get(exact_name(entry))
        if why is None:
            continue
        if entry.pinned:
            kept.append(Verdict(entry, Reason.PINNED))
        elif _id(entry) in protected:
            kept.append(Verdict(entry, Reason.NEEDED))
        else:
            victims.append(Verdict(entry, why))
    victims.sort(key=lambda verdict: (ties.is_program(verdict.entry), verdict.entry.key))  # after their traces
    return _explained(victims, kept, ties, protected)


def sort_key(order: Order) -> Callable[[Entry], tuple[float, int, str]]:
    """Return the sort key of the order in which entries go; equal entries are ordered by their keys."""
    if order is Order.LRU:
        return lambda entry: (0.0, entry.recency_ns, entry.key)
    return lambda entry: ((entry.seconds or 0.0) / max(entry.bytes, 1), entry.recency_ns, entry.key)


def _order(ties: Ties, order: Order) -> Callable[[Entry], Any]:
    """Return a sort key that keeps a trace and its programs together, and what they need no earlier."""
    own = sort_key(order)
    if not ties.units:
        return own
    units = {trace: own(ties.as_one(trace)) for trace in ties.units}

    def key(entry: Entry) -> tuple[tuple[float, int, str], int, tuple[float, int, str]]:
        mine = own(entry)
        unit = ties.unit_of(entry)
        if unit is not None:
            return units[unit], ties.is_program(entry), mine
        later = max((units[trace] for trace in ties.needing(entry)), default=mine)
        return (later, _AFTER, mine) if later > mine else (mine, 0, mine)

    return key


def _id(entry: Entry) -> Node:
    return entry.kind, entry.key


def _over(candidates: Sequence[Entry], bound: int, ties: Ties) -> set[Node]:
    """Return the entries larger than the bound, a trace with its programs, and traces that need them."""
    over = {_id(entry) for entry in candidates if entry.bytes > bound and ties.unit_of(entry) is None}
    found = {unit for entry in candidates if (unit := ties.unit_of(entry)) is not None}
    units = {
        unit
        for unit in found
        if ties.as_one(unit).bytes > bound or any((Kind.EXECUTABLES, key) in over for key in ties.needs(unit))
    }
    return over | {_id(entry) for entry in candidates if ties.unit_of(entry) in units}


def _last(ordered: Sequence[Entry], strays: Collection[Node], count: int) -> set[Node]:
    """Return the last ones to keep of entries from the least to the most recently used one."""
    counted = (_id(entry) for entry in reversed(ordered) if not entry.legacy and _id(entry) not in strays)
    return set(islice(counted, count))


def _explained(victims: list[Verdict], kept: list[Verdict], ties: Ties, protected: Mapping[Node, str]) -> Plan:
    """Return the plan, with the entries that go or stay because of a trace."""
    because: dict[str, str] = {}
    if not ties.units:
        return Plan(tuple(victims), tuple(kept))
    gone = {verdict.entry.key for verdict in victims if ties.unit_of(verdict.entry) == verdict.entry.key}
    for i, (entry, reason) in enumerate(victims):
        unit = ties.unit_of(entry)
        if unit in gone and unit != entry.key:
            because[entry.key] = unit
            victims[i] = Verdict(entry, reason if reason in _ASKED_FOR else Reason.WITH_TRACE)
    for entry, reason in kept:
        if reason is Reason.NEEDED and protected[_id(entry)] != entry.key:
            because[entry.key] = protected[_id(entry)]
    return Plan(tuple(victims), tuple(kept), Frozen(because))


def _excess(stay: Sequence[Entry], policy: Policy, freed: int, free_bytes: int | None) -> Excess:
    size = sum(entry.bytes for entry in stay)
    too_many = len(stay) - policy.max_entries if policy.max_entries is not None else 0
    too_large = [0]
    if policy.max_bytes is not None:
        too_large.append(size - policy.max_bytes)
    if policy.min_free_bytes is not None and free_bytes is not None:
        too_large.append(policy.min_free_bytes - free_bytes - freed)
    return Excess(too_many, max(too_large))
