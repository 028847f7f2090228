"""Group misses by what changed: one flag that changes all keys is one cause."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from jcache.explain.baseline import identity
from jcache.explain.change import Change, Seen
from jcache.vocabulary import Item

_BY_ITEM: Final = frozenset(
    {Item.DAMAGED, Item.UNREADABLE, Item.MEANWHILE, Item.FIRST_TIME, Item.CHURN, Item.HASH_SEED, Item.UNKNOWN}
)
_BY_DETAIL: Final = frozenset({Item.EVICTED, Item.NOT_STORED})
_BY_FUNCTION: Final = frozenset({Item.STRUCTURE, Item.WEAK_TYPE, Item.DONATION, Item.ORDER, Item.PROGRAM})
_BY_PAIRS: Final = frozenset({Item.SHAPE, Item.DTYPE})


class Finding(NamedTuple):
    """The cause of one miss.

    Attributes:
        miss: the miss.
        change: what changed.
        other: the program that it was compared with; None if there is none.
        detail: the reason in this case, a text; empty for the reason of the vocabulary.
    """

    miss: Seen
    change: Change
    other: Seen | None = None
    detail: str = ""


def group(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Return the findings in groups of the same cause; each is in one group, and the groups come in their order."""
    parents = list(range(len(findings)))

    def root_of(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    owners: dict[Hashable, int] = {}
    for number, found in enumerate(findings):
        for sign in _signs(found):
            parents[root_of(number)] = root_of(owners.setdefault(sign, number))
    groups: dict[int, list[Finding]] = {}
    for number, found in enumerate(findings):
        groups.setdefault(root_of(number), []).append(found)
    return list(groups.values())


def _signs(found: Finding) -> list[Hashable]:
    """Return what stands for the cause of a finding: findings that share one of these have the same cause."""
    change = found.change
    if change.item in _BY_ITEM:
        return [change.item]
    if change.item in _BY_DETAIL:
        return [(change.item, found.detail)]
    if change.item in _BY_FUNCTION:
        return [(change.item, identity(found.miss.program))]
    if change.item in _BY_PAIRS and change.pairs:
        return [(change.item, pair) for pair in sorted(change.pairs)]
    return [(change.item, change.name, change.current, change.baseline)]
