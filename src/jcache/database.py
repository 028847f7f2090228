"""Opening the ledger's SQLite file under whatever conditions a cache directory offers.

- absent: reading gives nothing (the ledger does not come here then), writing makes it;
- damaged: set aside as ``<name>.damaged-<time>`` by the next writer, and begun anew;
- busy for longer than the time-out, read-only, on a full disk, or made by a newer jcache: `LedgerUnavailable`;
- on a file system without POSIX locks: SQLite's lock files (``unix-dotfile``, sqlite.org/vfs.html) are used instead.

A rollback journal and not a write-ahead log: the latter needs shared memory, which network file systems lack.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from jcache.errors import LedgerUnavailable


def open_for_reading(path: Path, timeout: float, version: int) -> sqlite3.Connection:
    """Opens a file that is there, without ever changing it."""
    database = _open(path, "ro", timeout)
    found = _version(database)
    if found != version:
        database.close()
        if found == 0:  # a writer was stopped before it made the tables
            raise LedgerUnavailable(f"Cannot read the ledger {path}: it is empty; the next writer begins it.")
        _refuse(path)
    return database


def open_for_writing(path: Path, timeout: float, version: int, schema: str) -> sqlite3.Connection:
    """Opens the file, makes it if it is absent, and begins it anew if it is damaged.

    Args:
        path: the SQLite file.
        timeout: seconds to wait for another writer.
        version: of the schema; a file of a later one is refused.
        schema: the statements that make the tables, separated by ``;``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return _ready(path, timeout, version, schema)
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
    with suppress(FileNotFoundError):
        path.replace(path.with_name(f"{path.name}.damaged-{time.time_ns()}"))
    path.with_name(path.name + "-journal").unlink(missing_ok=True)
    return _ready(path, timeout, version, schema)


@contextmanager
def failures(path: Path, verb: str, close: Callable[[], None]) -> Iterator[None]:
    """Turns what SQLite and the system raise in the block into `LedgerUnavailable`, and closes the ledger then."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        close()
        reason = str(error)
        if isinstance(error, sqlite3.Error) and _is_damage(error):
            reason = "it is damaged; the next command that writes to it sets it aside and begins it anew"
        raise LedgerUnavailable(f"Cannot {verb} the ledger {path}: {reason}.") from error


def _ready(path: Path, timeout: float, version: int, schema: str) -> sqlite3.Connection:
    database = _open(path, "rwc", timeout)
    try:
        database.execute("PRAGMA synchronous = NORMAL")
        found = _version(database)
        if found > version:
            _refuse(path)
        if found == 0:
            _create(database, version, schema)
    except BaseException:
        database.close()
        raise
    return database


def _refuse(path: Path) -> NoReturn:
    raise LedgerUnavailable(f"The ledger {path} was made by a newer jcache: upgrade jcache to use it.")


def _open(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    try:
        return _connect(path, mode, timeout)
    except sqlite3.OperationalError as error:
        if "locking protocol" not in str(error) and "disk I/O error" not in str(error):
            raise
        return _connect(path, mode, timeout, "&vfs=unix-dotfile")


def _connect(path: Path, mode: str, timeout: float, more: str = "") -> sqlite3.Connection:
    uri = f"{path.as_uri()}?mode={mode}{more}"
    database = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    try:
        _version(database)  # the first statement is the first to lock and to read the file
    except BaseException:
        database.close()
        raise
    return database


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _create(database: sqlite3.Connection, version: int, schema: str) -> None:
    database.execute("BEGIN EXCLUSIVE")
    if _version(database) == 0:  # nobody else made it while we waited
        for statement in schema.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA user_version = {version}")
    database.execute("COMMIT")


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "no such table" in str(error)
