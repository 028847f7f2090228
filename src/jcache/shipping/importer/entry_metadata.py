"""The metadata of imported entries: ledger records, times of use, and pins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from jcache import clock
from jcache.errors import CannotWrite, LedgerUnavailable
from jcache.shipping.archive.manifest import Item
from jcache.shipping.importer.outcome import entry_path
from jcache.store.ledger import Known
from jcache.store.store import Store
from jcache.verify.neighbours import CLOCK_TOLERANCE_NS


def past(time_ns: int, now_ns: int) -> int:
    """Return a time, or the current one in place of a future one, by which an entry would never be evicted."""
    return time_ns if time_ns <= now_ns + CLOCK_TOLERANCE_NS else now_ns


class EntryMetadata:
    """Brings what an archive says of entries into the root.

    Args:
        store: store of the root, which exists.
        jaxlib_of: returns the jaxlib that made an entry, where it is known.

    Attributes:
        now_ns: the time when the import began, nanoseconds since 1970.
    """

    def __init__(self, store: Store, jaxlib_of: Callable[[Item], str | None]) -> None:
        self._store = store
        self._jaxlib_of = jaxlib_of
        self._to_pin: list[Item] = []  # entries that were there already
        self.now_ns = clock.now_ns()

    def past(self, time_ns: int) -> int:
        """Return a time, or that when the import began in place of a future one."""
        return past(time_ns, self.now_ns)

    def record_of(self, item: Item, taken_ns: int, checks: int | None = None) -> Known:
        """Return an entry's record for the ledger.

        Args:
            item: the entry.
            taken_ns: the time as of which its digest is known, nanoseconds since 1970.
            checks: the version of the checks that its bytes passed in full; None for none.
        """
        return Known(
            item.kind,
            item.key,
            item.digest,
            item.bytes,
            item.seconds,
            item.origin or "import",
            jaxlib=self._jaxlib_of(item),
            digest_ns=taken_ns,
            checks=checks,
        )

    def update_present(self, *items: Item) -> None:
        """Update entries that are there with equal bytes: later times of use, and facts that the ledger lacks."""
        for kind in {item.kind for item in items}:
            keys = [item.key for item in items if item.kind is kind]
            known = self._store.queue.attempt(partial(self._store.ledger.known, kind, keys)) or {}
            for item in items:
                if item.kind is kind:
                    self._update_present(item, known.get(item.key) or Known(kind, item.key))

    def _update_present(self, item: Item, ours: Known) -> None:
        with suppress(FileNotFoundError):
            status = os.lstat(entry_path(self._store.root, item))
            recency_ns = self.past(item.recency_ns)
            if recency_ns > status.st_mtime_ns:
                self._store.touch(item.kind, [item.key], recency_ns)
            theirs = self.record_of(item, status.st_ctime_ns)
            news = theirs._replace(
                seconds=None if ours.seconds is not None else theirs.seconds,
                origin=None if ours.origin is not None else item.origin,
                jaxlib=None if ours.jaxlib is not None else theirs.jaxlib,
            )
            if ours.digest == item.digest:
                news = news._replace(digest=None, bytes=None, digest_ns=None)
            if any(value is not None for value in news[2:-2]):
                self._store.queue.add_many([news])
            self._to_pin.append(item)

    def pin(self, items: Iterable[Item] = ()) -> None:
        """Pin entries that are pinned in the archive: these, and those that were there. A failure becomes a notice."""
        names = [(item.kind, item.key) for item in (*self._to_pin, *items) if item.pinned]
        self._to_pin = []
        try:
            if names:
                self._store.pins.add(names)
        except (CannotWrite, LedgerUnavailable) as error:
            self._store.queue.notice(str(error))
