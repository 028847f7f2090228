"""The ledger's file: an SQLite database in ``.jcache/``, opened at the first use, made by the first who writes.

What can go wrong with it is a `LedgerUnavailable` (see `jcache.store.sqlite`); SQLite is imported only where there is,
or will be, a ledger.
"""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from jcache.errors import LedgerUnavailable
from jcache.layout import PINS_NAME
from jcache.store import birth_time
from jcache.store.directories import open_below
from jcache.store.sidecar import LATEST_NS

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

SCHEMA_VERSION: Final = 3
_ATTEMPTS: Final = 3
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
CONTENTS_SCHEMA: Final = (  # added to an older ledger with the first data for these tables
    "CREATE TABLE IF NOT EXISTS makers (id INTEGER PRIMARY KEY, maker TEXT NOT NULL UNIQUE)",
    "CREATE TABLE IF NOT EXISTS contents (digest TEXT PRIMARY KEY, codec TEXT NOT NULL, seconds INTEGER NOT NULL,"
    " maker INTEGER NOT NULL) WITHOUT ROWID",
)
ECONOMICS_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS economics (kind TEXT NOT NULL, name TEXT NOT NULL, builds INTEGER NOT NULL,"
    " build_seconds REAL NOT NULL, loads INTEGER NOT NULL, load_seconds REAL NOT NULL, spared_seconds REAL NOT NULL,"
    " PRIMARY KEY (kind, name)) WITHOUT ROWID"
)

REMOVALS_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS removals (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL,"
    " removed_ns INTEGER NOT NULL, remover TEXT NOT NULL)"
)


class Connection:
    """A connection to a ledger's file, once it is open.

    Attributes:
        database: SQLite's connection; None before it is opened.
        writable: whether it was opened for writing.
    """

    __slots__ = ("database", "writable")

    def __init__(self) -> None:
        self.database: sqlite3.Connection | None = None
        self.writable = False

    def close(self) -> None:
        if self.database:
            self.database.close()
        self.database = None
        self.writable = False


class Connections(Protocol):
    """Tells which connection a ledger uses: its only one, or one for each thread."""

    def current(self) -> Connection:
        """Return the connection to use now."""

    def after_use(self) -> None:
        """Close the connection unless it is to stay open."""


class OneConnection:
    """The connection of a ledger that one thread uses; it stays open."""

    def __init__(self) -> None:
        self._connection = Connection()

    def current(self) -> Connection:
        return self._connection

    def after_use(self) -> None:
        """Leave it open."""


class LedgerFile:
    """The file at a path; only written by methods that say so.

    Args:
        path: the SQLite file.
        busy_timeout: seconds to wait for another writer.
        outside: whether it lies in no root, so that the directories above it are made with it.
        connections: its connections; None for a single one.
    """

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout: float = 5.0,
        outside: bool = False,
        connections: Connections | None = None,
    ) -> None:
        self._path = path
        self._outside = outside
        self._busy_timeout = busy_timeout
        self._connections = connections or OneConnection()
        self._busy = False

    def close(self) -> None:
        """Close the connection of this thread."""
        self._connections.current().close()

    def copied_ns(self) -> int | None:
        """Return when the root was copied with its ledger; None if it was not copied, or was moved as a whole.

        Copied is a root whose directory is another one than the ledger remembers; the ledger was born by copying then.
        """
        row = self.read(lambda database: database.execute("SELECT inode, born_ns FROM home").fetchone())
        if row is None or tuple(row) == self._place():
            return None
        return birth_time.born_ns(self._path) or LATEST_NS

    def _place(self) -> tuple[int, int | None]:
        """Return the inode and time of birth by which the root's directory is recognised."""
        directory = self._path.parent.parent
        return os.stat(directory).st_ino & LATEST_NS, birth_time.born_ns(directory)

    def is_there(self) -> bool:
        """Return whether there is a file; one behind a link is none."""
        with suppress(OSError):
            return not os.path.islink(self._path.parent) and os.path.exists(self._path)
        return False

    def _begin_pins(self) -> None:
        """Make the directory of pins with a ledger: with one that has held no pins, none can be lost."""
        with suppress(OSError):
            state = open_below(self._path.parent.parent, self._path.parent.name, make=True)
            try:
                if not any(name.startswith(self._path.name) for name in os.listdir(state)):
                    os.mkdir(PINS_NAME, dir_fd=state)
            finally:
                os.close(state)

    def begin_anew(self) -> None:
        """Set a damaged ledger aside for an empty one; one that is whole stays."""
        self.write(_check)

    def check(self) -> None:
        """Read all of it.

        Raises:
            LedgerUnavailable: it cannot be read, or is damaged somewhere.
        """
        self.read(_check)

    def read(self, action: "Callable[[sqlite3.Connection], T]") -> T | None:
        """Return the result of an action that reads, None without a ledger; read a busy ledger as it is on the disk."""
        connection = self._connections.current()
        if connection.database is None and not self.is_there():
            return None
        from jcache.store import sqlite, sqlite_connection

        try:
            with sqlite.failures(self._path, "read", self.close):
                try:
                    if connection.database is None:
                        timeout = 0 if self._busy else self._busy_timeout  # once is enough to wait
                        connection.database = sqlite.open_for_reading(self._path, timeout, SCHEMA_VERSION)
                    return action(connection.database)
                except sqlite_connection.Error as error:
                    if not sqlite_connection.is_busy(error):
                        raise
                self.close()
                self._busy = True
                with closing(sqlite.open_while_busy(self._path, SCHEMA_VERSION)) as busy:
                    return action(busy)
        finally:
            self._connections.after_use()

    def write(self, action: "Callable[[sqlite3.Connection], T]", *, anew: bool = True) -> T:
        """Change the ledger by an action in one transaction, in a new ledger if this one is damaged, or not at all."""
        from jcache.store import sqlite, sqlite_connection

        try:
            with sqlite.failures(self._path, "write", self.close):
                try:
                    return self._transact(action)
                except sqlite_connection.Error as error:
                    if not (anew and sqlite_connection.is_damaged(self._path, error)):
                        raise
                self.close()
                sqlite.set_aside(self._path)
                return self._transact(action)
        finally:
            self._connections.after_use()

    def compact(self) -> None:
        """Rewrite the file without unused pages, in place.

        Raises:
            LedgerUnavailable: another process uses it, or it cannot be written.
        """
        from jcache.store import sqlite, sqlite_connection

        try:
            with sqlite.failures(self._path, "write", self.close):
                database = self._for_writing()
                if sqlite_connection.is_current(database, self._path, alone=True):
                    database.execute("VACUUM")
        finally:
            self._connections.after_use()

    def _transact(self, action: "Callable[[sqlite3.Connection], T]") -> T:
        """Change the file at the path: not one that was moved away, nor one that has got other names since."""
        from jcache.store import sqlite_connection

        for attempt in range(_ATTEMPTS):
            database = self._for_writing()
            with database:
                database.execute("BEGIN IMMEDIATE")
                if sqlite_connection.is_current(database, self._path, alone=attempt < _ATTEMPTS - 1):
                    return action(database)
            self.close()
        raise LedgerUnavailable(f"Another process keeps replacing the ledger {self._path}: try again later.")

    def _for_writing(self) -> "sqlite3.Connection":
        from jcache.store import sqlite

        connection = self._connections.current()
        if connection.database is None or not connection.writable:
            connection.close()
            if self._outside:
                self._path.parent.parent.mkdir(parents=True, exist_ok=True)
            self._begin_pins()
            inode, born_ns = self._place()
            home = f"INSERT INTO home VALUES ({inode}, {'NULL' if born_ns is None else born_ns});"  # noqa: S608  numbers
            schema = _SCHEMA + home
            connection.database = sqlite.open_for_writing(self._path, self._busy_timeout, SCHEMA_VERSION, schema)
            connection.writable = True
        return connection.database


def has(database: "sqlite3.Connection", table: str) -> bool:
    """Return whether the ledger has a table that those of before had not."""
    return database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone() is not None


def _check(connection: "sqlite3.Connection") -> None:
    """Raise where a page or an index is damaged, even one that no command would meet today."""
    from jcache.store.sqlite_connection import NoLedgerError

    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise NoLedgerError(verdict)
