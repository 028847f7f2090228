"""What a ledger knows of removed entries: when the latest went, and by what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache import clock
from jcache.layout import Kind
from jcache.store import ledger_rows as rows
from jcache.store.ledger_connection import REMOVALS_SCHEMA, LedgerFile, has

if TYPE_CHECKING:
    import sqlite3

KEPT: Final = 10_000  # removals, the latest


class KnownRemoval(NamedTuple):
    """What the ledger knows of an entry that was removed.

    Attributes:
        removed_ns: when it was removed, nanoseconds since 1970.
        remover: what removed it, such as ``jcache prune``.
    """

    removed_ns: int
    remover: str


def note(database: sqlite3.Connection, names: Iterable[tuple[Kind, str]], remover: str) -> None:
    """Note that entries have been removed now; forget the oldest removals above `KEPT`.

    Args:
        database: the ledger, in a transaction.
        names: kinds and keys of the entries, in the order in which they were removed.
        remover: what removed them, such as ``jcache prune``.
    """
    now = clock.now_ns()
    insert = "INSERT INTO removals (kind, key, removed_ns, remover) VALUES (?, ?, ?, ?)"
    database.execute(REMOVALS_SCHEMA)
    database.executemany(insert, [(*name, now, remover) for name in names])
    database.execute("DELETE FROM removals WHERE id <= (SELECT max(id) FROM removals) - ?", (KEPT,))


def removals(ledger: LedgerFile, kind: Kind) -> dict[str, KnownRemoval]:
    """Return when and by what entries of a kind were removed last, by key; only the latest removals are known."""
    query = "SELECT key, removed_ns, remover FROM removals WHERE kind = ? ORDER BY id"

    def ask(database: sqlite3.Connection) -> list[tuple[Any, ...]]:
        return database.execute(query, (kind,)).fetchall() if has(database, "removals") else []

    columns = rows.key, rows.count, rows.text
    return {row[0]: KnownRemoval(*row[1:]) for row in rows.whole(ledger.read(ask), columns, len(columns))}
