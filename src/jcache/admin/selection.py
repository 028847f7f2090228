"""Select the entries for a command by kind and filters, in an order, up to a limit.

In large directories, an order by size or time with a limit works on columns, without an object for each entry. Build
seconds are read from the entries only if the selection or the command needs them.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from jcache import clock
from jcache.admin.facts import FactBook
from jcache.admin.fields import FIELDS, Source
from jcache.admin.filters import Filter, Sort
from jcache.entry import Entry
from jcache.errors import DamagedEntry
from jcache.formats.executable import HEAD_BYTES, executable_seconds
from jcache.layout import Kind
from jcache.store import files
from jcache.store.ledger import Known
from jcache.store.listing import Listing
from jcache.store.progress import Progress
from jcache.store.store import Store, header_at

_MIN_RECORDED: Final = 1000
_COLUMN_FIELDS: Final = ("size", "age", "used")

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
        few = self.limit is not None and not self.filters and self.sort.field.name in _COLUMN_FIELDS
        return not few or self.sort.field.name == "used"


def select(
    store: Store,
    selection: Selection,
    *,
    seconds: bool = True,
    progress: Progress[Entry] = iter,
    facts: FactBook | None = None,
) -> list[Entry]:
    """Return the selected entries, with pins and, on request, build seconds.

    Args:
        store: store of the root.
        selection: options of the selection.
        seconds: whether the returned entries need their build seconds.
        progress: receives the entries to read and yields them.
        facts: facts that filters and the order read of entries are kept there; by default, nowhere.
    """
    now, facts = clock.now_ns(), facts or FactBook(store, progress)
    found: list[Entry] = []
    for kind in selection.kinds:
        listing = store.listing(kind, uses=selection.needs_uses)
        some = list(_candidates(listing, selection))
        if listing.accessed_ns is not None:
            some = list(map(listing.looked_at, some))
        found += store.catalog.enrich(kind, some)
    found = matching(store, found, selection.filters, now, facts, progress)
    timed = any(one.field.source is Source.HEADER for one in selection.filters)
    if selection.sort.field.source is Source.HEADER and not timed:
        found, timed = with_seconds(store, found, progress), True
    facts.learn(found, [selection.sort.field])
    key = selection.sort.key(now, facts.of)
    found = sorted(found, key=key) if selection.limit is None else heapq.nsmallest(selection.limit, found, key=key)
    return with_seconds(store, found, progress) if seconds and not timed else found


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
        if one.field.source is Source.HEADER:
            found = with_seconds(store, found, progress)
        facts.learn(found, [one.field])
        found = [entry for entry in found if one.matches(entry, now_ns, facts.of(entry))]
    return found


def with_seconds(store: Store, entries: Sequence[Entry], progress: Progress[Entry] = iter) -> list[Entry]:
    """Return the entries with their build seconds; read those from the entries that the ledger does not know."""
    own = entries if store.root.layout.follows_jax else ()
    unknown = [entry for entry in own if entry.seconds is None and not entry.legacy]
    if not unknown:
        return list(entries)
    read = {(e.kind, e.key): s for e in progress(unknown) if (s := _read_seconds(store, e)) is not None}
    if len(read) >= _MIN_RECORDED:
        store.queue.attempt(lambda: store.ledger.record(Known(kind, key, seconds=s) for (kind, key), s in read.items()))
    return [e if e.seconds is not None else e._replace(seconds=read.get((e.kind, e.key))) for e in entries]


def _candidates(listing: Listing, selection: Selection) -> Iterator[Entry]:
    yield from listing.legacy if selection.legacy else ()
    if selection.limit is None or selection.filters or selection.sort.field.name not in _COLUMN_FIELDS:
        yield from listing.entries()
        return
    columns, field = listing.columns, selection.sort.field.name
    column = {"size": columns.sizes, "age": columns.created}.get(field) or array("q", listing.used())
    # The columns hold times, and a later time is a smaller age.
    largest_first = selection.sort.descending == (field == "size")
    yield from map(listing.entry, _first_rows(column, columns.keys, selection.limit, largest_first=largest_first))


def _first_rows(column: Sequence[int], keys: Sequence[str], limit: int, *, largest_first: bool) -> Iterator[int]:
    """Yield the rows with the largest or smallest values of a column; order rows with the last of these by key."""
    best = (heapq.nlargest if largest_first else heapq.nsmallest)(limit, column)
    if not best:
        return
    last = best[-1]
    equal = (row for row, value in enumerate(column) if value == last)
    yield from heapq.nsmallest(best.count(last), equal, key=keys.__getitem__)
    yield from (row for row, value in enumerate(column) if (value > last if largest_first else value < last))


def _read_seconds(store: Store, entry: Entry) -> float | None:
    try:
        if entry.kind is not Kind.EXECUTABLES:
            return header_at(store.path(entry)).build_seconds or None  # 0 means unknown
        return executable_seconds(files.read(store.path(entry), HEAD_BYTES))
    except (OSError, DamagedEntry):
        return None
