"""What jcache has learnt about entries: digests, build seconds, origin, pins; and the runs it has watched.

The ledger is an SQLite file in ``.jcache/``. It is never needed to serve an entry: an absent one reads as empty, and
what can go wrong with it otherwise is a `LedgerUnavailable` (see `jcache.database`).
"""

import os
import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from jcache.entry import Columns, Snapshot
from jcache.errors import LedgerUnavailable
from jcache.layout import Kind

if TYPE_CHECKING:
    import sqlite3

SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE entries (
    kind TEXT NOT NULL, key TEXT NOT NULL,
    digest TEXT, bytes INTEGER, seconds REAL, origin TEXT, run TEXT, jaxlib TEXT,
    hits INTEGER NOT NULL DEFAULT 0, pinned_ns INTEGER, seen_ns INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE INDEX pinned ON entries (pinned_ns) WHERE pinned_ns IS NOT NULL;
CREATE TABLE runs (id TEXT PRIMARY KEY, started_ns INTEGER NOT NULL, report TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE snapshots (
    directory TEXT PRIMARY KEY, changed_ns INTEGER NOT NULL, read_ns INTEGER NOT NULL,
    keys BLOB NOT NULL, sizes BLOB NOT NULL, created BLOB NOT NULL, recency BLOB NOT NULL, sidecars BLOB NOT NULL,
    others BLOB NOT NULL
);
"""


class Known(NamedTuple):
    """What the ledger knows of one entry; None where it does not know.

    Attributes:
        kind, key: which entry.
        digest: SHA-256 of the stored bytes, in hexadecimal.
        bytes: how many stored bytes the digest is of.
        seconds: what building it took.
        origin: how it came here: ``put``, ``run``, …
        run: the recorded run that stored it.
        jaxlib: the jaxlib version that built it.
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
    hits: int = 0
    pinned_ns: int | None = None


_COLUMNS: Final = ", ".join(Known._fields)


class Ledger:
    """The ledger at a path; opened at the first use, and only written by methods that say so.

    Args:
        path: the SQLite file.
        busy_timeout: seconds to wait for another writer.
    """

    def __init__(self, path: Path, *, busy_timeout: float = 5.0) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._database: sqlite3.Connection | None = None
        self._writable = False

    def close(self) -> None:
        if self._database:
            self._database.close()
        self._database = None
        self._writable = False

    # -- entries

    def known(self, kind: Kind, keys: Iterable[str] | None = None) -> dict[str, Known]:
        """What is known of the entries of a kind, of all of them or of some keys."""
        with self._reading() as database:
            if database is None:
                return {}
            query = f"SELECT {_COLUMNS} FROM entries WHERE kind = ?"  # noqa: S608  names of our own
            if keys is None:
                rows = database.execute(query, (kind,)).fetchall()
            else:
                one = query + " AND key = ?"
                rows = [row for key in keys for row in database.execute(one, (kind, key))]
        return {row[1]: Known(kind, *row[1:]) for row in rows}

    def pins(self) -> set[tuple[Kind, str]]:
        """The pinned entries, as pairs of kind and key."""
        with self._reading() as database:
            if database is None:
                return set()
            rows = database.execute("SELECT kind, key FROM entries WHERE pinned_ns IS NOT NULL").fetchall()
        return {(Kind(kind), key) for kind, key in rows}

    def record(self, news: Iterable[Known]) -> None:
        """Adds what has been learnt; None leaves what was known, hits are added up."""
        updates = ", ".join(f"{c} = coalesce(excluded.{c}, {c})" for c in Known._fields[2:8])
        statement = (
            f"INSERT INTO entries ({_COLUMNS}, seen_ns) VALUES (?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608
            f" ON CONFLICT (kind, key) DO UPDATE SET {updates}, hits = hits + excluded.hits,"
            " pinned_ns = coalesce(excluded.pinned_ns, pinned_ns)"
        )
        now = time.time_ns()
        with self._writing() as database:
            database.executemany(statement, ((*known, now) for known in news))

    def unpin(self, keys: Iterable[tuple[Kind, str]]) -> None:
        with self._writing() as database:
            database.executemany("UPDATE entries SET pinned_ns = NULL WHERE kind = ? AND key = ?", keys)

    def forget(self, keys: Iterable[tuple[Kind, str]]) -> None:
        """Drops what is known of entries that are gone."""
        if self._path.exists():
            with self._writing() as database:
                database.executemany("DELETE FROM entries WHERE kind = ? AND key = ?", keys)

    # -- runs

    def add_run(self, identity: str, started_ns: int, report: str) -> None:
        """Keeps the report of a run, JSON text."""
        with self._writing() as database:
            database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (identity, started_ns, report))

    def runs(self) -> list[str]:
        """The reports of all runs, oldest first."""
        with self._reading() as database:
            if database is None:
                return []
            return [row[0] for row in database.execute("SELECT report FROM runs ORDER BY started_ns, id")]

    def forget_runs(self) -> int:
        """Drops all runs and the hits they counted; returns how many runs."""
        if not self._path.exists():
            return 0
        with self._writing() as database:
            database.execute("UPDATE entries SET hits = 0")
            return database.execute("DELETE FROM runs").rowcount

    # -- snapshots of large directories

    def load_snapshot(self, directory: str) -> Snapshot | None:
        """The snapshot of a directory; None where there is none or the ledger cannot be read."""
        try:
            with self._reading() as database:
                if database is None:
                    return None
                query = "SELECT * FROM snapshots WHERE directory = ?"
                row = database.execute(query, (_text(directory),)).fetchone()
        except LedgerUnavailable:
            return None
        if row is None:
            return None
        _, changed_ns, read_ns, keys, *numbers, others = row
        columns = Columns(_split(keys), *(_numbers(column) for column in numbers))
        if len({len(column) for column in columns}) != 1:
            return None
        return Snapshot(changed_ns, read_ns, columns, _split(others))

    def save_snapshot(self, directory: str, snapshot: Snapshot) -> None:
        """Keeps a snapshot, or does not: it only saves time, so a ledger that cannot be written is no failure."""
        keys, *numbers = snapshot.columns
        blobs = [_join(keys), *(column.tobytes() for column in numbers), _join(snapshot.others)]
        row = (_text(directory), snapshot.changed_ns, snapshot.read_ns, *blobs)
        try:
            with self._writing() as database:
                database.execute("INSERT OR REPLACE INTO snapshots VALUES (?,?,?,?,?,?,?,?,?)", row)
        except LedgerUnavailable:
            return

    # -- opening; SQLite is imported only where there is, or will be, a ledger

    @contextmanager
    def _reading(self) -> "Iterator[sqlite3.Connection | None]":
        if self._database is None and not self._path.exists():
            yield None
            return
        from jcache import database

        with database.failures(self._path, "read", self.close):
            if self._database is None:
                self._database = database.open_for_reading(self._path, self._busy_timeout, SCHEMA_VERSION)
            yield self._database

    @contextmanager
    def _writing(self) -> "Iterator[sqlite3.Connection]":
        from jcache import database

        with database.failures(self._path, "write", self.close):
            if not self._writable:
                self.close()
                self._database = database.open_for_writing(self._path, self._busy_timeout, SCHEMA_VERSION, _SCHEMA)
                self._writable = True
            assert self._database is not None  # noqa: S101  writable means open
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database


def _text(path: str) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")  # SQLite refuses lone surrogates


def _join(names: list[str]) -> bytes:
    return b"\0".join(map(os.fsencode, names))


def _split(names: bytes) -> list[str]:
    return os.fsdecode(names).split("\0") if names else []


def _numbers(column: bytes) -> "array[int]":
    numbers = array("q")
    if len(column) % numbers.itemsize == 0:
        numbers.frombytes(column)
    return numbers
