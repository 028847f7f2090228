"""Read and change the records of many entries of a ledger at once: neighbours lie on one page of the file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from jcache.layout import Kind
from jcache.store.entries import batches

if TYPE_CHECKING:
    import sqlite3

_KEYS_AT_ONCE: Final = 500  # which every SQLite takes as parameters


def of_keys(
    database: sqlite3.Connection, query: str, kind: Kind, keys: Iterable[str] | None
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows that a query finds for a kind, of some keys or of all; many keys are looked up together."""
    if keys is None:
        yield from database.execute(query, (kind,))
        return
    for some in batches(sorted(keys), _KEYS_AT_ONCE):  # neighbours lie on one page
        yield from database.execute(f"{query} AND key IN ({_marks(some)})", (kind, *some))


def change_keys(
    change: str, values: tuple[object, ...], names: list[tuple[Kind, str]], database: sqlite3.Connection
) -> None:
    """Change or delete the records of some entries, neighbours together."""
    for kind in {kind for kind, _ in names}:
        for some in batches(sorted(key for of, key in names if of is kind), _KEYS_AT_ONCE):
            database.execute(f"{change} WHERE kind = ? AND key IN ({_marks(some)})", (*values, kind, *some))


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
