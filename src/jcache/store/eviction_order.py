"""The order in which entries go, and entries in columns of what a plan asks of each. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from jcache.entry import Entry
from jcache.layout import Kind
from jcache.store.entries import KIND_CODES, EntrySequence, in_order
from jcache.store.links import Name, Node, Ties, exact_name, node_of
from jcache.store.order import Order
from jcache.store.policy import Reason

_AFTER: Final = 2  # a trace and its programs
_Used = tuple[float, int, str]


def sort_key(order: Order) -> Callable[[Entry], _Used]:
    """Return the sort key of the order in which entries go; equal entries are ordered by their keys."""
    if order is Order.LRU:
        return lambda entry: (0.0, entry.recency_ns, entry.key)
    return lambda entry: ((entry.seconds or 0.0) / max(entry.bytes, 1), entry.recency_ns, entry.key)


def _key_of(ties: Ties, order: Order) -> Callable[[Entry], tuple[_Used, int, _Used]]:
    """Return a sort key that keeps a trace and its programs together, and what they need no earlier."""
    own = sort_key(order)
    units = {trace: own(ties.as_one(trace)) for trace in ties.units}

    def key(entry: Entry) -> tuple[_Used, int, _Used]:
        mine = own(entry)
        unit = ties.unit_of(entry)
        if unit is not None:
            return units[unit], ties.is_program(entry), mine
        later = max((units[trace] for trace in ties.needing(entry)), default=mine)
        return (later, _AFTER, mine) if later > mine else (mine, 0, mine)

    return key


class Table:
    """Entries in columns of what a plan asks of each.

    Args:
        entries: the entries.
        ties: their ties.

    Attributes:
        sizes: bytes of each entry.
        recency: last use of each entry, nanoseconds since 1970.
        latest: latest time of that.
        kinds: number of the kind of each entry.
        pinned, legacy, unknown: rows of entries that are pinned, legacy, or whose last use is unknown.
        units: by rows, the traces with which entries are one.
    """

    def __init__(self, entries: EntrySequence, ties: Ties) -> None:
        self.entries = entries
        self.ties = ties
        self.sizes, self.recency = entries.numbers("bytes"), entries.numbers("recency_ns")
        self.latest, self.kinds = entries.numbers("latest_ns"), entries.numbers("kind")
        self.pinned, self.legacy = set(entries.rows_with("pinned")), set(entries.rows_with("legacy"))
        self.unknown = set(entries.rows_with("unknown"))
        units = ((row, ties.unit_of(entry)) for row, entry in enumerate(entries if ties.units else ()))
        self.units = {row: unit for row, unit in units if unit is not None}

    def rows(self, kinds: Collection[Kind], only: Collection[Name] | None = None) -> Iterable[int]:
        """Return the rows of some kinds and, if there are names, of these; of a trace and its programs all or none."""
        codes = {KIND_CODES[kind] for kind in kinds}
        rows = (row for row, code in enumerate(self.kinds) if code in codes)
        if only is None:
            return rows
        about = self.ties.without_parts(only)
        return (row for row in rows if exact_name(self.entries[row]) in about)

    def named(self, names: Collection[Node]) -> Iterator[int]:
        """Yield the rows of some entries."""
        return (row for row, entry in enumerate(self.entries if names else ()) if node_of(entry) in names)

    def ordered(self, rows: Iterable[int], order: Order) -> array[int]:
        """Return rows in the order in which entries go."""
        key = _key_of(self.ties, order)
        costs: array[float] = array("d")
        uses = self.recency
        if order is Order.COST or self.ties.units:
            uses = array("q")
            for (cost, used_ns, _), *_rest in map(key, self.entries):
                costs.append(cost)
                uses.append(used_ns)
        last = (lambda row: key(self.entries[row])) if self.ties.units else self.entries.key_at
        return in_order(rows, last, *((costs, uses) if costs else (uses,)))

    def used_ns(self, row: int, gone: Collection[str] = ()) -> int:
        """Return the last use of an entry, or of a remaining one that needs it, whichever is later."""
        return self.ties.used_ns(self.entries[row], gone) if self.ties.units else self.latest[row]

    def of_age(self, row: int) -> Reason:
        """Return the reason with which an entry goes for its age."""
        return Reason.WRITTEN if row in self.unknown else Reason.AGE
