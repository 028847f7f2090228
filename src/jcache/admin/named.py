"""Plan the removal of entries that are named, by keys or by filters, for `jcache rm`."""

from __future__ import annotations

from collections.abc import Sequence

from jcache import clock
from jcache.admin.facts import FactBook
from jcache.admin.filters import Filter
from jcache.admin.removal import entries_with_links
from jcache.admin.selection import matching
from jcache.entry import Entry
from jcache.errors import UnknownKey
from jcache.layout import Kind
from jcache.store.eviction import chosen
from jcache.store.lookup import KeyFinder, resolve
from jcache.store.policy import Plan, Reason
from jcache.store.progress import Progress
from jcache.store.store import Store


def plan_keys(store: Store, keys: Sequence[str]) -> Plan:
    """Return the plan that removes the entries that some texts stand for.

    Args:
        store: store of the root.
        keys: keys, or unambiguous beginnings of them or of their hashes.

    Raises:
        UnknownKey: one of them stands for no entry, or for several.
        CannotWrite: a directory of the root cannot be read.
    """
    entries, links = entries_with_links(store, frozenset(Kind))
    finder = KeyFinder(entry.key for entry in entries)
    named, faults = resolve(store, keys, finder, lambda wanted: (entry for entry in entries if entry.key in wanted))
    if faults:
        raise UnknownKey(" ".join([*map(str, faults), "Nothing was removed."]))
    return chosen(entries, named, Reason.NAMED, links=links)


def plan_filters(
    store: Store, filters: Sequence[Filter], *, legacy: bool = False, progress: Progress[Entry] = iter
) -> Plan:
    """Return the plan that removes the entries that satisfy all of some filters.

    Args:
        store: store of the root.
        filters: which.
        legacy: whether entries that only jax <= 0.4.30 reads go as well.
        progress: is given the entries to read, and passes them on.

    Raises:
        CannotWrite: a directory of the root cannot be read.
    """
    entries, links = entries_with_links(store, frozenset(Kind))
    candidates = [entry for entry in entries if legacy or not entry.legacy]
    return chosen(entries, satisfying(store, candidates, filters, progress), Reason.MATCHED, links=links)


def satisfying(
    store: Store, entries: Sequence[Entry], filters: Sequence[Filter], progress: Progress[Entry] = iter
) -> list[Entry]:
    """Return the entries that satisfy all of some filters, as `jcache ls` has it."""
    return matching(store, entries, filters, clock.now_ns(), FactBook(store, progress), progress)
