"""Find entries and pins by what people write for a key: the key, a beginning, what `ls` prints, or a part of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice, takewhile
from typing import Final

from jcache.entry import Entry
from jcache.errors import UnknownKey
from jcache.layout import Kind, hash_of, name_of, short_key
from jcache.store.listing import Listing
from jcache.store.store import Store
from jcache.text import ELLIPSES, command, did_you_mean, nearest

_MOST_NAMED: Final = 3


class KeyFinder:
    """Finds the keys that a text stands for.

    A text is a key; or else a beginning of a key or of its hash; or else what `ls` prints for a key where that is
    narrow, with an ellipsis in the middle; or else, if parts count, any part of a key.

    Args:
        keys: among which to look.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._known = frozenset(keys)

    @cached_property
    def _sorted(self) -> tuple[list[str], list[tuple[str, str]]]:
        """The keys, and their hashes with the keys, each in order."""
        return sorted(self._known), sorted((hash_of(key), key) for key in self._known)

    def _begun(self, text: str) -> set[str]:
        """Return the keys that begin with a text, or whose hash does."""
        keys, hashes = self._sorted
        some = takewhile(lambda key: key.startswith(text), islice(keys, bisect_left(keys, text), None))
        more = takewhile(lambda pair: pair[0].startswith(text), islice(hashes, bisect_left(hashes, (text, "")), None))
        return {*some, *(key for _, key in more)}

    def answering(self, text: str, *, parts: bool = False) -> set[str]:
        """Return the keys that a text may stand for.

        Args:
            text: what somebody has written; an empty text stands for no key.
            parts: whether a part in the middle of a key counts, which is not for commands that remove something.
        """
        if not text:
            return set()
        if text in self._known:
            return {text}
        found = self._begun(text)
        for ellipsis in ELLIPSES:
            head, cut, tail = text.partition(ellipsis)
            if not found and head and cut and tail:
                found = {key for key in self._known if _is_printed(key, head, tail)}
        if not found and parts:
            found = {key for key in self._known if text in key}
        return found

    def near(self, text: str) -> list[str]:
        """Return the names in keys that are like a text."""
        return nearest(name_of(text) or text, sorted({*map(name_of, self._known)} - {""}))


def _is_printed(key: str, head: str, tail: str) -> bool:
    """Return whether a table prints a key as these two parts, with an ellipsis between them."""
    printed = (short_key(key), key)
    return any(text.startswith(head) and text.endswith(tail) and len(text) > len(head) + len(tail) for text in printed)


def find_entry(store: Store, text: str, *, parts: bool = False) -> Entry:
    """Return the entry that a text stands for, as `KeyFinder` reads it, or that has a file of this name.

    Args:
        store: whose entries.
        text: what somebody has written.
        parts: whether a part in the middle of a key counts, which is not for commands that remove something.

    Raises:
        UnknownKey: it stands for no entry, or for several.
    """
    (entry,) = _meant(store, [text], parts=parts)
    return store.catalog.enriched(entry)


def find_keys(store: Store, texts: Iterable[str]) -> set[str]:
    """Return the keys of the entries that some texts stand for, as `find_entry` finds them one by one.

    Raises:
        UnknownKey: a text stands for no entry, or for several.
    """
    return {entry.key for entry in _meant(store, texts)}


def _meant(store: Store, texts: Iterable[str], *, parts: bool = False) -> list[Entry]:
    listings = [store.listing(kind) for kind in Kind]
    finder = KeyFinder(key for listing in listings for key in _keys(listing))

    def with_keys(keys: set[str]) -> Iterator[Entry]:
        return (entry for listing in listings for entry in _with_keys(listing, keys))

    found, faults = resolve(store, texts, finder, with_keys, parts=parts)
    if faults:
        raise faults[0]
    return found


def resolve(
    store: Store,
    texts: Iterable[str],
    finder: KeyFinder,
    with_keys: Callable[[set[str]], Iterable[Entry]],
    *,
    parts: bool = False,
) -> tuple[list[Entry], list[UnknownKey]]:
    """Return the entries that some texts stand for, and an error for each text that stands for none or several.

    Args:
        store: store of the root.
        texts: the texts.
        finder: finder of the keys.
        with_keys: returns the entries that have one of some keys.
        parts: whether a part in the middle of a key counts, which is not for commands that remove something.
    """
    meant = [(text, finder.answering(store.root.layout.key_of(text), parts=parts)) for text in texts]
    by_key: dict[str, list[Entry]] = {}
    for entry in with_keys(set().union(*(keys for _, keys in meant))):
        by_key.setdefault(entry.key, []).append(entry)
    found, faults = [], []
    for text, keys in meant:
        try:
            found.append(only_entry(store, finder, text, [e for key in keys for e in by_key.get(key, ())]))
        except UnknownKey as error:
            faults.append(error)
    return found, faults


def only_entry(store: Store, finder: KeyFinder, text: str, found: list[Entry]) -> Entry:
    """Return the one entry that was found for a text; of two with the same key, the one that a current JAX reads.

    Raises:
        UnknownKey: there is none, or there are several.
    """
    if len({entry.key for entry in found}) == 1:
        current = [entry for entry in found if not entry.legacy]
        found = current if len(current) == 1 else found
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownKey(_several(text, [entry.key for entry in found], "entries"))
    near = did_you_mean(finder.near(store.root.layout.key_of(text)))
    ls = command("ls", store.root.path)
    raise UnknownKey(f"No entry of {store.root.path} has the key or prefix '{text}'{near or '.'} `{ls}` lists all.")


def find_pins(store: Store, text: str) -> list[tuple[Kind, str]]:
    """Return the pins of the key that a text stands for, as `KeyFinder` reads it, whether or not there is an entry.

    Raises:
        UnknownKey: it stands for the pins of several keys.
        LedgerUnavailable: what is pinned is not known.
    """
    pins = sorted(store.pins.known())
    keys = KeyFinder(key for _, key in pins).answering(store.root.layout.key_of(text))
    if len(keys) > 1:
        raise UnknownKey(_several(text, sorted(keys), "pins"))
    return [pin for pin in pins if pin[1] in keys]


def _keys(listing: Listing) -> Iterator[str]:
    yield from listing.columns.keys
    yield from (entry.key for entry in listing.legacy)


def _with_keys(listing: Listing, keys: set[str]) -> Iterator[Entry]:
    """Yield the entries that have one of some keys, with their present access times."""
    found = (listing[row] for row, key in enumerate(listing.columns.keys) if key in keys) if keys else iter(())
    yield from map(listing.looked_at, found) if listing.accessed_ns is not None else found
    yield from (entry for entry in listing.legacy if entry.key in keys)


def _several(text: str, keys: list[str], what: str) -> str:
    """Return the sentence about a text that stands for several keys."""
    short = [short_key(key) for key in sorted(keys)]
    shown = short if len(set(short)) == len(short) else sorted(keys)
    listed = ", ".join(shown[:_MOST_NAMED])
    more = f" and {len(shown) - _MOST_NAMED:,} more" if len(shown) > _MOST_NAMED else ""
    return f"'{text}' stands for {len(keys):,} {what}: {listed}{more}; give more of the key."
