"""Select the entries for a command by kind and filters, in an order, up to a limit.

In large directories, an order by size or time with a limit works on columns, without an object for each entry. Build
seconds are read from the entries only if the selection or the command needs them.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isnan, nan
from operator import neg
from typing import Final

from jcache import clock
from jcache.admin.facts import FactBook
from jcache.admin.fields import FIELDS, NUMBERS, FieldSource, Type
from jcache.admin.filters import Filter, Sort
from jcache.entry import Entry
from jcache.errors import DamagedEntry
from jcache.formats.executable import HEAD_BYTES, executable_seconds
from jcache.layout import Kind
from jcache.store import files
from jcache.store.directories import Directories
from jcache.store.entries import EntrySequence, Picked, Timed, batches, in_order, of_entries
from jcache.store.ledger import Known
from jcache.store.links import exact_name
from jcache.store.progress import Progress
from jcache.store.store import Store, header_at

_AT_ONCE: Final = 10_000  # entries that are objects together
_MIN_RECORDED: Final = 1000
_COLUMNS: Final = {"size": "bytes", "age": "created_ns", "used": "recency_ns"}  # of entries, by fields

_MOST_RECENT: Final = Sort(FIELDS["used"], descending=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The options of a selection.

    Attributes:
        kinds: kinds of the entries.
        filters: filters that must all match.
        sort: order; by default, the most recently used first.
        limit: largest number of entries; None for all.
        legacy: whether to include entries that only jax <= 0.4.30 reads.
    """

    kinds: tuple[Kind, ...] = tuple(Kind)
    filters: tuple[Filter, ...] = ()
    sort: Sort = _MOST_RECENT
    limit: int | None = None
    legacy: bool = False

    @property
    def needs_uses(self) -> bool:
        """Whether the last uses of all entries are needed."""
        few = self.limit is not None and not self.filters and self.sort.field.name in _COLUMNS
        return not few or self.sort.field.name == "used"


def select(
    store: Store,
    selection: Selection,
    *,
    seconds: bool = True,
    progress: Progress[Entry] = iter,
    facts: FactBook | None = None,
) -> EntrySequence:
    """Return the selected entries, with pins and, on request, build seconds.

    Args:
        store: store of the root.
        selection: options of the selection.
        seconds: whether the returned entries need their build seconds.
        progress: receives the entries to read and yields them.
        facts: what filters and the order read of the insides of entries is kept there; by default, nowhere.
    """
    now, facts = clock.now_ns(), facts or FactBook(store, progress)
    listings = [store.listing(kind, uses=selection.needs_uses) for kind in selection.kinds]
    found: EntrySequence = store.catalog.of_listings(listings, legacy=selection.legacy, seconds=False)
    rows: Sequence[int] = range(len(found))
    if selection.filters:
        rows = array("q", _matching_rows(store, found, selection.filters, now, facts, progress))
    timed = selection.sort.field.source is FieldSource.HEADER
    if timed:
        found = with_seconds(store, found, progress)
    found = Picked(found, _ordered(found, rows, selection, now, facts))
    if any(listing.accessed_ns is not None for listing in listings):  # then few are selected
        by_kind = {listing.kind: listing for listing in listings}
        looked_at = (entry if entry.legacy else by_kind[entry.kind].looked_at(entry) for entry in found)
        found = of_entries(list(looked_at))
    return with_seconds(store, found, progress) if seconds and not timed else found


def _matching_rows(
    store: Store,
    entries: Sequence[Entry],
    filters: Sequence[Filter],
    now_ns: int,
    facts: FactBook,
    progress: Progress[Entry],
) -> Iterator[int]:
    """Yield the rows of the entries that satisfy all of some filters."""
    first = 0
    for some in batches(entries, _AT_ONCE):
        names = set(map(exact_name, matching(store, some, filters, now_ns, facts, progress)))
        yield from (row for row, entry in enumerate(some, first) if exact_name(entry) in names)
        facts.forget(some)
        first += len(some)


def _ordered(
    entries: EntrySequence, rows: Sequence[int], selection: Selection, now_ns: int, facts: FactBook
) -> Sequence[int]:
    """Return the rows of the first entries in the order of a selection, as many as it has at most."""
    sort, limit = selection.sort, selection.limit
    key = sort.key(now_ns, facts.of)
    if sort.field.type not in NUMBERS:
        facts.learn(Picked(entries, rows), [sort.field])
        ordered = sorted(rows, key=lambda row: key(entries[row]))
        return ordered[:limit]
    if sort.field.name in _COLUMNS:
        numbers: Sequence[float] = entries.numbers(_COLUMNS[sort.field.name])
        if sort.descending == (sort.field.name == "size"):  # an earlier time is a larger age
            numbers = array("q", map(neg, numbers))
    else:
        values: array[float] = array("d" if sort.field.type is Type.SECONDS else "q")
        numbers = values
        for some in batches(entries, _AT_ONCE):
            facts.learn(some, [sort.field])
            values.extend(sort.number(entry, now_ns, facts.of(entry)) for entry in some)
            facts.forget(some)
    if limit is not None:
        edge = max(heapq.nsmallest(limit, map(numbers.__getitem__, rows)), default=-inf)
        rows = [row for row in rows if numbers[row] <= edge]
    return in_order(rows, entries.key_at, numbers)[:limit]


def matching(
    store: Store,
    entries: Sequence[Entry],
    filters: Sequence[Filter],
    now_ns: int,
    facts: FactBook,
    progress: Progress[Entry] = iter,
) -> list[Entry]:
    """Return the entries that satisfy all of some filters; the filters that cost the least are tried first.

    Args:
        store: whose entries.
        entries: with pins, as `Store.enrich` returns them.
        filters: which.
        now_ns: the present, nanoseconds since 1970.
        facts: where to keep what is read of entries.
        progress: is given the entries to read, and passes them on.
    """
    found = list(entries)
    for one in sorted(filters, key=lambda one: one.field.source):
        if one.field.source is FieldSource.HEADER:
            found = list(with_seconds(store, found, progress))
        facts.learn(found, [one.field])
        found = [entry for entry in found if one.matches(entry, now_ns, facts.of(entry))]
    return found


def with_seconds(store: Store, some: Sequence[Entry], progress: Progress[Entry] = iter) -> EntrySequence:
    """Return the entries with their build seconds; read those from the entries that the ledger does not know."""
    entries = of_entries(some)
    seconds = array("d")
    for few in batches(entries, _AT_ONCE):
        seconds.extend(store.catalog.seconds(few))
    unknown = (row for row, value in enumerate(seconds) if isnan(value))
    rows = in_order(unknown, entries.key_at, entries.numbers("place"))  # as the ledger has them
    if rows and store.root.layout.follows_jax:
        with Directories(store.root) as directories:
            for pairs in batches(zip(rows, progress(Picked(entries, rows)), strict=True), _AT_ONCE):
                read = [(row, entry, _read_seconds(store, entry, directories)) for row, entry in pairs]
                news = [Known(entry.kind, entry.key, seconds=value) for _, entry, value in read if value is not None]
                if len(news) >= _MIN_RECORDED:
                    store.queue.attempt(partial(store.ledger.record, news))
                for row, _, value in read:
                    seconds[row] = nan if value is None else value
    return Timed(entries, seconds)


def _read_seconds(store: Store, entry: Entry, directories: Directories) -> float | None:
    try:
        if entry.legacy:
            return None
        if entry.kind is not Kind.EXECUTABLES:
            return header_at(store.path(entry)).build_seconds or None  # 0 means unknown
        name, directory = directories.of_entry(entry.kind, entry.key)
        return executable_seconds(files.read(name, HEAD_BYTES, directory=directory))
    except (OSError, DamagedEntry):
        return None
