"""A ledger for a multi-threaded program: one SQLite connection for each thread of each process.

A SQLite connection belongs to the thread that opened it and must not cross a fork. The thread that made the ledger
keeps its connection open; every other thread closes its connection after each use.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from jcache.store.ledger import Ledger

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 0.5


class _ThreadState:
    """The connection of one thread."""

    __slots__ = ("database", "writable")

    def __init__(self) -> None:
        self.database: sqlite3.Connection | None = None
        self.writable = False


class ThreadsLedger(Ledger):
    """A ledger that several threads may use at once, and a forked child as well.

    Args:
        path: the SQLite file.
        busy_timeout: seconds to wait for another writer.
    """

    def __init__(self, path: Path, *, busy_timeout: float = BUSY_TIMEOUT_S) -> None:
        self._states: dict[tuple[int, int], _ThreadState] = {}
        self._owner_thread = threading.get_ident()
        super().__init__(path, busy_timeout=busy_timeout)

    @property
    def _state(self) -> _ThreadState:
        return self._states.setdefault((os.getpid(), threading.get_ident()), _ThreadState())

    @property
    def _database(self) -> sqlite3.Connection | None:
        return self._state.database

    @_database.setter
    def _database(self, database: sqlite3.Connection | None) -> None:
        self._state.database = database

    @property
    def _writable(self) -> bool:
        return self._state.writable

    @_writable.setter
    def _writable(self, writable: bool) -> None:
        self._state.writable = writable

    def _read(self, action: Callable[[sqlite3.Connection], T]) -> T | None:
        try:
            return super()._read(action)
        finally:
            self._close_unless_owner()

    def _write(self, action: Callable[[sqlite3.Connection], T], *, anew: bool = True) -> T:
        try:
            return super()._write(action, anew=anew)
        finally:
            self._close_unless_owner()

    def _close_unless_owner(self) -> None:
        if threading.get_ident() != self._owner_thread:
            self.close()
            self._states.pop((os.getpid(), threading.get_ident()), None)
