"""Values of an eviction: a `Policy`, and the `Plan` that follows from it, with a `Reason` for each entry."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from jcache.entry import Entry
from jcache.frozen import Frozen
from jcache.layout import Kind
from jcache.store.entries import KIND_CODES, Entries, Lazy, Picked, of_entries
from jcache.store.order import Order


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
    YOUNG = "stored within the grace age"


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


_REASONS: Final = tuple(Reason)
_CODES: Final = {reason: code for code, reason in enumerate(_REASONS)}


class Verdicts(Lazy[Verdict]):
    """Verdicts on some entries of a sequence, each of which is made when it is asked for.

    Args:
        entries: the sequence.

    Attributes:
        rows: places of these entries in the sequence.
        bytes: size of all these entries together.
    """

    __slots__ = ("_entries", "_reasons", "_sizes", "rows")

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._entries = entries
        self.rows = array("q")
        self._sizes = array("q")
        self._reasons = bytearray()

    @classmethod
    def of(cls, verdicts: Iterable[Verdict]) -> Verdicts:
        """Return these verdicts."""
        some = list(verdicts)
        made = cls([verdict.entry for verdict in some])
        for row, (entry, reason) in enumerate(some):
            made.add(row, entry.bytes, reason)
        return made

    def add(self, row: int, size: int, reason: Reason) -> None:
        """Add the verdict on an entry of the sequence.

        Args:
            row: its place in the sequence.
            size: its bytes.
            reason: why it goes or stays.
        """
        self.rows.append(row)
        self._sizes.append(size)
        self._reasons.append(_CODES[reason])

    def change(self, at: int, reason: Reason) -> None:
        """Give the verdict at a place of this sequence another reason."""
        self._reasons[at] = _CODES[reason]

    def __len__(self) -> int:
        return len(self.rows)

    def _item(self, at: int) -> Verdict:
        return Verdict(self._entries[self.rows[at]], _REASONS[self._reasons[at]])

    def __add__(self, more: Sequence[Verdict]) -> Verdicts:
        """Return these verdicts and more."""
        return self.at(range(len(self)), more) if more else self

    def picked(self, places: Iterable[int]) -> Picked:
        """Return the entries at some places of this sequence."""
        return Picked(self._entries, map(self.rows.__getitem__, places))

    def at(self, places: Iterable[int], more: Sequence[Verdict] = ()) -> Verdicts:
        """Return the verdicts at some places of this sequence, and more."""
        found = Verdicts(Entries([self._entries, [verdict.entry for verdict in more]]))
        for place in places:
            found.rows.append(self.rows[place])
            found._sizes.append(self._sizes[place])
            found._reasons.append(self._reasons[place])
        for row, (entry, reason) in enumerate(more, len(self._entries)):
            found.add(row, entry.bytes, reason)
        return found

    def for_reasons(self, *wanted: Reason) -> Verdicts:
        """Return the verdicts that have one of some reasons."""
        codes = {_CODES[reason] for reason in wanted}
        return self.at(place for place, code in enumerate(self._reasons) if code in codes)

    def by_kind(self) -> dict[Kind, array[int]]:
        """Return the places of the verdicts in this sequence by the kinds of their entries."""
        numbers, found = of_entries(self._entries).numbers("kind"), {kind: array("q") for kind in Kind}
        codes = [found[kind] for kind in sorted(Kind, key=KIND_CODES.__getitem__)]
        for place, row in enumerate(self.rows):
            codes[numbers[row]].append(place)
        return found

    @property
    def bytes(self) -> int:
        return sum(self._sizes)

    def shares(self) -> dict[Reason, Share]:
        """Return the number of entries and bytes for each reason, most entries first."""
        counts, size = Counter(self._reasons), dict.fromkeys(self._reasons, 0)
        for code, number in zip(self._reasons, self._sizes, strict=True):
            size[code] += number
        return {_REASONS[code]: Share(count, size[code]) for code, count in counts.most_common()}


@dataclass(frozen=True, slots=True)
class Plan:
    """The entries that go, in this order, and the entries that stay.

    Attributes:
        victims: the entries that go, with reasons.
        kept: the entries that stay, with reasons.
        because: by the keys of entries, the trace with which they go, or for which they stay.
    """

    victims: Verdicts = field(default_factory=Verdicts)
    kept: Verdicts = field(default_factory=Verdicts, repr=False)
    because: Mapping[str, str] = Frozen({})


def reasons(verdicts: Sequence[Verdict]) -> dict[Reason, Share]:
    """Return the number of entries and bytes for each reason, most entries first."""
    return (verdicts if isinstance(verdicts, Verdicts) else Verdicts.of(verdicts)).shares()
