"""The entries of a root: listed, counted, and with what the ledger knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from jcache.entry import Entry
from jcache.layout import Kind, Root, is_key
from jcache.store import files
from jcache.store.cache_rules import JCACHE_RULES, CacheRules
from jcache.store.directories import is_link
from jcache.store.ledger_queue import LedgerQueue
from jcache.store.listing import Listing, list_root, read_listing

_FEW: Final = 100  # records that are faster to read one by one


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
        return "; ".join(dict.fromkeys(self._why_unknown[kind] for kind in kinds))

    def entries(self, kinds: Iterable[Kind] = tuple(Kind), *, legacy: bool = False, uses: bool = False) -> list[Entry]:
        """Return the entries of some kinds, with what the ledger knows of them.

        Args:
            kinds: which.
            legacy: whether to count in the entries that only jax <= 0.4.30 reads.
            uses: whether the last uses are to be those of now, also in large directories.
        """
        found: list[Entry] = []
        for kind in kinds:
            listing = self.listing(kind, uses=uses)
            others = self._rules.others(self._root, kind)
            found += self.enrich(kind, [*listing.entries(), *(listing.legacy if legacy else ()), *others])
        return found

    def named(self, kind: Kind, keys: Iterable[str]) -> list[Entry]:
        """Return the entries of a kind that have some keys, without listing the others, in a root of JAX's layout.

        Raises:
            CannotWrite: the directory cannot be read.
        """
        directory = self._root.directory(kind)
        with files.refusal(f"read {directory}"):
            listing = read_listing(kind, directory, root=self._root, only=filter(is_key, keys))
        return self.enrich(kind, list(listing.entries()), all_read=False)

    def count(self, kind: Kind) -> int:
        """Return the number of entries of a kind."""
        return len(self.listing(kind)) + sum(1 for _ in self._rules.others(self._root, kind))

    def enrich(self, kind: Kind, entries: Sequence[Entry], *, all_read: bool = True) -> list[Entry]:
        """Return the entries of one kind with seconds and pins, as the ledger knows them.

        Args:
            kind: the kind.
            entries: the entries.
            all_read: whether these may be most of the entries, so that reading the whole ledger is faster.
        """
        queue = self._queue
        keys = None if all_read and len(entries) > _FEW else [entry.key for entry in entries]
        known = queue.attempt(lambda: queue.ledger.facts(kind, ("seconds",), keys)) or {}
        pins = queue.attempt(queue.pins.known)
        pinned = None if pins is None else {key for of, key in pins if of is kind}
        if not known and pinned == set():
            return list(entries)
        return [_with_known(entry, known.get(entry.key), pinned) for entry in entries]


def _with_known(entry: Entry, known: tuple[float | None] | None, pinned: set[str] | None) -> Entry:
    seconds = entry.seconds if known is None else known[0]
    return entry._replace(seconds=seconds, pinned=None if pinned is None else entry.key in pinned)
