"""Read what is known of entries beside their files: from the ledger, and from inside executables."""

from collections.abc import Iterable, Sequence
from typing import Final

from jcache.admin.fields import NO_FACTS, Facts, Field, Source
from jcache.entry import Entry
from jcache.errors import DamagedEntry
from jcache.layout import Kind
from jcache.store import files
from jcache.store.ledger import Known
from jcache.store.progress import Progress
from jcache.store.store import Store

_Name = tuple[Kind, str]
_FEW: Final = 100
_NEVER_HIT: Final = Facts(hits=0)


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
        if Source.LEDGER in sources:
            for kind in {entry.kind for entry in current}:
                self._read_ledger(kind, [entry.key for entry in current if entry.kind is kind])
        if Source.CONTENT in sources:
            for entry in self._progress([entry for entry in current if (entry.kind, entry.key) not in self._opened]):
                platform, device = device_of(self._store, entry)
                self._opened.add((entry.kind, entry.key))
                self._facts[entry.kind, entry.key] = self.of(entry)._replace(platform=platform, device=device)

    def of(self, entry: Entry) -> Facts:
        """Return what has been read of an entry."""
        return NO_FACTS if entry.legacy else self._facts.get((entry.kind, entry.key), NO_FACTS)

    def _read_ledger(self, kind: Kind, keys: Sequence[str]) -> None:
        ledger = self._store.ledger
        some = keys if len(keys) <= _FEW else None
        known = self._store.queue.attempt(lambda: ledger.facts(kind, ("hits", "jaxlib", "run"), some))
        if known is None:
            return  # the ledger cannot be read: nothing is known, not even that there were no hits
        for key in keys:
            row, before = known.get(key), self._facts.get((kind, key))
            news = _NEVER_HIT if row is None else Facts(*row)
            if before is not None:
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
