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

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from jcache.entry import Entry, is_young
from jcache.frozen import Frozen
from jcache.layout import Kind
from jcache.store.entries import Picked, of_entries
from jcache.store.eviction_order import Table
from jcache.store.links import NO_LINKS, Links, Name, Node, Ties, exact_name, node_of
from jcache.store.order import Order
from jcache.store.policy import Plan, Policy, Reason, Share, Verdicts

T = TypeVar("T")

_ASKED_FOR: Final = frozenset({Reason.CLEARED, Reason.NAMED, Reason.MATCHED})
_STAYING: Final = frozenset({Reason.PINNED, Reason.LAST, Reason.NEEDED, Reason.OLD_FORMAT})


class Excess(NamedTuple):
    """The amounts over the bounds; nothing is over where neither number is positive."""

    entries: int
    bytes: int


def _bytes_of(entry: Entry) -> int:
    return entry.bytes


def make_room(
    candidates: Iterable[T],
    excess: Excess,
    bytes_of: Callable[[T], int] = _bytes_of,  # type: ignore[assignment]
) -> Iterator[T]:
    """Yield the candidates that must go, taken in the given order only until the excess is gone.

    Args:
        candidates: entries, or what stands for them.
        excess: the excess.
        bytes_of: returns the bytes of a candidate.
    """
    entries, size = excess
    if entries <= 0 and size <= 0:
        return
    for candidate in candidates:
        yield candidate
        entries -= 1
        size -= bytes_of(candidate)
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
    everyone = of_entries(entries)
    table = Table(everyone, ties := Ties(everyone, links))
    ordered = table.ordered(table.rows(kinds, only), Order.LRU)
    strays = {node_of(entry) for entry in ties.strays if not is_young(entry.created_ns, now_ns)}
    fixed, protected = _fixed(table, ordered, strays, policy.keep_last or 0)
    victims, kept, candidates = Verdicts(everyone), Verdicts(everyone), array("q")
    oldest_ns = None if policy.max_age_ns is None else now_ns - policy.max_age_ns
    for row in ordered:
        reason = fixed.get(row) or _criterion(table, row, policy, oldest_ns)
        if reason is None:
            candidates.append(row)
        else:
            (kept if reason in _STAYING else victims).add(row, table.sizes[row], reason)
    old_format = sum(row in table.legacy for row in kept.rows)
    size = kept.bytes - sum(table.sizes[row] for row in kept.rows if row in table.legacy)
    stay = Share(len(kept) - old_format + len(candidates), size + sum(map(table.sizes.__getitem__, candidates)))
    excess = _excess(stay, policy, victims.bytes, free_bytes)
    over, within = _split_at_bound(table, candidates, policy, excess)
    for row in over:
        victims.add(row, table.sizes[row], Reason.SPACE)
    gone = {verdict.entry.key for verdict in victims} if ties.units else ()
    for row in within:
        old = oldest_ns is not None and table.used_ns(row, gone) < oldest_ns
        (victims if old else kept).add(row, table.sizes[row], table.of_age(row) if old else Reason.WITHIN)
    return _explained(victims, kept, ties, protected)


def _fixed(
    table: Table, ordered: Sequence[int], strays: Collection[Node], keep_last: int
) -> tuple[dict[int, Reason], dict[Node, str]]:
    """Return reasons of entries that no bound decides on, by rows, and what is protected, as `Ties` has it."""
    stray_rows = set(table.named(strays))
    counted = (row for row in reversed(ordered) if row not in table.legacy and row not in stray_rows)
    last = set(islice(counted, keep_last))
    staying = [table.entries[row] for row in sorted(table.pinned | last)] if table.ties.units else []
    protected = table.ties.protected_by(staying, [entry for entry in staying if not entry.pinned])
    fixed = dict.fromkeys(table.named(protected), Reason.NEEDED)
    for rows, reason in ((stray_rows, Reason.STRAY), (last, Reason.LAST), (table.pinned, Reason.PINNED)):
        fixed |= dict.fromkeys(rows, reason)
    return fixed, protected


def _split_at_bound(
    table: Table, candidates: Sequence[int], policy: Policy, excess: Excess
) -> tuple[Sequence[int], Sequence[int]]:
    """Return the candidates that go to make room, in the order in which they go, and the others."""
    order = policy.order or Order.LRU
    ordered = candidates if order is Order.LRU else table.ordered(candidates, order)
    if policy.max_bytes is not None:
        hopeless = _over(table, ordered, policy.max_bytes)
        ordered = array("q", sorted(ordered, key=lambda row: row not in hopeless)) if hopeless else ordered
    needed = sum(1 for _ in make_room(ordered, excess, table.sizes.__getitem__))
    chosen = table.ties.whole(Picked(table.entries, ordered), needed)
    return ordered[:chosen], ordered[chosen:]


def _criterion(table: Table, row: int, policy: Policy, oldest_ns: int | None) -> Reason | None:
    """Return why an unprotected entry goes or stays; None if the bounds decide."""
    if row in table.legacy:
        return Reason.LEGACY if policy.legacy else Reason.OLD_FORMAT
    if oldest_ns is not None and table.used_ns(row) < oldest_ns:
        return table.of_age(row)
    return Reason.NOT_LAST if policy.keep_last is not None and not policy.bounded else None


def everything(
    entries: Iterable[Entry],
    *,
    legacy: bool = False,
    links: Links = NO_LINKS,
    kinds: Collection[Kind] = tuple(Kind),
) -> Plan:
    """Return the plan that keeps only pinned entries, what they need and, unless asked for too, legacy ones."""
    everyone = of_entries(entries)
    ties = Ties(everyone, links)
    protected = _protected_by_pins(everyone, ties)
    victims, kept, programs = Verdicts(everyone), Verdicts(everyone), list[tuple[int, int]]()
    for row, entry in enumerate(everyone):
        if entry.kind not in kinds:
            continue
        if entry.pinned:
            kept.add(row, entry.bytes, Reason.PINNED)
        elif node_of(entry) in protected:
            kept.add(row, entry.bytes, Reason.NEEDED)
        elif entry.legacy and not legacy:
            kept.add(row, entry.bytes, Reason.OLD_FORMAT)
        elif ties.is_program(entry):  # these go after their traces
            programs.append((row, entry.bytes))
        else:
            victims.add(row, entry.bytes, Reason.CLEARED)
    for row, size in programs:
        victims.add(row, size, Reason.CLEARED)
    return _explained(victims, kept, ties, protected)


def _protected_by_pins(entries: Sequence[Entry], ties: Ties) -> dict[Node, str]:
    return ties.protected_by([entry for entry in entries if entry.pinned] if ties.units else [])


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
    everyone = of_entries(entries)
    ties = Ties(everyone, links)
    protected = _protected_by_pins(everyone, ties)
    going = dict.fromkeys(map(exact_name, wanted), reason)
    for trace, unit in ties.units.items():
        if (Kind.TRACES, trace, False) in going:
            for entry in unit:
                going.setdefault(exact_name(entry), Reason.WITH_TRACE)
    victims, kept, rows = Verdicts(everyone), Verdicts(everyone), list[tuple[bool, str, int, int, Reason]]()
    for row, entry in enumerate(everyone):
        why = going.get(exact_name(entry))
        if why is None:
            continue
        if entry.pinned:
            kept.add(row, entry.bytes, Reason.PINNED)
        elif node_of(entry) in protected:
            kept.add(row, entry.bytes, Reason.NEEDED)
        else:
            rows.append((ties.is_program(entry), entry.key, row, entry.bytes, why))
    for _, _, row, size, why in sorted(rows):  # after their traces
        victims.add(row, size, why)
    return _explained(victims, kept, ties, protected)


def _over(table: Table, rows: Sequence[int], bound: int) -> set[int]:
    """Return the rows of entries larger than the bound, a trace with its programs, and traces that need them."""
    over = {row for row in rows if table.sizes[row] > bound and row not in table.units}
    keys = {entry.key for entry in map(table.entries.__getitem__, over if table.units else ()) if not entry.legacy}
    units = {
        unit
        for unit in {table.units[row] for row in rows if row in table.units}
        if table.ties.as_one(unit).bytes > bound or not keys.isdisjoint(table.ties.needs(unit))
    }
    return over | {row for row in rows if table.units.get(row) in units}


def _explained(victims: Verdicts, kept: Verdicts, ties: Ties, protected: Mapping[Node, str]) -> Plan:
    """Return the plan, with the entries that go or stay because of a trace."""
    because: dict[str, str] = {}
    if not ties.units:
        return Plan(victims, kept)
    gone = {verdict.entry.key for verdict in victims if ties.unit_of(verdict.entry) == verdict.entry.key}
    for i, (entry, reason) in enumerate(victims):
        unit = ties.unit_of(entry)
        if unit in gone and unit != entry.key:
            because[entry.key] = unit
            victims.change(i, reason if reason in _ASKED_FOR else Reason.WITH_TRACE)
    for entry, reason in kept:
        if reason is Reason.NEEDED and protected[node_of(entry)] != entry.key:
            because[entry.key] = protected[node_of(entry)]
    return Plan(victims, kept, Frozen(because))


def _excess(stay: Share, policy: Policy, freed: int, free_bytes: int | None) -> Excess:
    too_many = stay.entries - policy.max_entries if policy.max_entries is not None else 0
    too_large = [0]
    if policy.max_bytes is not None:
        too_large.append(stay.bytes - policy.max_bytes)
    if policy.min_free_bytes is not None and free_bytes is not None:
        too_large.append(policy.min_free_bytes - free_bytes - freed)
    return Excess(too_many, max(too_large))
