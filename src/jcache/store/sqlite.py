"""Open, make and replace the ledger's SQLite file in every state in which it can be:

- absent: reading gives nothing (the ledger does not come here then), writing makes it;
- damaged: set aside as ``<name>.damaged-<time>`` by the next writer, and begun anew;
- busy for longer than the time-out: writing is refused, reading takes the file as it is;
- left in the middle of a change by a killed writer: SQLite rolls that back, for a reader, too;
- read-only, on a full disk, or made by a newer jcache: `LedgerUnavailable`;
- on a file system without POSIX locks: SQLite's lock files (``unix-dotfile``, sqlite.org/vfs.html) are used instead.

A rollback journal and not a write-ahead log: the latter needs shared memory, which network file systems lack.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from jcache import clock
from jcache.errors import LedgerUnavailable
from jcache.layout import PINS_NAME, TEMPORARY_PREFIX
from jcache.store.directories import is_there
from jcache.store.sqlite_connection import (
    Error,
    NoLedgerError,
    connect,
    error_code,
    is_damaged,
    ledger_directory,
    open_database,
    schema_version,
)

DAMAGED: Final = ".damaged-"  # and when, after the name of a ledger that was set aside
_IDENTITY: Final = int.from_bytes(b"jcch", "big")  # application_id: tells a later schema from damage


def open_for_reading(path: Path, timeout: float, version: int) -> sqlite3.Connection:
    """Open a file that is there, without ever changing what it says."""
    return _checked(open_database(path, "ro", timeout), path, version)


def open_while_busy(path: Path, version: int) -> sqlite3.Connection:
    """Open a file that somebody keeps locked, as it is on the disk; to be closed after one look at it."""
    return _checked(connect(path, "ro", 0, "&immutable=1"), path, version)


def _checked(database: sqlite3.Connection, path: Path, version: int) -> sqlite3.Connection:
    try:
        _check(database, path, version)
    except BaseException:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection, path: Path, version: int) -> None:
    found = schema_version(database)
    identity = int(database.execute("PRAGMA application_id").fetchone()[0])
    if identity == _IDENTITY and found > version:
        raise LedgerUnavailable(f"The ledger {path} was made by a newer jcache: upgrade jcache to use it.")
    if identity != _IDENTITY or found != version:
        raise NoLedgerError(f"{path} is no ledger")


def open_for_writing(path: Path, timeout: float, version: int, schema: str) -> sqlite3.Connection:
    """Open the file, and make it if it is absent.

    Args:
        path: the SQLite file.
        timeout: seconds to wait for another writer.
        version: of the schema; a file of a later one is refused.
        schema: the statements that make the tables, separated by ``;``.
    """
    with ledger_directory(path, make=True) as directory:  # a root that is gone is not made again, half, for its ledger
        if not is_there(path.name, directory):
            _make_aside(path, directory, version, schema)
        elif os.lstat(path.name, dir_fd=directory).st_size == 0 and not is_there(PINS_NAME, directory):
            raise NoLedgerError(f"{path} is empty, and may have held pins")
    database = open_database(path, "rwc", timeout)
    try:
        database.execute("PRAGMA synchronous = NORMAL")
        if schema_version(database) == 0:
            _create(database, version, schema)
        _check(database, path, version)
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error) and error_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            _remove_empty(path)
        raise
    return database


def _make_aside(path: Path, directory: int, version: int, schema: str) -> None:
    """Make a ledger under another name and link it: what a killed process left would look like one that was lost.

    Where there are no hard links, or no room, it is made in its place later, with all that can go wrong there.
    """
    aside = path.with_name(f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}")
    try:
        with closing(open_database(aside, "rwc", 0)) as database:
            database.execute("PRAGMA journal_mode = OFF")  # nobody else sees it yet
            _create(database, version, schema)
        os.link(aside.name, path.name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except (OSError, sqlite3.Error):
        pass
    finally:
        with suppress(FileNotFoundError):
            os.unlink(aside.name, dir_fd=directory)


def _remove_empty(path: Path) -> None:
    """Remove the empty file that a full disk leaves of a new ledger: it would look like a lost one."""
    with suppress(OSError), ledger_directory(path) as directory:
        if os.lstat(path.name, dir_fd=directory).st_size == 0:
            os.unlink(path.name, dir_fd=directory)


def set_aside(path: Path) -> None:
    """Rename what is damaged out of the way of the next writer."""
    with ledger_directory(path) as directory:
        with suppress(FileNotFoundError):
            aside = f"{path.name}{DAMAGED}{clock.now_ns()}"
            os.rename(path.name, aside, src_dir_fd=directory, dst_dir_fd=directory)
        with suppress(FileNotFoundError):
            os.unlink(f"{path.name}-journal", dir_fd=directory)


@contextmanager
def failures(path: Path, verb: str, close: Callable[[], None]) -> Iterator[None]:
    """Turn what SQLite and the system raise in the block into `LedgerUnavailable`, and close the ledger then."""
    try:
        yield
    except (*Error, OSError) as error:
        close()
        reason = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        lost = isinstance(error, Error) and is_damaged(path, error)
        if lost:
            reason = "it is damaged; the next command that writes to it sets it aside and begins it anew"
        raise LedgerUnavailable(f"Cannot {verb} the ledger {path}: {reason}.", lost=lost) from error


def _create(database: sqlite3.Connection, version: int, schema: str) -> None:
    database.execute("BEGIN EXCLUSIVE")
    if schema_version(database) == 0:  # nobody else made it while we waited
        for statement in schema.split(";"):
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {_IDENTITY}")
        database.execute(f"PRAGMA user_version = {version}")
    database.execute("COMMIT")
