"""The tables of a ledger that tell what executables were made by and for, by the digests of their stored bytes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from jcache.layout import Kind
from jcache.store import ledger_rows as rows
from jcache.store.ledger_connection import CONTENTS_SCHEMA, LedgerFile, has

if TYPE_CHECKING:
    import sqlite3


class Content(NamedTuple):
    """What stored bytes tell of themselves once they are decompressed.

    Attributes:
        digest: of the stored bytes (`jcache.formats.digest`).
        codec: how they are compressed.
        seconds: of compilation, as JAX writes them.
        maker: what they were made by and for, as text; many share one.
    """

    digest: str
    codec: str
    seconds: int
    maker: str


def contents(ledger: LedgerFile) -> dict[str, Content]:
    """Return the records of the contents of stored bytes, by their digests."""
    query = "SELECT digest, codec, seconds, makers.maker FROM contents JOIN makers ON makers.id = contents.maker"

    def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
        return database.execute(query).fetchall() if has(database, "contents") else []

    columns = rows.text, rows.text, rows.count, rows.report
    return {row[0]: Content(*row) for row in rows.whole(ledger.read(ask), columns, 4)}


def makers(ledger: LedgerFile) -> dict[int, str]:
    """Return the makers of executables, as texts, by their numbers in the ledger."""

    def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
        return database.execute("SELECT id, maker FROM makers").fetchall() if has(database, "makers") else []

    return dict(rows.whole(ledger.read(ask), (rows.number, rows.report), 2))


def made_by(ledger: LedgerFile, makers: Iterable[int]) -> list[tuple[str, str | None, str | None, int]]:
    """Return executables of some makers, as key, jaxlib on record, origin and the maker's number."""
    query = (
        "SELECT key, jaxlib, origin, maker FROM contents JOIN entries USING (digest)"
        " WHERE kind = ? AND contents.maker = ?"
    )

    def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
        return [row for maker in makers for row in database.execute(query, (Kind.EXECUTABLES, maker))]

    columns = rows.key, rows.text, rows.text, rows.number
    return [tuple(row) for row in rows.whole(ledger.read(ask), columns, 1)]


def jaxlibs_of(ledger: LedgerFile, origins: Iterable[str]) -> set[str]:
    """Return the versions of jaxlib on record for the executables that came in some ways."""
    query = "SELECT DISTINCT jaxlib FROM entries WHERE kind = ? AND origin = ? AND jaxlib IS NOT NULL"
    wanted = list(origins)

    def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
        return [row for origin in wanted for row in database.execute(query, (Kind.EXECUTABLES, origin))]

    return {jaxlib for (jaxlib,) in rows.whole(ledger.read(ask), (rows.text,), 1)}


def looked_into(ledger: LedgerFile) -> set[str]:
    """Return keys of the executables whose insides are known."""
    query = "SELECT key FROM entries JOIN contents USING (digest) WHERE kind = ?"
    found = ledger.read(lambda database: database.execute(query, (Kind.EXECUTABLES,)).fetchall())
    return {key for (key,) in rows.whole(found, (rows.key,), 1)}


def record_contents(ledger: LedgerFile, news: Iterable[Content]) -> None:
    """Add what the insides of stored bytes have told, and drop that of bytes which no entry has any more."""
    known = "SELECT digest FROM entries WHERE digest IS NOT NULL"
    contents = list(news)

    def add(database: "sqlite3.Connection") -> None:
        for statement in CONTENTS_SCHEMA:
            database.execute(statement)
        database.executemany("INSERT OR IGNORE INTO makers (maker) VALUES (?)", {(row.maker,) for row in contents})
        database.executemany("INSERT OR REPLACE INTO contents SELECT ?, ?, ?, id FROM makers WHERE maker = ?", contents)
        database.execute(f"DELETE FROM contents WHERE digest NOT IN ({known})")  # noqa: S608  text of our own
        database.execute("DELETE FROM makers WHERE id NOT IN (SELECT maker FROM contents)")

    ledger.write(add, anew=False)
