"""Group misses by what changed: one flag that changes all keys is one cause."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from jcache.explain.baseline import identity, seconds_of
from jcache.explain.change import Change, Seen
from jcache.runs.record import ProgramRecord
from jcache.vocabulary import RANK, CauseKind

_BY_ITEM: Final = frozenset(
    {
        CauseKind.DAMAGED,
        CauseKind.UNREADABLE,
        CauseKind.MEANWHILE,
        CauseKind.FIRST_TIME,
        CauseKind.CHURN,
        CauseKind.HASH_SEED,
        CauseKind.UNKNOWN,
    }
)
_BY_DETAIL: Final = frozenset({CauseKind.EVICTED, CauseKind.NOT_STORED})
_BY_FUNCTION: Final = frozenset(
    {CauseKind.STRUCTURE, CauseKind.WEAK_TYPE, CauseKind.DONATION, CauseKind.ORDER, CauseKind.PROGRAM}
)
_BY_PAIRS: Final = frozenset({CauseKind.SHAPE, CauseKind.DTYPE, CauseKind.NAMES})  # a pair of names is no pair of sizes

_BRINGS_OTHER_OPERATIONS: Final = frozenset(
    {
        CauseKind.VERSION,
        CauseKind.DEVICES,
        CauseKind.JAX_OPTION,
        CauseKind.STATIC,
        CauseKind.STRUCTURE,
        CauseKind.DTYPE,
        CauseKind.SHAPE,
        CauseKind.SHARDING,
    }
)


class MissCause(NamedTuple):
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


def group(findings: Sequence[MissCause]) -> list[list[MissCause]]:
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
    groups: dict[int, list[MissCause]] = {}
    for number, found in enumerate(findings):
        groups.setdefault(root_of(number), []).append(found)
    return list(groups.values())


def _signs(found: MissCause) -> list[Hashable]:
    """Return what stands for the cause of a finding: findings that share one of these have the same cause."""
    change = found.change
    if change.item in _BY_ITEM:
        return [change.item]
    if change.item in _BY_DETAIL:
        return [(change.item, found.detail)]
    if change.item in _BY_FUNCTION:
        return [(change.item, identity(found.miss.program)), *sorted(change.pairs)]
    if change.item in _BY_PAIRS and change.pairs:
        of_argument = (
            [(change.item, identity(found.miss.program), change.name)] if change.item is CauseKind.SHAPE else []
        )
        return [*of_argument, *sorted(change.pairs)]
    if change.item is CauseKind.CONSTANT:  # of any type
        return [(change.item, *(value.partition(" : ")[0] for value in (change.current, change.baseline)))]
    own = (change.item, change.name, change.current, change.baseline)
    return [own, *sorted(change.pairs)]  # a static value may be a shape or a dtype


def with_consequences(groups: list[list[MissCause]]) -> list[list[MissCause]]:
    """Add groups of JAX's own operations to the one change of a function of the program, where there is only one."""
    changed = [alike for alike in groups if not _is_of_operations(alike) and _is_change(first_of(alike).change.item)]
    if len(changed) != 1 or first_of(changed[0]).change.item not in _BRINGS_OTHER_OPERATIONS:
        return groups
    rest = [alike for alike in groups if alike is not changed[0]]
    follow = [alike for alike in rest if _is_of_operations(alike) and _follows(alike[0].change.item)]
    merged = [*changed[0], *(found for alike in follow for found in alike)]
    return [merged, *(alike for alike in rest if alike not in follow)]


def _is_of_operations(alike: Sequence[MissCause]) -> bool:
    return all(is_operation(found.miss.program) for found in alike)


def _is_change(item: CauseKind) -> bool:
    return RANK[item] >= RANK[CauseKind.VERSION]


def _follows(item: CauseKind) -> bool:
    """Return whether a cause may follow from another one: it is a change of one program, or a new program."""
    return item is CauseKind.FIRST_TIME or RANK[item] >= RANK[CauseKind.STATIC]


def first_of(alike: Sequence[MissCause]) -> MissCause:
    """Return the finding that names the cause of a group: of the program's own function, before JAX's operations."""

    def order(found: MissCause) -> tuple[bool, bool, int, float]:
        program = found.miss.program
        return is_operation(program), found.other is None, RANK[found.change.item], -seconds_of(program)

    return min(alike, key=order)


def is_operation(program: ProgramRecord) -> bool:
    """Return whether a program is one of JAX's own operations, which a program calls without jitting it."""
    return "/jax/_src/" in program.source.replace("\\", "/")
