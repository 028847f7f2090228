"""Serve verified executables to a program under `jcache run`.

The program's Python need not have jcache. So the recorder in the program requests each entry from the parent
`jcache run`, over a Unix socket in the recorder's directory, and gives the bytes of the answer to JAX. A connection
carries one entry. The request is a line of six fields with NULs between them: the cache's directory, the key, the
program's platforms, and by what its executables are made (`jcache.jax_internals.maker`). The answer is

    +  the number of bytes in 16 hexadecimal digits, then the bytes
    -  no entry that may be served
    ?  the directory is not the one of the root

A Python that does not run the recorder (``-I``, ``-S``, ``-E``, another PYTHONPATH) has no cache. If the command itself
starts such a Python (`runs_without_recorder`), all entries are checked before it starts, and it has the cache.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from jcache import clock
from jcache.errors import JcacheError
from jcache.findings import Finding
from jcache.layout import ENTRY_SUFFIX, Root, storable
from jcache.runs.remote_report import FetchedEntries
from jcache.runtime.prefetch import Prefetch
from jcache.runtime.program_store import ProgramStore
from jcache.runtime.verified_read import EXECUTABLES, VerifiedEntry, VerifiedReader
from jcache.runtime.write_queue import WriteQueue
from jcache.store.locking import DEFAULT_TIMEOUT
from jcache.store.remote_entries import RemoteEntries

GetPlatforms = Callable[[], frozenset[str] | None]
OpenRemote = Callable[[GetPlatforms, Callable[[], str], Callable[[str], object]], RemoteEntries]

SOCKET: Final = "reads"
CHECK_ALL_TIMEOUT_S: Final = 30.0
_MAX_REQUEST_BYTES: Final = 1 << 16
_MAX_WAITING: Final = 128  # connections
_RETRY_S: Final = 0.05
_JOIN_TIMEOUT_S: Final = 1.0
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
_WITHOUT_RECORDER: Final = re.compile(r"-[a-zA-Z]*[ISE]")
_OPTIONS_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
_PROGRAM_OPTIONS: Final = ("-c", "-m")


class CheckedReads:
    """Reads a root's executables for programs without jcache; several threads may use it.

    Args:
        root: the root.
        open_remote: opens the store behind the root, given what returns the platforms and the namespace of the program
            that a thread serves, and what receives a warning; None for no store.
        warn: receives a sentence if that store fails.
        expected: returns the keys that the program will ask for, most likely, given the store: as soon as it asks for
            one, those that the root lacks are fetched from the store.

    Attributes:
        root: the root.
        damaged: the damaged entries by key: the finding, and whether the entry was moved to quarantine.
        fetched: the entries that came from the store.
    """

    def __init__(
        self,
        root: Root,
        open_remote: OpenRemote | None = None,
        warn: Callable[[str], object] = lambda text: None,
        expected: Callable[[RemoteEntries], Sequence[str]] = lambda remote: (),
    ) -> None:
        self._remote = None if open_remote is None else open_remote(self._platforms, self._namespace, warn)
        self.root = root
        self.damaged: dict[str, tuple[Finding, bool]] = {}
        self.fetched = FetchedEntries(None if self._remote is None else str(self._remote))
        self._directory = root.directory(EXECUTABLES)
        self._expected = expected
        self._prefetch: Prefetch | None = None
        self._beginning = threading.Lock()
        self._queue = WriteQueue(partial(ProgramStore, root, max_bytes=None, lock_timeout=DEFAULT_TIMEOUT), EXECUTABLES)
        self._program = threading.local()  # platforms and maker of the program that this thread serves
        self._reader = VerifiedReader(root, self._queue.store.threads_ledger, self._queue.learn, self._platforms)

    def get(self, key: str, *, as_use: bool = True) -> bytes | None:
        """Return the bytes of a verified entry, None if there is none; move a damaged entry to quarantine."""
        if not key or "/" in key or "\0" in key:
            return None
        with suppress(OSError, JcacheError):
            found = self._reader.get(storable(key), as_use=as_use)
            if isinstance(found, VerifiedEntry):
                return found.data
            if found is not None:
                self.damaged[key] = found, False
                self._queue.quarantine(found)
                self.damaged[key] = found, True
            return self._fetch_missing(storable(key)) if as_use and self._remote is not None else None
        return None

    def _fetch_missing(self, key: str) -> bytes | None:
        """Return the entry that the store behind the root has; the first time, begin to fetch all that are expected."""
        with self._beginning:
            if self._prefetch is None:
                self._prefetch = self._begin_prefetch(key)
        if not self._prefetch.has_fetched(key):
            return self._fetch(key)
        found = self._reader.get(key)
        return found.data if isinstance(found, VerifiedEntry) else None

    def _begin_prefetch(self, first: str) -> Prefetch:
        """Begin to fetch what this thread's program is expected to ask for, but for the key that it asks for now."""
        platforms, maker, directory = self._platforms(), self._program.maker, os.fspath(self._directory)

        def fetch(key: str) -> None:
            self._program.platforms, self._program.maker = platforms, maker
            with suppress(Exception):
                self._fetch(key)

        keys = (storable(key) for key in (self._expected(self._remote) if self._remote is not None else ()))
        return Prefetch(
            fetch,
            [key for key in keys if key != first and not os.path.lexists(os.path.join(directory, key + ENTRY_SUFFIX))],
        )

    def _fetch(self, key: str) -> bytes | None:
        """Return the entry that the store behind the root has, and keep it in the root."""
        found = None if self._remote is None else self._remote.get(EXECUTABLES, key)
        if found is None:
            return None
        self.fetched.add(EXECUTABLES, len(found[0]), str(self._remote))
        with suppress(OSError, JcacheError):
            known = self._queue.put(key, found[0], seconds=found[1], origin="copy").record
            if known is not None:
                self._reader.remember(known)
        return found[0]

    def set_program(self, platforms: str, maker: Sequence[str]) -> None:
        """Set the program for which this thread reads.

        Args:
            platforms: names with commas between them, empty if not known.
            maker: what `jcache.jax_internals.maker` returns there.
        """
        self._program.platforms = frozenset(filter(None, platforms.split(","))) or None
        self._program.maker = maker

    def _namespace(self) -> str:
        from jcache.remote.names import namespace_of

        return namespace_of(*self._program.maker)

    def _platforms(self) -> frozenset[str] | None:
        return getattr(self._program, "platforms", None)

    def is_own_directory(self, directory: str) -> bool:
        """Return whether a directory is the one of the root's executables."""
        try:
            return os.path.samefile(directory, self._directory)
        except (OSError, ValueError):
            return False

    def check_all(self, timeout_s: float = CHECK_ALL_TIMEOUT_S) -> bool:
        """Check all entries.

        Args:
            timeout_s: the check gives up after this many seconds.

        Returns:
            Whether every entry that exists now may be served. An entry that is being written may not be served, nor a
            damaged entry that cannot be moved, nor any after the timeout.
        """
        until = clock.monotonic() + timeout_s
        for entry in self._queue.store.entries(EXECUTABLES):
            if clock.monotonic() >= until:
                return False
            if self.get(entry.key, as_use=False) is None and os.path.lexists(
                self._directory / (entry.key + ENTRY_SUFFIX)
            ):
                return False
        return True

    def close(self) -> None:
        """Fetch no more, and write all pending records to the ledger."""
        if self._prefetch is not None:
            self._prefetch.stop()
        with suppress(OSError, JcacheError):
            self._queue.close()


@contextmanager
def serving(reads: CheckedReads, directory: Path) -> Iterator[None]:
    """Answer requests at a socket in a directory, in threads that receive no signals.

    Raises:
        OSError: the socket cannot be made.
    """
    with _socket_directory(directory) as place, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{place}/{SOCKET}")
        listener.listen(_MAX_WAITING)
        has_ended = threading.Event()
        thread = threading.Thread(target=_accept, args=(listener, reads, has_ended), name="jcache reads", daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            yield
        finally:
            has_ended.set()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # on Linux `accept` returns then, elsewhere after a connection
            with suppress(OSError), socket.socket(socket.AF_UNIX) as last:
                last.connect(f"{place}/{SOCKET}")
            thread.join(_JOIN_TIMEOUT_S)


def _accept(listener: socket.socket, reads: CheckedReads, has_ended: threading.Event) -> None:
    """Answer each connection in a thread of its own, if the system has one more, until the command has ended."""
    while not has_ended.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:  # too many open files, unless the command has ended
            has_ended.wait(_RETRY_S)
            continue
        try:
            threading.Thread(target=_answer, args=(connection, reads), daemon=True).start()
        except RuntimeError:  # the system has no more threads
            _answer(connection, reads)


def _answer(connection: socket.socket, reads: CheckedReads) -> None:
    """Answer one request; most likely the program was killed during it if that fails."""
    with suppress(Exception), connection, connection.makefile("rb") as file:
        words = file.readline(_MAX_REQUEST_BYTES).rstrip(b"\n").split(b"\0")
        if len(words) != 6:
            return
        directory, key, platforms, *maker = map(os.fsdecode, words)
        reads.set_program(platforms, maker)
        if not reads.is_own_directory(directory):
            connection.sendall(b"?")
            return
        data = reads.get(key)
        connection.sendall(b"-" if data is None else b"+%016x" % len(data))
        if data is not None:
            connection.sendall(data)


@contextmanager
def _socket_directory(directory: Path) -> Iterator[str]:
    """Yield a path of a directory that is short enough for a socket's address, if the system has one."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{descriptor}"
        yield short if len(os.fsencode(directory)) > 80 and os.path.isdir(short) else os.fspath(directory)
    finally:
        os.close(descriptor)


def runs_without_recorder(command: Sequence[str]) -> bool:
    """Return whether a command starts a Python that ignores its environment, and so does not run the recorder."""
    if not _PYTHON.fullmatch(os.path.basename(command[0])):
        return False
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word == "-" or word.startswith(_PROGRAM_OPTIONS):
            return False
        if _WITHOUT_RECORDER.match(word):
            return True
        if word in _OPTIONS_WITH_VALUE:
            next(words, None)
    return False
