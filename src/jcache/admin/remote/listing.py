"""All entries of a store in columns, so that a million of them take little memory and can be planned with."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from jcache import clock
from jcache.admin.fields import Facts
from jcache.admin.filters import Filter, Sort
from jcache.entry import Entry
from jcache.layout import Kind
from jcache.layout.key_list import KeyList
from jcache.remote.client import Remote
from jcache.remote.names import parts_of
from jcache.remote.usage import RemoteId, batch_names, read_batch, short_name
from jcache.store.entries import KIND_CODES, EntrySequence

_KINDS: Final = sorted(Kind, key=KIND_CODES.__getitem__)
_CPU: Final = "cpu"


def facts_of(namespace: str, cpu_name: str | None = None) -> Facts:
    """Return what is known of an entry of a store.

    Args:
        namespace: its namespace; empty for traces and graphs.
        cpu_name: the model of the CPU that it was compiled for, where a manifest tells it.
    """
    if not namespace:
        return Facts()
    jaxlib, platform, device = parts_of(namespace)
    model = cpu_name if platform == _CPU else device
    return Facts(jaxlib=jaxlib, platform=platform, device=" ".join(filter(None, (platform, model))) or None)


class RemoteListing(EntrySequence):
    """The entries of a store; the place of each is its row.

    Attributes:
        pinned: rows of the entries that a plan must keep.
    """

    __slots__ = ("_created", "_keys", "_kinds", "_names", "_numbers", "_recency", "_sizes", "_spaces", "pinned")

    def __init__(self) -> None:
        self._keys = KeyList()
        self._kinds = bytearray()
        self._spaces = array("i")  # of executables, numbers of `_names`
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._sizes, self._created, self._recency = array("q"), array("q"), array("q")
        self.pinned: set[int] = set()

    @classmethod
    def of(cls, remote: Remote, kinds: Iterable[Kind] = tuple(Kind)) -> RemoteListing:
        """Return the entries of some kinds of a store.

        Raises:
            InvalidValue: the store cannot list.
            RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
        """
        made = cls()
        for kind in kinds:
            for one in remote.list(kind):
                made._keys.append(one.key)
                made._kinds.append(KIND_CODES[kind])
                made._spaces.append(made._number(one.namespace))
                made._sizes.append(one.bytes)
                made._created.append(one.written_ns)
        made._recency = array("q", made._created)
        return made

    def _number(self, namespace: str) -> int:
        number = self._numbers.setdefault(namespace, len(self._names))
        if number == len(self._names):
            self._names.append(namespace)
        return number

    def __len__(self) -> int:
        return len(self._sizes)

    def _item(self, at: int) -> Entry:
        return Entry(_KINDS[self._kinds[at]], self._keys[at], self._sizes[at], self._created[at], self._recency[at],
                     sidecar=False, pinned=at in self.pinned)  # fmt: skip

    def key_at(self, at: int) -> str:
        return self._keys[at]

    def numbers(self, name: str) -> array[int]:
        match name:
            case "bytes":
                return self._sizes
            case "created_ns":
                return self._created
            case "recency_ns" | "latest_ns":
                return self._recency
            case "kind":
                return array("q", iter(self._kinds))
            case _:
                return self._keys.places()

    def rows_with(self, name: str) -> Iterable[int]:
        return sorted(self.pinned) if name == "pinned" else ()

    def place(self, row: int) -> RemoteId:
        """Return kind, namespace and key of an entry."""
        return _KINDS[self._kinds[row]], self.namespace(row), self._keys[row]

    def namespace(self, row: int) -> str:
        """Return the namespace of an entry; empty for traces and graphs."""
        return self._names[self._spaces[row]]

    def facts(self, row: int) -> Facts:
        """Return what the namespace of an entry tells."""
        return facts_of(self.namespace(row))

    def add_uses(self, remote: Remote) -> int:
        """Take the last uses from the batches of a store; return the number of batches.

        Raises:
            RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
        """
        batches = batch_names(remote)
        if not batches:
            return 0
        rows = {hash(short_name(self.place(row))): row for row in range(len(self))}
        for name in batches:
            for short, used_ns in read_batch(remote, name):
                row = rows.get(hash(short))
                if row is not None and used_ns > self._recency[row]:
                    self._recency[row] = min(used_ns, max(clock.now_ns(), self._recency[row]))
        return len(batches)

    def written_between(self, first_ns: int, last_ns: int) -> set[int]:
        """Return the rows of the entries that were stored at these times or between them."""
        return {row for row, created in enumerate(self._created) if first_ns <= created <= last_ns}

    def matching(self, filters: Sequence[Filter]) -> Iterator[int]:
        """Yield the rows of the entries that satisfy all of some filters."""
        now_ns = clock.now_ns()
        for row in range(len(self)):
            facts = self.facts(row) if filters else None
            if facts is None or all(one.matches(self[row], now_ns, facts) for one in filters):
                yield row

    def selected(self, filters: Sequence[Filter], sort: Sort, limit: int | None) -> list[int]:
        """Return the rows of the entries that satisfy all of some filters, in an order, at most so many."""
        now_ns = clock.now_ns()

        def order(row: int) -> object:
            facts = self.facts(row)
            return sort.key(now_ns, lambda _: facts)(self[row])

        rows = self.matching(filters)
        return sorted(rows, key=order) if limit is None else heapq.nsmallest(limit, rows, key=order)  # type: ignore[arg-type]
