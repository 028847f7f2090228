"""Values of an eviction: a `Policy`, and the `Plan` that follows from it, with a `Reason` for each entry."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from jcache.entry import Entry
from jcache.frozen import Frozen


class Order(StrEnum):
    """The order in which entries go."""

    LRU = "lru"
    COST = "cost"


class Reason(StrEnum):
    """The reason why an entry goes or stays."""

    AGE = "not used for that long"
    WRITTEN = "last use unknown, counted from writing"
    SPACE = "over the bound"
    NOT_LAST = "not among the last used"
    LEGACY = "legacy: no later JAX reads it"
    CLEARED = "cleared"
    NAMED = "named"
    MATCHED = "matching the filter"
    PINNED = "pinned"
    LAST = "among the last used"
    WITHIN = "within the bounds"
    OLD_FORMAT = "legacy: --legacy removes it"
    USED_MEANWHILE = "used meanwhile"
    WITH_TRACE = "whose trace goes"
    STRAY = "whose trace has gone"
    NEEDED = "needed by a trace that stays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The criteria of an eviction.

    Attributes:
        max_bytes: upper bound of the entries' bytes together.
        max_entries: upper bound of their number.
        min_free_bytes: how much the file system should have free.
        max_age_ns: entries not used for longer than this go.
        keep_last: so many of the most recently used entries stay whatever else is asked; alone, all others go.
        legacy: whether entries that no current JAX reads go.
        order: who goes first where a bound asks for victims; None for the least recently used.
    """

    max_bytes: int | None = None
    max_entries: int | None = None
    min_free_bytes: int | None = None
    max_age_ns: int | None = None
    keep_last: int | None = None
    legacy: bool = False
    order: Order | None = None

    @property
    def empty(self) -> bool:
        """Whether no criterion is set."""
        return self == Policy(order=self.order)

    @property
    def bounded(self) -> bool:
        limits = (self.max_bytes, self.max_entries, self.min_free_bytes, self.max_age_ns)
        return any(limit is not None for limit in limits)


class Verdict(NamedTuple):
    """An entry, and the reason why it goes or stays."""

    entry: Entry
    reason: Reason


class Share(NamedTuple):
    """A number of entries, and their bytes together."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The entries that go, in this order, and the entries that stay.

    Attributes:
        victims: the entries that go, with reasons.
        kept: the entries that stay, with reasons.
        because: by the keys of entries, the trace with which they go, or for which they stay.
    """

    victims: tuple[Verdict, ...] = ()
    kept: tuple[Verdict, ...] = field(default=(), repr=False)
    because: Mapping[str, str] = Frozen({})


def reasons(verdicts: Iterable[Verdict]) -> dict[Reason, Share]:
    """Return the number of entries and bytes for each reason, most entries first."""
    count: Counter[Reason] = Counter()
    size: Counter[Reason] = Counter()
    for entry, reason in verdicts:
        count[reason] += 1
        size[reason] += entry.bytes
    return {reason: Share(n, size[reason]) for reason, n in count.most_common()}
