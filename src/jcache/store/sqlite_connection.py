"""Open the ledger's SQLite file in its directory, on any file system, and tell what an error of SQLite means."""

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from jcache.errors import CannotWrite, LedgerUnavailable
from jcache.layout import TEMPORARY_PREFIX
from jcache.store import files, sqlite_vfs
from jcache.store.directories import compare, open_below, path_of

Error: Final = (sqlite3.Error, UnicodeDecodeError)  # Python cannot read an error's text if it quotes damaged names


_DAMAGE: Final = ("no such table", "already exists", "unsupported file format")  # errors without a code of their own


class NoLedgerError(sqlite3.DatabaseError):
    """The file is a database, but none that any jcache made."""


def is_damaged(path: Path, error: Exception) -> bool:
    """Return whether an error says that the file is no ledger, or no more."""
    codes = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    if (
        isinstance(error, (NoLedgerError, UnicodeDecodeError))
        or error_code(error) in codes
        or any(text in str(error) for text in _DAMAGE)
    ):
        return True
    return os.path.lexists(path) and not os.path.isfile(path)


def is_busy(error: Exception) -> bool:
    return error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def ledger_directory(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open the ledger's directory for the block; refuse a symbolic link in its place."""
    descriptor = open_below(path.parent.parent, path.parent.name, make=make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_database(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    try:
        return connect(path, mode, timeout, wait=False)
    except sqlite3.OperationalError as error:
        if (
            error_code(error) == sqlite3.SQLITE_READONLY and mode == "ro"
        ):  # a killed writer's change is to be rolled back
            return connect(path, "rw", timeout)
        if is_busy(error) and _has_locks(path):
            return connect(path, mode, timeout)
        if not is_busy(error) and error_code(error) not in (sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_IOERR):
            raise
    return connect(path, mode, timeout, vfs="unix-dotfile")


def _has_locks(path: Path) -> bool:
    """Return whether POSIX locks work in the ledger's directory: SQLite takes NFS's ENOLCK for a busy file.

    Tried on a file of its own, since closing the ledger's would drop the locks that this process has on it.
    """
    try:
        import fcntl

        with ledger_directory(path) as directory:
            name = files.create_temporary(directory=directory)
            try:
                file = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
                with open(file, "wb", buffering=0):
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            finally:
                os.unlink(name, dir_fd=directory)
    except ImportError:
        return True
    except OSError as error:
        return error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
    return True


def connect(
    path: Path,
    mode: str,
    timeout: float,
    more: str = "",
    *,
    vfs: str = "unix",
    wait: bool = True,
    shared: bool = False,
) -> sqlite3.Connection:
    """Open the file in its directory, which stays open as long as the connection.

    Args:
        path: of the file.
        mode: as in SQLite's URIs.
        timeout: seconds to wait for who has locked it.
        more: parameters of the URI.
        vfs: by which of SQLite's ways to lock files.
        wait: whether to wait for the first lock, too.
        shared: whether it is opened for writing even if it has names elsewhere: nothing is written then.
    """
    directory = open_below(path.parent.parent, path.parent.name)
    try:
        if mode != "ro" and not shared:
            _separate(path, directory, timeout, vfs)
        found = _look(path.name, directory)
        prepared, by_path = _prepared(path, directory, mode, vfs)
        uri = f"{prepared}{more}"
        first = timeout if wait else 0
        database = sqlite3.connect(
            uri, uri=True, timeout=first, isolation_level=None, check_same_thread=False, factory=_Connection
        )
    except BaseException:
        os.close(directory)
        raise
    database.directory = directory
    database.file = found or _look(path.name, directory)
    database.text_factory = partial(str, encoding="utf-8", errors="backslashreplace")  # which may be damaged
    try:
        if by_path:
            _compare(path, directory)
        schema_version(database)  # the first statement is the first to lock and to read the file
        database.execute(f"PRAGMA busy_timeout = {round(timeout * 1000)}")
    except BaseException:
        database.close()
        raise
    return database


def _look(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return None


def is_current(database: sqlite3.Connection, path: Path, *, alone: bool = True) -> bool:
    """Return whether a connection's file is still the one at its path and, if asked for, has no other name."""
    if not isinstance(database, _Connection) or database.file is None:
        return False
    now = _look(path.name, database.directory)
    return now is not None and os.path.samestat(now, database.file) and not (alone and now.st_nlink > 1)


def _separate(path: Path, directory: int, timeout: float, vfs: str) -> None:
    """Give the ledger a file of its own where it has other names, which may lie outside the root, as in a backup.

    SQLite makes the copy while no other process can write, so that nothing is lost. A ledger that is damaged, or whose
    last change has to be rolled back, is copied as it is.
    """
    files.separate(f"{path.name}-journal", directory=directory)
    if not files.is_linked(path.name, directory=directory):
        return
    mode = stat.S_IMODE(os.lstat(path.name, dir_fd=directory).st_mode)
    aside = path.with_name(f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}")
    try:
        with (  # the first connection would roll nothing back
            closing(connect(path, "ro", timeout, vfs=vfs)) as source,
            closing(connect(path, "rw", timeout, vfs=vfs, shared=True)) as holder,
        ):
            holder.execute("BEGIN IMMEDIATE")
            with closing(connect(aside, "rwc", 0, vfs=vfs)) as copy:
                source.backup(copy)
            os.chmod(aside.name, mode, dir_fd=directory)
            os.replace(aside.name, path.name, src_dir_fd=directory, dst_dir_fd=directory)
    except sqlite3.Error as error:
        if not (is_damaged(path, error) or error_code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)):
            raise
        files.separate(path.name, directory=directory)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(aside.name, dir_fd=directory)


def _compare(path: Path, directory: int) -> None:
    """Raise LedgerUnavailable unless the ledger's path leads to the directory that was opened."""
    try:
        compare(path.parent, directory)
    except CannotWrite as error:
        raise LedgerUnavailable(str(error)) from error


def _prepared(path: Path, directory: int, mode: str, vfs: str) -> tuple[str, bool]:
    """Return the URI by which SQLite opens the file of an open directory, and whether that is by its plain path.

    SQLite is never to make it, in whatever place.
    """
    try:
        if not stat.S_ISREG(os.lstat(path.name, dir_fd=directory).st_mode):  # SQLite would wait for a FIFO for ever
            raise NoLedgerError(f"{path} is no file")
    except FileNotFoundError:
        if mode == "rwc":
            files.touch(path.name, directory=directory)
    held, ours = path_of(directory), sqlite_vfs.verbatim(vfs)
    place = path if held is None or ours is None else held / path.name
    by_path = place == path
    return f"{place.as_uri()}?mode={mode.removesuffix('c')}&vfs={vfs if by_path else ours}", by_path


class _Connection(sqlite3.Connection):
    """One that is closed when nothing refers to it any more, without the warning that Python 3.13 has for it.

    Closing it needs nothing of Python's own, so it can be done while the interpreter ends.

    Attributes:
        directory: the descriptor of the directory that its file is in, closed with it.
        file: what the file's name led to when it was opened.
    """

    directory = -1
    file: os.stat_result | None = None
    _close_descriptor = staticmethod(os.close)
    _never_opened = suppress(sqlite3.Error)

    def close(self) -> None:
        super().close()
        directory, self.directory = self.directory, -1
        if directory >= 0:
            self._close_descriptor(directory)

    def __del__(self) -> None:
        with self._never_opened:
            self.close()


def schema_version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def error_code(error: Exception) -> int:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
