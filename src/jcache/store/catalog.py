"""The entries of a root: listed, counted, and with what the ledger knows of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache.entry import Entry
from jcache.layout import Kind, Root, is_key
from jcache.store import files
from jcache.store.cache_rules import JCACHE_RULES, CacheRules
from jcache.store.directories import is_link
from jcache.store.ledger_queue import LedgerQueue

if TYPE_CHECKING:  # and imported where they are used: a program that only hits lists nothing
    from jcache.store.entries import EntrySequence
    from jcache.store.listing import Listing

_AT_ONCE: Final = 20_000  # records
_NOTHING: Final = (None,)


class Catalog:
    """The entries of a root.

    Args:
        root: the root.
        queue: the queue of its ledger, which receives notices.
        rules: the rules of the cache.
    """

    def __init__(self, root: Root, queue: LedgerQueue, rules: CacheRules = JCACHE_RULES) -> None:
        self._root = root
        self._queue = queue
        self._rules = rules
        self._why_unknown: dict[Kind, str] = {}

    def path(self, entry: Entry) -> Path:
        """Return the path of an entry's file."""
        return self._root.place(entry.kind, entry.key, legacy=entry.legacy)

    def listing(self, kind: Kind, *, remember: bool = True, uses: bool = False) -> Listing:
        """Return the listing of a kind's directory.

        Args:
            kind: which.
            remember: whether the ledger may keep a large one's snapshot.
            uses: whether the last uses are to be those of now, also in a large one.

        Raises:
            CannotWrite: the directory cannot be read.
        """
        from jcache.store.listing import list_root

        root, directory = self._root, self._root.directory(kind)
        if directory != root.path and is_link(root, directory):
            self._queue.notice(
                f"{directory} is a symbolic link, which is not followed: name what it points to as --root."
            )
        for name in root.layout.directories:
            if (root.path / name).is_symlink():
                self._queue.notice(f"{root.path / name} is a symbolic link, which is not followed.")
        with files.refusal(f"read {directory}"):
            listing = list_root(root, kind, self._queue.ledger if remember else None, uses=uses)
        self._why_unknown[kind] = listing.why_unknown
        return listing

    def why_unknown(self, kinds: Iterable[Kind]) -> str:
        """Return why the last use of entries of listed kinds is unknown, as the end of a sentence."""
        return "; ".join(dict.fromkeys(why for kind in kinds if (why := self._why_unknown.get(kind))))

    def entries(
        self,
        kinds: Iterable[Kind] = tuple(Kind),
        *,
        legacy: bool = False,
        uses: bool = False,
        seconds: bool = True,
    ) -> EntrySequence:
        """Return the entries of some kinds, with what the ledger knows of them.

        Args:
            kinds: which.
            legacy: whether to count in the entries that only jax <= 0.4.30 reads.
            uses: whether the last uses are to be those of now, also in large directories.
            seconds: whether to look for their build seconds.
        """
        listings = (self.listing(kind, uses=uses) for kind in kinds)
        return self.of_listings(listings, legacy=legacy, seconds=seconds)

    def of_listings(self, listings: Iterable[Listing], *, legacy: bool = False, seconds: bool = True) -> EntrySequence:
        """Return the entries of some listings; the arguments are those of `entries`."""
        from jcache.store.entries import joined

        found: list[Sequence[Entry]] = []
        for listing in listings:
            others = self._rules.others(self._root, listing.kind)
            self.enrich(listing, seconds=seconds)
            found += listing, self._enriched(listing.kind, [*(listing.legacy if legacy else ()), *others])
        return joined(found)

    def named(self, kind: Kind, keys: Iterable[str]) -> list[Entry]:
        """Return the entries of a kind that have some keys, without listing the others, in a root of JAX's layout.

        Raises:
            CannotWrite: the directory cannot be read.
        """
        from jcache.store.listing import read_listing

        directory = self._root.directory(kind)
        with files.refusal(f"read {directory}"):
            listing = read_listing(kind, directory, root=self._root, only=filter(is_key, keys))
        self.enrich(listing)
        return list(listing)

    def count(self, kind: Kind) -> int:
        """Return the number of entries of a kind."""
        return len(self.listing(kind)) + sum(1 for _ in self._rules.others(self._root, kind))

    def enrich(self, listing: Listing, *, seconds: bool = True) -> None:
        """Add pins to a listing and, if asked for, build seconds, as the ledger knows them."""
        from jcache.store.entries import batches

        listing.pinned = self._pinned(listing.kind)
        if not seconds or not self._queue.ledger.is_there():
            return
        known = listing.seconds = array("d")
        for keys in batches(listing.columns.keys, _AT_ONCE):
            found = self._seconds(listing.kind, keys)
            known.extend(_number(found.get(key, _NOTHING)[0]) for key in keys)

    def seconds(self, entries: Sequence[Entry]) -> list[float]:
        """Return the build seconds of some entries, as the ledger knows them; not a number where it does not."""
        asked = [entry for entry in entries if entry.seconds is None]
        kinds = {entry.kind for entry in asked}
        known = {kind: self._seconds(kind, [entry.key for entry in asked if entry.kind is kind]) for kind in kinds}
        return [
            _number(known[entry.kind].get(entry.key, _NOTHING)[0] if entry.seconds is None else entry.seconds)
            for entry in entries
        ]

    def enriched(self, entry: Entry) -> Entry:
        """Return an entry with seconds and pins, as the ledger knows them."""
        return self._enriched(entry.kind, [entry])[0]

    def _enriched(self, kind: Kind, entries: Sequence[Entry]) -> list[Entry]:
        from jcache.store.entries import Timed

        if not entries:
            return []
        pinned = self._pinned(kind)
        marked = [entry._replace(pinned=None if pinned is None else entry.key in pinned) for entry in entries]
        return list(Timed(marked, self.seconds(entries)))

    def _pinned(self, kind: Kind) -> frozenset[str] | None:
        pins = self._queue.attempt(self._queue.pins.known)
        return None if pins is None else frozenset(key for of, key in pins if of is kind)

    def _seconds(self, kind: Kind, keys: Sequence[str]) -> dict[str, tuple[float | None]]:
        return self._queue.attempt(lambda: self._queue.ledger.facts(kind, ("seconds",), keys)) or {}


def _number(seconds: float | None) -> float:
    return nan if seconds is None else seconds
