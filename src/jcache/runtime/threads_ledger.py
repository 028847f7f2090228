"""A ledger for a multi-threaded program: one SQLite connection for each thread of each process.

A SQLite connection belongs to the thread that opened it and must not cross a fork. The thread that made the ledger
keeps its connection open; every other thread closes its connection after each use.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from jcache.store.ledger import Ledger
from jcache.store.ledger_connection import Connection

if TYPE_CHECKING:
    from pathlib import Path

BUSY_TIMEOUT_S: Final = 0.5


class _ConnectionOfEachThread:
    def __init__(self) -> None:
        self._connections: dict[tuple[int, int], Connection] = {}
        self._owner_thread = threading.get_ident()

    def current(self) -> Connection:
        """Return the connection of this thread in this process."""
        return self._connections.setdefault((os.getpid(), threading.get_ident()), Connection())

    def after_use(self) -> None:
        """Close the connection unless this is the thread that made the ledger."""
        if threading.get_ident() != self._owner_thread:
            self.current().close()
            self._connections.pop((os.getpid(), threading.get_ident()), None)


class ThreadsLedger(Ledger):
    """A ledger that several threads may use at once, and a forked child as well.

    Args:
        path: the SQLite file.
        busy_timeout: seconds to wait for another writer.
    """

    def __init__(self, path: Path, *, busy_timeout: float = BUSY_TIMEOUT_S) -> None:
        super().__init__(path, busy_timeout=busy_timeout, connections=_ConnectionOfEachThread())
