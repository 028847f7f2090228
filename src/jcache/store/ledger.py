"""What jcache has learnt about entries: digests, build seconds, origin, pins; and the runs it has watched.

It is never needed to serve an entry: an absent one reads as empty, and what can go wrong with it otherwise is a
`LedgerUnavailable` (see `jcache.store.ledger_connection`).
"""

import os
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache import clock
from jcache.entry import Snapshot
from jcache.errors import LedgerUnavailable
from jcache.layout import Kind
from jcache.store import ledger_removals, ledger_rows as rows
from jcache.store.economics import Economics, Spending
from jcache.store.ledger_connection import ECONOMICS_SCHEMA, LedgerFile, has
from jcache.store.ledger_keys import change_keys, of_keys

if TYPE_CHECKING:
    import sqlite3

_FEW_PAGES: Final = 256  # unused pages of the file that are not worth a rewrite: 1 MiB
_ROWS_AT_ONCE: Final = 20_000
_RUNS_IN_FULL: Final = 100
_SHORT_REPORT: Final = 2000  # characters; a shorter one is not worth shortening


UNVERIFIED: Final = -1


class Known(NamedTuple):
    """What the ledger knows of one entry; None where it does not know.

    Attributes:
        kind, key: which entry.
        digest: of the stored bytes (`jcache.formats.digest`).
        bytes: how many stored bytes the digest is of.
        seconds: what building it took.
        origin: how it came here: ``put``, ``run``, …
        run: the recorded run that stored it.
        jaxlib: the jaxlib version that built it.
        digest_ns: when the digest was taken, nanoseconds since 1970.
        verified_ns: when `jcache verify` last looked at it.
        checks: the version of the checks that bytes of this digest have passed in full; `UNVERIFIED` of what has come
            from elsewhere with its digest, and is to pass them before it is used.
        hits: how often recorded runs have hit it.
        pinned_ns: when it was pinned, nanoseconds since 1970.
    """

    kind: Kind
    key: str
    digest: str | None = None
    bytes: int | None = None
    seconds: float | None = None
    origin: str | None = None
    run: str | None = None
    jaxlib: str | None = None
    digest_ns: int | None = None
    verified_ns: int | None = None
    checks: int | None = None
    hits: int = 0
    pinned_ns: int | None = None


_COLUMNS: Final = ", ".join(Known._fields)
_KNOWN: Final = (
    rows.kind, rows.key, rows.text, rows.count, rows.seconds, rows.text, rows.text, rows.text,
    rows.count, rows.count, rows.number, rows.hits, rows.count,
)  # fmt: skip


def holds_from(taken_ns: int, copied_ns: int | None) -> int:
    """Return as of when a file's digest holds; in a copied root, not before the root was copied.

    Args:
        taken_ns: when it was taken.
        copied_ns: when the root was copied, as `Ledger.copied_ns` has it.
    """
    return taken_ns if copied_ns is None else max(taken_ns, copied_ns + 1)


class Ledger(LedgerFile):
    """The ledger at a path, and what is on record in it."""

    # -- entries

    def known(self, kind: Kind, keys: Iterable[str] | None = None) -> dict[str, Known]:
        """Return the records of the entries of a kind, of all of them or of some keys."""
        query = f"SELECT {_COLUMNS} FROM entries WHERE kind = ?"  # noqa: S608  names of our own
        found = self.read(lambda database: list(of_keys(database, query, kind, keys)))
        return {row[1]: Known(kind, *row[1:]) for row in rows.whole(found, _KNOWN, 2)}

    def facts(
        self, kind: Kind, names: tuple[str, ...], keys: Iterable[str] | None = None
    ) -> dict[str, tuple[Any, ...]]:
        """Return some columns of the records of a kind, by key; each record takes less memory than by `known`.

        Args:
            kind: the kind.
            names: names of the columns, fields of `Known`.
            keys: keys of the records; None for all.
        """
        query = f"SELECT key, {', '.join(names)} FROM entries WHERE kind = ?"  # noqa: S608  names of our own
        columns = [_KNOWN[Known._fields.index(name)] for name in names]

        def ask(database: "sqlite3.Connection") -> dict[str, tuple[Any, ...]]:
            found: dict[str, tuple[Any, ...]] = {}
            fitting: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # many rows say the same
            for key, *values in of_keys(database, query, kind, keys):
                if rows.key(key) is not None:
                    row = tuple(values)
                    if row not in fitting:
                        fitting[row] = tuple(rows.fitting(row, columns))
                    found[key] = fitting[row]
            return found

        return self.read(ask) or {}

    def pins(self) -> set[tuple[Kind, str]]:
        """Return the pinned entries, as pairs of kind and key."""
        query = "SELECT kind, key FROM entries WHERE pinned_ns IS NOT NULL"
        found = self.read(lambda database: database.execute(query).fetchall())
        return {(kind, key) for kind, key in rows.whole(found, (rows.kind, rows.key), 2)}

    def record(self, news: Iterable[Known], *, anew: bool = True) -> None:
        """Add what has been learnt; None leaves what was known, hits are added up.

        Args:
            news: what has been learnt.
            anew: whether to begin a damaged ledger anew.
        """
        updates = ", ".join(f"{c} = coalesce(excluded.{c}, {c})" for c in Known._fields[2:10])
        same = "excluded.digest IS NULL OR excluded.digest IS digest"  # other bytes have passed no checks yet
        statement = (
            f"INSERT INTO entries ({_COLUMNS}) VALUES ({', '.join('?' * len(Known._fields))})"  # noqa: S608
            f" ON CONFLICT (kind, key) DO UPDATE SET {updates},"
            f" checks = CASE WHEN {same} THEN coalesce(excluded.checks, checks) ELSE excluded.checks END,"
            " hits = hits + excluded.hits, pinned_ns = coalesce(excluded.pinned_ns, pinned_ns)"
        )
        now = clock.now_ns()
        lines = [known if known.digest is None or known.digest_ns else known._replace(digest_ns=now) for known in news]
        self.write(lambda database: database.executemany(statement, lines), anew=anew)

    def unpin(self, keys: Iterable[tuple[Kind, str]]) -> None:
        statement, names = "UPDATE entries SET pinned_ns = NULL WHERE kind = ? AND key = ?", list(keys)
        self.write(lambda database: database.executemany(statement, names))

    def forget(self, keys: Iterable[tuple[Kind, str]], remover: str) -> None:
        """Drop what is known of entries that are gone, and keep, for the latest 10,000, when and by what they went.

        Args:
            keys: kinds and keys of the entries, in the order in which they were removed.
            remover: what removed them, such as ``jcache prune``.
        """
        latest: deque[tuple[Kind, str]] = deque(maxlen=ledger_removals.KEPT)

        def drop(names: list[tuple[Kind, str]], is_last: bool, database: "sqlite3.Connection") -> None:  # noqa: FBT001
            change_keys("DELETE FROM entries", (), names, database)
            if is_last:
                ledger_removals.note(database, latest, remover)

        from jcache.store.entries import batches

        left = batches(keys, _ROWS_AT_ONCE)
        names = next(left, None)
        while names is not None and self.is_there():
            latest.extend(names)
            after = next(left, None)
            self.write(partial(drop, names, after is None))
            names = after

    def discredit(self, keys: Iterable[tuple[Kind, str]]) -> None:
        """Drop what is known of the bytes of entries; pins, hits and seconds belong to the key and stay."""
        bytes_of = "digest = NULL, bytes = NULL, digest_ns = NULL, checks = NULL"
        statement, names = f"UPDATE entries SET {bytes_of} WHERE kind = ? AND key = ?", list(keys)  # noqa: S608
        if names and self.is_there():
            self.write(lambda database: database.executemany(statement, names), anew=False)

    # -- what building and loading take

    def economics(self, kind: Kind) -> dict[str, Economics]:
        """Return the times of building and loading entries of a kind, by their names."""
        query = f"SELECT name, {', '.join(Economics._fields)} FROM economics WHERE kind = ? ORDER BY name"  # noqa: S608

        def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
            return database.execute(query, (kind,)).fetchall() if has(database, "economics") else []

        columns = rows.text, rows.count, rows.seconds, rows.count, rows.seconds, rows.seconds
        return {row[0]: Economics(*row[1:]) for row in rows.whole(self.read(ask), columns, len(columns))}

    def record_economics(self, news: Spending) -> None:
        """Add what building and loading has taken, and to each entry on record how often it was loaded."""
        sums = ", ".join(f"{column} = {column} + excluded.{column}" for column in Economics._fields)
        add_up = f"INSERT INTO economics VALUES (?,?,?,?,?,?,?) ON CONFLICT (kind, name) DO UPDATE SET {sums}"  # noqa: S608
        hit = "UPDATE entries SET hits = hits + ? WHERE kind = ? AND key = ?"

        def add(database: "sqlite3.Connection") -> None:
            database.execute(ECONOMICS_SCHEMA)
            database.executemany(add_up, [(*name, *economics) for name, economics in news.by_name.items()])
            database.executemany(hit, [(loads, *entry) for entry, loads in news.loads.items()])

        self.write(add)

    # -- runs

    def add_run(self, identity: str, started_ns: int, report: str) -> None:
        """Keep the report of a run, JSON text; those of long ago keep their counts and lose their lists."""
        shorten = (
            "UPDATE runs SET report = json_remove(report, '$.programs', '$.traces.calls', '$.graphs.calls')"
            " WHERE id IN (SELECT id FROM runs ORDER BY started_ns DESC, id DESC LIMIT -1 OFFSET ?)"
            " AND length(report) > ?"
        )

        def add(database: "sqlite3.Connection") -> None:
            database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (identity, started_ns, report))
            database.execute(shorten, (_RUNS_IN_FULL, _SHORT_REPORT))

        self.write(add)

    def runs(self) -> list[str]:
        """Return the reports of all runs, oldest first."""
        query = "SELECT report FROM runs ORDER BY started_ns, id"
        found = self.read(lambda database: database.execute(query).fetchall())
        return [text for (text,) in rows.whole(found, (rows.report,), 1)]

    def forget_runs(self) -> int:
        """Drop all runs, the hits they counted, and what building and loading took; return how many runs."""

        def clear(database: "sqlite3.Connection") -> int:
            database.execute("UPDATE entries SET hits = 0")
            if has(database, "economics"):
                database.execute("DELETE FROM economics")
            return database.execute("DELETE FROM runs").rowcount

        return self.write(clear) if self.is_there() else 0

    # -- snapshots of large directories

    def load_snapshot(self, directory: str) -> Snapshot | None:
        """Return the snapshot of a directory; None where there is none or the ledger cannot be read."""
        query = "SELECT * FROM snapshots WHERE directory = ?"
        try:
            row = self.read(lambda database: database.execute(query, (_text(directory),)).fetchone())
        except LedgerUnavailable:
            return None
        if row is None:
            return None
        columns = rows.number, rows.number, *(rows.blob,) * 6
        packed = rows.fitting(row[1:], columns)
        return None if None in packed else Snapshot.unpacked(*packed)

    def save_snapshot(self, directory: str, snapshot: Snapshot) -> None:
        """Keep a snapshot, if the ledger can be written: a snapshot only saves time."""
        row = (_text(directory), *snapshot.packed())
        statement = "INSERT OR REPLACE INTO snapshots VALUES (?,?,?,?,?,?,?,?,?)"
        try:
            self.write(lambda database: database.execute(statement, row))
        except LedgerUnavailable:
            return

    def drop_snapshot(self, directory: str) -> None:
        """Drop the snapshot of a directory that has become small, if the ledger can be written."""
        with suppress(LedgerUnavailable):
            self.write(
                lambda database: database.execute("DELETE FROM snapshots WHERE directory = ?", (_text(directory),))
            )

    def shrink(self, directories: Iterable[str], *, sure: bool = False) -> None:
        """Give the space of dropped records back if it is more than a quarter of the file; a failure is ignored.

        Args:
            directories: directories of the root; snapshots of others, as of a root that was copied, are dropped.
            sure: whether so many records were dropped that it is worth it in any case: those that stay may lie on
                pages that are nearly empty, which nobody counts.
        """
        if not self.is_there():
            return
        ours = [_text(directory) for directory in directories]
        others = f"DELETE FROM snapshots WHERE directory NOT IN ({', '.join('?' * len(ours))})"  # noqa: S608  marks

        def is_large(database: "sqlite3.Connection") -> bool:
            (free,), (pages,) = (
                database.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_count")
            )
            return bool(free > _FEW_PAGES and free > pages / 4)

        with suppress(LedgerUnavailable):
            self.write(lambda database: database.execute(others, ours))
            if sure or self.read(is_large):
                self.compact()


def _text(path: str) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")  # SQLite refuses lone surrogates
