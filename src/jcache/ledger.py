"""What jcache has learnt about entries: digests, build seconds, origin, pins; and the runs it has watched.

The ledger is an SQLite file in ``.jcache/``. It is never needed to serve an entry and is rebuilt when lost:

- absent: reading gives nothing, writing makes it;
- damaged: set aside as ``ledger.sqlite3.damaged-<time>`` by the next writer, and begun anew;
- busy for over ``busy_timeout`` seconds, read-only, on a full disk, or made by a newer jcache: `LedgerUnavailable`;
- on a file system without POSIX locks: SQLite's lock files (``unix-dotfile``) are used instead.

A rollback journal and not a write-ahead log: the latter needs shared memory, which network file systems lack.
"""

import os
import sqlite3
import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from jcache.entry import Columns, Snapshot
from jcache.errors import LedgerUnavailable
from jcache.layout import Kind

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

    # -- opening

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        with self._errors("read"):
            if self._database is None and self._path.exists():
                self._database = self._open("ro")
            yield self._database

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._errors("write"):
            if not self._writable:
                self.close()
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._database = self._open_writable()
                self._writable = True
            assert self._database is not None
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database

    def _open_writable(self) -> sqlite3.Connection:
        try:
            return self._open("rwc")
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
        os.replace(self._path, self._path.with_name(f"{self._path.name}.damaged-{time.time_ns()}"))
        self._path.with_name(self._path.name + "-journal").unlink(missing_ok=True)
        return self._open("rwc")

    def _open(self, mode: str) -> sqlite3.Connection:
        try:
            return self._connect(mode, "")
        except sqlite3.OperationalError as error:
            if "locking protocol" not in str(error) and "disk I/O error" not in str(error):
                raise
            return self._connect(mode, "&vfs=unix-dotfile")

    def _connect(self, mode: str, more: str) -> sqlite3.Connection:
        uri = f"{self._path.as_uri()}?mode={mode}{more}"
        database = sqlite3.connect(
            uri, uri=True, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA_VERSION:
                raise LedgerUnavailable(f"{self._path} was made by a newer jcache: upgrade jcache to read it.")
            if mode != "ro":
                database.execute("PRAGMA synchronous = NORMAL")
                if version == 0:
                    _create(database)
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            damaged = isinstance(error, sqlite3.Error) and _is_damage(error)
            self.close()
            self._writable = False
            reason = "it is damaged; the next `jcache run` or `jcache pin` begins it anew" if damaged else str(error)
            raise LedgerUnavailable(f"Cannot {verb} the ledger {self._path}: {reason}.") from error


def _create(database: sqlite3.Connection) -> None:
    database.execute("BEGIN EXCLUSIVE")
    if database.execute("PRAGMA user_version").fetchone()[0] == 0:  # nobody else made it while we waited
        for statement in _SCHEMA.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    database.execute("COMMIT")


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or (
        "no such table" in str(error) or "no such column" in str(error)
    )


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
