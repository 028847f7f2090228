"""Read what is known of entries beside their files: from the ledger, and from inside executables."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from jcache.admin.fields import FIELDS, NO_FACTS, Facts, Field, FieldSource
from jcache.entry import Entry
from jcache.errors import DamagedEntry
from jcache.layout import Kind
from jcache.store import files
from jcache.store.entries import EntrySequence, batches, in_order
from jcache.store.ledger import Known
from jcache.store.progress import Progress
from jcache.store.store import Store

_Name = tuple[Kind, str]
_NEVER_HIT: Final = Facts(hits=0)
_OF_LEDGER: Final = tuple(field for field in FIELDS.values() if field.source is FieldSource.LEDGER)
_AT_ONCE: Final = 5000


class FactBook:
    """Facts about entries of a store, read when they are first needed and remembered.

    Args:
        store: whose entries.
        progress: is given the entries whose content is read, and passes them on.
    """

    def __init__(self, store: Store, progress: Progress[Entry] = iter) -> None:
        self._store = store
        self._progress = progress
        self._facts: dict[_Name, Facts] = {}
        self._opened: set[_Name] = set()

    def learn(self, entries: Sequence[Entry], fields: Iterable[Field]) -> None:
        """Read what the sources of some fields tell of some entries."""
        sources = {field.source for field in fields}
        current = [entry for entry in entries if not entry.legacy]  # one of them may have the key of a legacy one
        if FieldSource.LEDGER in sources:
            for kind in {entry.kind for entry in current}:
                self._read_ledger(kind, [entry.key for entry in current if entry.kind is kind])
        if FieldSource.CONTENT in sources:
            for entry in self._progress([entry for entry in current if (entry.kind, entry.key) not in self._opened]):
                platform, device = device_of(self._store, entry)
                self._opened.add((entry.kind, entry.key))
                self._facts[entry.kind, entry.key] = self.of(entry)._replace(platform=platform, device=device)

    def of(self, entry: Entry) -> Facts:
        """Return what has been read of an entry."""
        return NO_FACTS if entry.legacy else self._facts.get((entry.kind, entry.key), NO_FACTS)

    def on_record(self, entries: EntrySequence) -> tuple[array[int], list[Facts]]:
        """Return what the ledger tells of entries: a number for each, and what the numbers stand for.

        It is read in the order of the ledger; legacy entries are not asked about.
        """
        numbers, known = array("q", bytes(8 * len(entries))), dict[Facts, int]()
        rows = in_order(range(len(entries)), entries.key_at, entries.numbers("place"))
        for places in batches(rows, _AT_ONCE):
            some = list(entries.at(places))
            self.learn(some, _OF_LEDGER)
            for place, entry in zip(places, some, strict=True):
                numbers[place] = known.setdefault(self.of(entry), len(known))
            self.forget(some)
        return numbers, list(known)

    def forget(self, entries: Iterable[Entry]) -> None:
        """Forget what the ledger told of some entries."""
        for entry in entries:
            if (entry.kind, entry.key) not in self._opened:
                self._facts.pop((entry.kind, entry.key), None)

    def _read_ledger(self, kind: Kind, keys: Sequence[str]) -> None:
        ledger = self._store.ledger
        known = self._store.queue.attempt(lambda: ledger.facts(kind, ("hits", "jaxlib", "run", "seconds"), keys))
        if known is None:
            return  # the ledger cannot be read: nothing is known, not even that there were no hits
        made = {row: Facts(row[0], row[1], row[2], seconds=row[3]) for row in set(known.values())}
        for key in keys:
            news = made[known[key]] if key in known else _NEVER_HIT
            if (kind, key) in self._opened:
                before = self._facts[kind, key]
                news = news._replace(platform=before.platform, device=before.device)
            self._facts[kind, key] = news


def facts_of(known: Known | None) -> Facts:
    """Return the facts in the ledger's row of an entry; no row means that no recorded run has hit it."""
    return _NEVER_HIT if known is None else Facts(hits=known.hits, jaxlib=known.jaxlib, run=known.run)


def device_of(store: Store, entry: Entry) -> tuple[str | None, str | None]:
    """Return the platform that an executable was compiled for, and the platform with the model of the processor."""
    from jcache.formats.inspection import inspect

    if entry.kind is not Kind.EXECUTABLES or entry.legacy:
        return None, None
    try:
        found = inspect(files.read(store.path(entry)))
    except (OSError, DamagedEntry):
        return None, None
    model = found.compute_capability or (found.cpu_name if found.platform == "cpu" else None)
    return found.platform, " ".join(part for part in (found.platform, model) if part) or None
