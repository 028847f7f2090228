"""What jcache has learnt about entries: digests, build seconds, origin, pins; and the runs it has watched.

The ledger is an SQLite file in ``.jcache/``. It is never needed to serve an entry: an absent one reads as empty, and
what can go wrong with it otherwise is a `LedgerUnavailable` (see `jcache.database`).
"""

import os
import time
from array import array
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from jcache import files
from jcache.economics import Economics, Spending
from jcache.entry import Columns, Snapshot
from jcache.errors import LedgerUnavailable
from jcache.files import LATEST_NS
from jcache.layout import Kind

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

SCHEMA_VERSION: Final = 3
_RUNS_IN_FULL: Final = 100
_SHORT_REPORT: Final = 2000  # characters; a shorter one is not worth shortening
_SCHEMA: Final = """
CREATE TABLE entries (
    kind TEXT NOT NULL, key TEXT NOT NULL,
    digest TEXT, bytes INTEGER, seconds REAL, origin TEXT, run TEXT, jaxlib TEXT,
    digest_ns INTEGER, verified_ns INTEGER, checks INTEGER,
    hits INTEGER NOT NULL DEFAULT 0, pinned_ns INTEGER,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;
CREATE INDEX pinned ON entries (pinned_ns) WHERE pinned_ns IS NOT NULL;
CREATE TABLE home (inode INTEGER NOT NULL, born_ns INTEGER);
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
        digest: of the stored bytes (`jcache.digests`).
        bytes: how many stored bytes the digest is of.
        seconds: what building it took.
        origin: how it came here: ``put``, ``run``, …
        run: the recorded run that stored it.
        jaxlib: the jaxlib version that built it.
        digest_ns: when the digest was taken, nanoseconds since 1970.
        verified_ns: when `jcache verify` last looked at it.
        checks: the version of the checks that bytes of this digest have passed in full.
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
_CONTENTS_SCHEMA: Final = (  # later than the rest: a ledger of before is given them when there is something to keep
    "CREATE TABLE IF NOT EXISTS makers (id INTEGER PRIMARY KEY, maker TEXT NOT NULL UNIQUE)",
    "CREATE TABLE IF NOT EXISTS contents (digest TEXT PRIMARY KEY, codec TEXT NOT NULL, seconds INTEGER NOT NULL,"
    " maker INTEGER NOT NULL) WITHOUT ROWID",
)

_ECONOMICS_SCHEMA: Final = (  # later still
    "CREATE TABLE IF NOT EXISTS economics (kind TEXT NOT NULL, name TEXT NOT NULL, builds INTEGER NOT NULL,"
    " build_seconds REAL NOT NULL, loads INTEGER NOT NULL, load_seconds REAL NOT NULL, spared_seconds REAL NOT NULL,"
    " PRIMARY KEY (kind, name)) WITHOUT ROWID"
)


class Content(NamedTuple):
    """What stored bytes tell of themselves once they are decompressed.

    Attributes:
        digest: of the stored bytes (`jcache.digests`).
        codec: how they are compressed.
        seconds: of compilation, as JAX writes them.
        maker: what they were made by and for, as text; many share one.
    """

    digest: str
    codec: str
    seconds: int
    maker: str


def holds_from(taken_ns: int, copied_ns: int | None) -> int:
    """As of when a digest holds that was taken of a file: in a copied root it is of the copy's file from now on.

    Args:
        taken_ns: when it was taken.
        copied_ns: when the root was copied, as `Ledger.copied_ns` has it.
    """
    return taken_ns if copied_ns is None else max(taken_ns, copied_ns + 1)


class Ledger:
    """The ledger at a path; opened at the first use, and only written by methods that say so.

    Args:
        path: the SQLite file.
        busy_timeout: seconds to wait for another writer.
        outside: whether it lies in no root, so that the directories above it are made with it.
    """

    def __init__(self, path: Path, *, busy_timeout: float = 5.0, outside: bool = False) -> None:
        self._path = path
        self._outside = outside
        self._busy_timeout = busy_timeout
        self._database: sqlite3.Connection | None = None
        self._writable = False
        self._busy = False

    def close(self) -> None:
        if self._database:
            self._database.close()
        self._database = None
        self._writable = False

    def copied_ns(self) -> int | None:
        """When the root was copied, with the ledger in it; None if it is where the ledger was made, or was moved whole.

        Copied is a root whose directory is another one than the ledger remembers; the ledger was born by copying then.
        """
        row = self._read(lambda database: database.execute("SELECT inode, born_ns FROM home").fetchone())
        if row is None or tuple(row) == self._place():
            return None
        return files.born_ns(self._path) or LATEST_NS

    def _place(self) -> tuple[int, int | None]:
        """By what the root's directory is known."""
        directory = self._path.parent.parent
        return os.stat(directory).st_ino & LATEST_NS, files.born_ns(directory)

    # -- entries

    def known(self, kind: Kind, keys: Iterable[str] | None = None) -> dict[str, Known]:
        """What is known of the entries of a kind, of all of them or of some keys."""
        query = f"SELECT {_COLUMNS} FROM entries WHERE kind = ?"  # noqa: S608  names of our own
        wanted = None if keys is None else list(keys)

        def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
            if wanted is None:
                return database.execute(query, (kind,)).fetchall()
            return [row for key in wanted for row in database.execute(query + " AND key = ?", (kind, key))]

        return {row[1]: Known(kind, *row[1:]) for row in self._read(ask) or ()}

    def pins(self) -> set[tuple[Kind, str]]:
        """The pinned entries, as pairs of kind and key."""
        query = "SELECT kind, key FROM entries WHERE pinned_ns IS NOT NULL"
        rows = self._read(lambda database: database.execute(query).fetchall())
        return {(Kind(kind), key) for kind, key in rows or ()}

    def record(self, news: Iterable[Known], *, anew: bool = True) -> None:
        """Adds what has been learnt; None leaves what was known, hits are added up.

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
        now = time.time_ns()
        rows = [known if known.digest is None or known.digest_ns else known._replace(digest_ns=now) for known in news]
        self._write(lambda database: database.executemany(statement, rows), anew=anew)

    def unpin(self, keys: Iterable[tuple[Kind, str]]) -> None:
        statement, rows = "UPDATE entries SET pinned_ns = NULL WHERE kind = ? AND key = ?", list(keys)
        self._write(lambda database: database.executemany(statement, rows))

    def forget(self, keys: Iterable[tuple[Kind, str]]) -> None:
        """Drops what is known of entries that are gone."""
        statement, rows = "DELETE FROM entries WHERE kind = ? AND key = ?", list(keys)
        if rows and os.path.exists(self._path):
            self._write(lambda database: database.executemany(statement, rows))

    def discredit(self, keys: Iterable[tuple[Kind, str]]) -> None:
        """Drops what is known of the bytes of entries; pins, hits and seconds belong to the key and stay."""
        bytes_of = "digest = NULL, bytes = NULL, digest_ns = NULL, checks = NULL"
        statement, rows = f"UPDATE entries SET {bytes_of} WHERE kind = ? AND key = ?", list(keys)  # noqa: S608
        if rows and os.path.exists(self._path):
            self._write(lambda database: database.executemany(statement, rows), anew=False)

    # -- what is inside of entries, by their digests

    def contents(self) -> dict[str, Content]:
        """What is known of the insides of stored bytes, by their digest."""
        query = "SELECT digest, codec, seconds, makers.maker FROM contents JOIN makers ON makers.id = contents.maker"

        def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
            return database.execute(query).fetchall() if _has(database, "contents") else []

        return {row[0]: Content(*row) for row in self._read(ask) or ()}

    def makers(self) -> dict[int, str]:
        """By and for what the insides say that they were made: texts, by their numbers here."""

        def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
            return database.execute("SELECT id, maker FROM makers").fetchall() if _has(database, "makers") else []

        return dict(self._read(ask) or ())

    def made_by(self, makers: Iterable[int]) -> list[tuple[str, str | None, str | None, int]]:
        """Executables of some makers, as key, jaxlib on record, origin and the maker's number."""
        query = (
            "SELECT key, jaxlib, origin, maker FROM contents JOIN entries USING (digest)"
            " WHERE kind = ? AND contents.maker = ?"
        )

        def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
            return [row for maker in makers for row in database.execute(query, (Kind.EXECUTABLES, maker))]

        return self._read(ask) or []

    def looked_into(self) -> set[str]:
        """Keys of the executables whose insides are known."""
        query = "SELECT key FROM entries JOIN contents USING (digest) WHERE kind = ?"
        rows = self._read(lambda database: database.execute(query, (Kind.EXECUTABLES,)).fetchall())
        return {key for (key,) in rows or ()}

    def record_contents(self, news: Iterable[Content]) -> None:
        """Adds what the insides of stored bytes have told, and drops that of bytes which no entry has any more."""
        known = "SELECT digest FROM entries WHERE digest IS NOT NULL"
        rows = list(news)

        def add(database: "sqlite3.Connection") -> None:
            for statement in _CONTENTS_SCHEMA:
                database.execute(statement)
            database.executemany("INSERT OR IGNORE INTO makers (maker) VALUES (?)", {(row.maker,) for row in rows})
            database.executemany("INSERT OR REPLACE INTO contents SELECT ?, ?, ?, id FROM makers WHERE maker = ?", rows)
            database.execute(f"DELETE FROM contents WHERE digest NOT IN ({known})")  # noqa: S608  text of our own
            database.execute("DELETE FROM makers WHERE id NOT IN (SELECT maker FROM contents)")

        self._write(add, anew=False)

    # -- what building and loading take

    def economics(self, kind: Kind) -> dict[str, Economics]:
        """What building and loading the entries of a kind has taken, by their names."""
        query = f"SELECT name, {', '.join(Economics._fields)} FROM economics WHERE kind = ? ORDER BY name"  # noqa: S608

        def ask(database: "sqlite3.Connection") -> list[tuple[Any, ...]]:
            return database.execute(query, (kind,)).fetchall() if _has(database, "economics") else []

        return {row[0]: Economics(*row[1:]) for row in self._read(ask) or ()}

    def record_economics(self, news: Spending) -> None:
        """Adds what building and loading has taken, and to each entry on record how often it was loaded."""
        sums = ", ".join(f"{column} = {column} + excluded.{column}" for column in Economics._fields)
        add_up = f"INSERT INTO economics VALUES (?,?,?,?,?,?,?) ON CONFLICT (kind, name) DO UPDATE SET {sums}"  # noqa: S608
        hit = "UPDATE entries SET hits = hits + ? WHERE kind = ? AND key = ?"

        def add(database: "sqlite3.Connection") -> None:
            database.execute(_ECONOMICS_SCHEMA)
            database.executemany(add_up, [(*name, *economics) for name, economics in news.by_name.items()])
            database.executemany(hit, [(loads, *entry) for entry, loads in news.loads.items()])

        self._write(add)

    # -- runs

    def add_run(self, identity: str, started_ns: int, report: str) -> None:
        """Keeps the report of a run, JSON text; those of long ago keep their counts and lose their lists."""
        shorten = (
            "UPDATE runs SET report = json_remove(report, '$.programs', '$.traces.calls') WHERE id IN"
            " (SELECT id FROM runs ORDER BY started_ns DESC, id DESC LIMIT -1 OFFSET ?) AND length(report) > ?"
        )

        def add(database: "sqlite3.Connection") -> None:
            database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (identity, started_ns, report))
            database.execute(shorten, (_RUNS_IN_FULL, _SHORT_REPORT))

        self._write(add)

    def runs(self) -> list[str]:
        """The reports of all runs, oldest first."""
        query = "SELECT report FROM runs ORDER BY started_ns, id"
        return [row[0] for row in self._read(lambda database: database.execute(query).fetchall()) or ()]

    def forget_runs(self) -> int:
        """Drops all runs, the hits they counted, and what building and loading took; returns how many runs."""

        def clear(database: "sqlite3.Connection") -> int:
            database.execute("UPDATE entries SET hits = 0")
            if _has(database, "economics"):
                database.execute("DELETE FROM economics")
            return database.execute("DELETE FROM runs").rowcount

        return self._write(clear) if os.path.exists(self._path) else 0

    # -- snapshots of large directories

    def load_snapshot(self, directory: str) -> Snapshot | None:
        """The snapshot of a directory; None where there is none or the ledger cannot be read."""
        query = "SELECT * FROM snapshots WHERE directory = ?"
        try:
            row = self._read(lambda database: database.execute(query, (_text(directory),)).fetchone())
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
        statement = "INSERT OR REPLACE INTO snapshots VALUES (?,?,?,?,?,?,?,?,?)"
        try:
            self._write(lambda database: database.execute(statement, row))
        except LedgerUnavailable:
            return

    # -- opening; SQLite is imported only where there is, or will be, a ledger

    def begin_anew(self) -> None:
        """Sets a damaged ledger aside for an empty one; one that is whole stays."""
        self._write(_check)

    def check(self) -> None:
        """Reads all of it.

        Raises:
            LedgerUnavailable: it cannot be read, or is damaged somewhere.
        """
        self._read(_check)

    def _read(self, action: "Callable[[sqlite3.Connection], T]") -> T | None:
        """What an action reads from the ledger, None if there is none; of one that is busy, what is on the disk."""
        if self._database is None and not os.path.exists(self._path):
            return None
        from jcache import database

        with database.failures(self._path, "read", self.close):
            try:
                if self._database is None:
                    timeout = 0 if self._busy else self._busy_timeout  # once is enough to wait
                    self._database = database.open_for_reading(self._path, timeout, SCHEMA_VERSION)
                return action(self._database)
            except database.Error as error:
                if not database.is_busy(error):
                    raise
            self.close()
            self._busy = True
            with closing(database.open_while_busy(self._path, SCHEMA_VERSION)) as busy:
                return action(busy)

    def _write(self, action: "Callable[[sqlite3.Connection], T]", *, anew: bool = True) -> T:
        """Changes the ledger by an action in one transaction, in a new ledger if this one is damaged, or not at all."""
        from jcache import database

        with database.failures(self._path, "write", self.close):
            try:
                return self._transact(action)
            except database.Error as error:
                if not (anew and database.is_damaged(self._path, error)):
                    raise
            self.close()
            database.set_aside(self._path)
            return self._transact(action)

    def _transact(self, action: "Callable[[sqlite3.Connection], T]") -> T:
        from jcache import database

        if self._database is None or not self._writable:
            self.close()
            if self._outside:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            inode, born_ns = self._place()
            home = f"INSERT INTO home VALUES ({inode}, {'NULL' if born_ns is None else born_ns});"  # noqa: S608  numbers
            schema = _SCHEMA + home
            self._database = database.open_for_writing(self._path, self._busy_timeout, SCHEMA_VERSION, schema)
            self._writable = True
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            return action(self._database)


def _has(database: "sqlite3.Connection", table: str) -> bool:
    """Whether the ledger has a table that those of before had not."""
    return database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None


def _check(connection: "sqlite3.Connection") -> None:
    """Raises where a page or an index is damaged, even one that no command would meet today."""
    from jcache.database import NoLedgerError

    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise NoLedgerError(verdict)


def _text(path: str) -> str:
    return os.fsencode(path).decode(errors="backslashreplace")  # SQLite refuses lone surrogates


def _join(names: list[str]) -> bytes:
    return os.fsencode("\0".join(names))


def _split(names: bytes) -> list[str]:
    return os.fsdecode(names).split("\0") if names else []


def _numbers(column: bytes) -> "array[int]":
    numbers = array("q")
    if len(column) % numbers.itemsize == 0:
        numbers.frombytes(column)
    return numbers
