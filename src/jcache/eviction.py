"""Which entries go: a policy and entries give a plan, a value to print or to execute. Pure; the only eviction code.

With `Order.LRU` the victims are exactly the least recently used prefix of what may be evicted. With `Order.COST` those
go first that cost the fewest seconds to build again for each byte they take (Greedy-Dual-Size's H = cost / size,
Cao and Irani 1997, without its ageing term); equal ones by recency. Criteria add up: an entry goes as soon as one of
them asks for it, and stays if it is pinned or among the last ones to keep.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from jcache.entry import Entry


class Order(StrEnum):
    """Who goes first."""

    LRU = "lru"
    COST = "cost"


class Reason(StrEnum):
    """Why an entry goes or stays."""

    AGE = "not used for that long"
    SPACE = "over the bound"
    NOT_LAST = "not among the last used"
    LEGACY = "legacy: no later JAX reads it"
    CLEARED = "cleared"
    PINNED = "pinned"
    LAST = "among the last used"
    WITHIN = "within the bounds"
    OLD_FORMAT = "legacy: --legacy removes it"
    USED_MEANWHILE = "used meanwhile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What to keep to.

    Attributes:
        max_bytes: upper bound of the entries' bytes together.
        max_entries: upper bound of their number.
        min_free_bytes: how much the file system should have free.
        max_age_ns: entries not used for longer than this go.
        keep_last: so many of the most recently used entries stay whatever else is asked; alone, all others go.
        legacy: whether entries that no current JAX reads go.
        order: who goes first where a bound asks for victims.
    """

    max_bytes: int | None = None
    max_entries: int | None = None
    min_free_bytes: int | None = None
    max_age_ns: int | None = None
    keep_last: int | None = None
    legacy: bool = False
    order: Order = Order.LRU

    @property
    def empty(self) -> bool:
        """Whether it asks for nothing."""
        return self == Policy(order=self.order)

    @property
    def bounded(self) -> bool:
        limits = (self.max_bytes, self.max_entries, self.min_free_bytes, self.max_age_ns)
        return any(limit is not None for limit in limits)


class Verdict(NamedTuple):
    """An entry and why it goes or stays."""

    entry: Entry
    reason: Reason


class Share(NamedTuple):
    """So many entries with so many bytes."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes, in the order in which it goes, and what stays."""

    victims: tuple[Verdict, ...] = ()
    kept: tuple[Verdict, ...] = field(default=(), repr=False)


def reasons(verdicts: Iterable[Verdict]) -> dict[Reason, Share]:
    """How many entries and bytes each reason accounts for, most entries first."""
    count: Counter[Reason] = Counter()
    size: Counter[Reason] = Counter()
    for entry, reason in verdicts:
        count[reason] += 1
        size[reason] += entry.bytes
    return {reason: Share(n, size[reason]) for reason, n in count.most_common()}


class Excess(NamedTuple):
    """By how much the bounds are exceeded; nothing is, where neither number is positive."""

    entries: int
    bytes: int


def make_room(candidates: Iterable[Entry], excess: Excess) -> Iterator[Entry]:
    """The candidates that must go, taken in the given order only until the excess is gone."""
    entries, size = excess
    if entries <= 0 and size <= 0:
        return
    for entry in candidates:
        yield entry
        entries -= 1
        size -= entry.bytes
        if entries <= 0 and size <= 0:
            return


def plan(entries: Iterable[Entry], policy: Policy, *, now_ns: int, free_bytes: int | None = None) -> Plan:
    """The plan that brings the entries within the policy.

    Args:
        entries: all entries that the policy is about.
        policy: what to keep to.
        now_ns: the present, nanoseconds since 1970.
        free_bytes: what the file system has free; needed for ``min_free_bytes``.

    Returns:
        Victims and kept entries, together all of ``entries``. Planning again on what is kept finds no victim.
    """
    victims: list[Verdict] = []
    kept: list[Verdict] = []
    candidates: list[Entry] = []
    oldest_ns = None if policy.max_age_ns is None else now_ns - policy.max_age_ns
    for entry, last in _with_last(entries, policy):
        if entry.pinned or last:
            kept.append(Verdict(entry, Reason.PINNED if entry.pinned else Reason.LAST))
        elif entry.legacy:
            (victims if policy.legacy else kept).append(
                Verdict(entry, Reason.LEGACY if policy.legacy else Reason.OLD_FORMAT)
            )
        elif oldest_ns is not None and entry.recency_ns < oldest_ns:
            victims.append(Verdict(entry, Reason.AGE))
        elif policy.keep_last is not None and not policy.bounded:
            victims.append(Verdict(entry, Reason.NOT_LAST))
        else:
            candidates.append(entry)
    candidates.sort(key=sort_key(policy.order))
    stay = [v.entry for v in kept if not v.entry.legacy] + candidates
    freed = sum(v.entry.bytes for v in victims)
    chosen = list(make_room(candidates, _excess(stay, policy, freed, free_bytes)))
    victims += (Verdict(entry, Reason.SPACE) for entry in chosen)
    kept += (Verdict(entry, Reason.WITHIN) for entry in candidates[len(chosen) :])
    return Plan(tuple(victims), tuple(kept))


def everything(entries: Iterable[Entry], *, legacy: bool = False) -> Plan:
    """The plan that keeps only pinned entries and, unless asked for too, legacy ones."""
    victims: list[Verdict] = []
    kept: list[Verdict] = []
    for entry in entries:
        if entry.pinned:
            kept.append(Verdict(entry, Reason.PINNED))
        elif entry.legacy and not legacy:
            kept.append(Verdict(entry, Reason.OLD_FORMAT))
        else:
            victims.append(Verdict(entry, Reason.CLEARED))
    return Plan(tuple(victims), tuple(kept))


def sort_key(order: Order) -> Callable[[Entry], tuple[float, int, str]]:
    """The key that sorts entries into the order in which they go; ties are broken by key, so that plans are stable."""
    if order is Order.LRU:
        return lambda entry: (0.0, entry.recency_ns, entry.key)
    return lambda entry: ((entry.seconds or 0.0) / max(entry.bytes, 1), entry.recency_ns, entry.key)


def _with_last(entries: Iterable[Entry], policy: Policy) -> Iterator[tuple[Entry, bool]]:
    """The entries from least to most recently used, each with whether it is among the last ones to keep."""
    ordered = sorted(entries, key=sort_key(Order.LRU))
    current = sum(not entry.legacy for entry in ordered)
    for entry in ordered:
        yield entry, not entry.legacy and current <= (policy.keep_last or 0)
        current -= not entry.legacy


def _excess(stay: Sequence[Entry], policy: Policy, freed: int, free_bytes: int | None) -> Excess:
    size = sum(entry.bytes for entry in stay)
    too_many = len(stay) - policy.max_entries if policy.max_entries is not None else 0
    too_large = [0]
    if policy.max_bytes is not None:
        too_large.append(size - policy.max_bytes)
    if policy.min_free_bytes is not None and free_bytes is not None:
        too_large.append(policy.min_free_bytes - free_bytes - freed)
    return Excess(too_many, max(too_large))
