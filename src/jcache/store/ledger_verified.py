"""What a ledger knows of verifications: when entries were verified, and of which it knows the bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jcache.layout import Kind
from jcache.store import ledger_rows as rows
from jcache.store.ledger_connection import LedgerFile
from jcache.store.ledger_keys import change_keys

if TYPE_CHECKING:
    import sqlite3

_ROWS_AT_ONCE: Final = 20_000


def record(ledger: LedgerFile, keys: Iterable[tuple[Kind, str]], verified_ns: int) -> None:
    """Record that entries on record were found unchanged.

    Args:
        ledger: the ledger.
        keys: kinds and keys of the entries.
        verified_ns: when they were verified, nanoseconds since 1970.
    """
    change = partial(change_keys, "UPDATE entries SET verified_ns = ?", (verified_ns,), list(keys))
    ledger.write(change, anew=False)


def times(ledger: LedgerFile, kind: Kind) -> tuple[int, int | None, int | None]:
    """Return how many entries of a kind were verified, and the first and the last time, nanoseconds since 1970."""
    query = "SELECT count(verified_ns), min(verified_ns), max(verified_ns) FROM entries WHERE kind = ?"
    found = ledger.read(partial(_fetch_all, query, (kind,)))
    return (0, None, None) if not found else found[0]


def count_digests(ledger: LedgerFile, kind: Kind) -> int:
    """Return how many entries of a kind have a digest on record."""
    found = ledger.read(partial(_fetch_all, "SELECT count(digest_ns) FROM entries WHERE kind = ?", (kind,)))
    return int(found[0][0]) if found else 0


def with_digests(ledger: LedgerFile, kind: Kind) -> Iterator[list[str]]:
    """Yield the keys of the entries of a kind that have a digest on record, in order, some at a time."""
    query = "SELECT key FROM entries WHERE kind = ? AND key > ? AND digest_ns IS NOT NULL ORDER BY key LIMIT ?"
    last: Any = ""
    while found := ledger.read(partial(_fetch_all, query, (kind, last, _ROWS_AT_ONCE))):
        (last,) = found[-1]
        yield [key for (key,) in found if rows.key(key) is not None]


def _fetch_all(query: str, parameters: tuple[Any, ...], database: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return database.execute(query, parameters).fetchall()
