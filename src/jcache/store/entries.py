"""Entries that are made when they are asked for, so that a million of them take little memory."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from math import isnan
from operator import attrgetter
from typing import Any, Final, TypeVar, overload

from jcache.entry import Entry
from jcache.layout import Kind
from jcache.layout.key_list import KeyList

T = TypeVar("T")
_PARTS: Final = 32
_SMALL_PART: Final = 10_000
KIND_CODES: Final = {kind: code for code, kind in enumerate(Kind)}


def _kind_number(entry: Entry) -> int:
    return KIND_CODES[entry.kind]


class Lazy(Sequence[T]):
    """A sequence whose items are made when they are asked for; it equals any sequence of the same items."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def _item(self, at: int) -> T:
        """Return the item at a place from 0 on."""
        raise NotImplementedError

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        if isinstance(at, slice):
            return [self._item(place) for place in range(*at.indices(len(self)))]
        return self._item(at if at >= 0 else at + len(self))

    def __iter__(self) -> Iterator[T]:
        return map(self._item, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


class EntrySequence(Lazy[Entry]):
    """A sequence of entries whose keys are cheaper than the entries."""

    __slots__ = ()

    def key_at(self, at: int) -> str:
        """Return the key of the entry at a place from 0 on."""
        return self._item(at).key

    def at(self, rows: Collection[int]) -> Iterator[Entry]:
        """Return the entries at some places from 0 on."""
        return map(self._item, rows)

    def numbers(self, name: str) -> array[int]:
        """Return a number of each entry: an attribute, the ``kind``'s number, or the ``place`` of its key among all."""
        if name == "place":
            return KeyList(entry.key for entry in self).places()
        return array("q", map(_kind_number if name == "kind" else attrgetter(name), self))

    def rows_with(self, name: str) -> Iterable[int]:
        """Return the places of the entries of which an attribute is true."""
        return (row for row, entry in enumerate(self) if getattr(entry, name))


def key_at(entries: Sequence[Entry], at: int) -> str:
    """Return the key of the entry at a place of a sequence, from 0 on."""
    return entries.key_at(at) if isinstance(entries, EntrySequence) else entries[at].key


class Entries(EntrySequence):
    """The entries of several sequences, one after the other.

    Args:
        parts: the sequences.
    """

    __slots__ = ("_ends", "_parts")

    def __init__(self, parts: Iterable[Sequence[Entry]]) -> None:
        self._parts = [part for part in parts if len(part)]
        self._ends = list(accumulate(map(len, self._parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(self._parts)

    def _item(self, at: int) -> Entry:
        part = bisect_right(self._ends, at)
        return self._parts[part][at - self._ends[part] + len(self._parts[part])]

    def key_at(self, at: int) -> str:
        """Return the key of the entry at a place from 0 on."""
        part = bisect_right(self._ends, at)
        return key_at(self._parts[part], at - self._ends[part] + len(self._parts[part]))

    def numbers(self, name: str) -> array[int]:
        """Return a number of each entry, as `EntrySequence.numbers` does."""
        return array("q", chain.from_iterable(of_entries(part).numbers(name) for part in self._parts))

    def rows_with(self, name: str) -> Iterable[int]:
        """Return the places of entries, as `EntrySequence.rows_with` does."""
        for end, part in zip(self._ends, self._parts, strict=True):
            yield from (end - len(part) + row for row in of_entries(part).rows_with(name))


class Picked(EntrySequence):
    """Some entries of a sequence, in any order.

    Args:
        entries: the sequence.
        rows: the places of these entries in it.
    """

    __slots__ = ("_entries", "_rows")

    def __init__(self, entries: Sequence[Entry], rows: Iterable[int]) -> None:
        self._entries = entries
        self._rows = array("q", rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _item(self, at: int) -> Entry:
        return self._entries[self._rows[at]]

    def __iter__(self) -> Iterator[Entry]:
        return self._entries.at(self._rows) if isinstance(self._entries, EntrySequence) else super().__iter__()

    def key_at(self, at: int) -> str:
        """Return the key of the entry at a place from 0 on."""
        return key_at(self._entries, self._rows[at])

    def numbers(self, name: str) -> array[int]:
        """Return a number of each entry, as `EntrySequence.numbers` does."""
        if not isinstance(self._entries, EntrySequence):
            return super().numbers(name)
        return array("q", map(self._entries.numbers(name).__getitem__, self._rows))


class Timed(EntrySequence):
    """The entries of a sequence with build seconds.

    Args:
        entries: the sequence.
        seconds: build seconds of each; not a number where they are unknown.
    """

    __slots__ = ("_entries", "_seconds")

    def __init__(self, entries: Sequence[Entry], seconds: Sequence[float]) -> None:
        self._entries = entries
        self._seconds = seconds

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return map(_timed, self._entries, self._seconds)

    def _item(self, at: int) -> Entry:
        return _timed(self._entries[at], self._seconds[at])

    def key_at(self, at: int) -> str:
        """Return the key of the entry at a place from 0 on."""
        return key_at(self._entries, at)


def _timed(entry: Entry, seconds: float) -> Entry:
    return entry._replace(seconds=None if isnan(seconds) else seconds)


def of_entries(entries: Iterable[Entry]) -> EntrySequence:
    """Return some entries as such a sequence."""
    if isinstance(entries, EntrySequence):
        return entries
    some = entries if isinstance(entries, Sequence) else list(entries)
    return Picked(some, range(len(some)))


def joined(parts: Iterable[Sequence[Entry]]) -> EntrySequence:
    """Return the entries of several sequences, one after the other."""
    some = [part for part in parts if len(part)]
    return of_entries(some[0]) if len(some) == 1 else Entries(some)


def in_order(rows: Iterable[int], last: Callable[[int], Any], *numbers: Sequence[float]) -> array[int]:
    """Return rows in an order: by a number of each, equal ones by the next number, and at last by a sort key.

    Args:
        rows: the rows.
        last: returns the sort key of a row; it is only asked for rows of equal numbers.
        numbers: columns of numbers.
    """
    if not numbers:
        return array("q", sorted(rows, key=last))
    first, *then = numbers
    ordered = _by_number(rows, first)
    start = 0
    for at in range(1, len(ordered) + 1):
        if at == len(ordered) or first[ordered[at]] != first[ordered[start]]:
            if at - start > 1:
                ordered[start:at] = in_order(ordered[start:at], last, *then)
            start = at
    return ordered


def _by_number(rows: Iterable[int], numbers: Sequence[float]) -> array[int]:
    """Return rows in the order of their numbers; sort a part at a time, since sorting takes ten times the memory."""
    edges = sorted(numbers[:: max(len(numbers) // _PARTS, _SMALL_PART)])
    parts = [array("q") for _ in range(len(edges) + 1)]
    for row in rows:
        parts[bisect_right(edges, numbers[row])].append(row)
    return array("q", chain.from_iterable(sorted(part, key=numbers.__getitem__) for part in parts))


def batches(items: Iterable[T], count: int) -> Iterator[list[T]]:
    """Yield the items in lists of so many."""
    left = iter(items)
    while some := list(islice(left, count)):
        yield some
