"""What a program under `jcache run` reads from JAX's cache, checked before XLA sees it.

The program's Python need not have jcache, so the recorder asks the `jcache run` above it, over a Unix socket in the
recorder's directory, and hands on the bytes that come back: what is served is what was checked. One connection is one
entry: the request is a line, the cache's directory, the key and the program's platforms with NULs between them. The
answer is ``+``, the number of bytes in 16 hexadecimal digits and the bytes; ``-`` where there is none that may be
served; and ``?`` where the directory is not that of the root.

A Python that does not run the recorder (``-I``, ``-S``, ``-E``, another PYTHONPATH) has no cache. Where the command
itself is one (`is_alone`), all entries are checked before it starts, and it has the cache.
"""

from __future__ import annotations

import os
import re
import signal
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from jcache import clock
from jcache.errors import JcacheError
from jcache.findings import Finding
from jcache.layout import ENTRY_SUFFIX, Root, storable
from jcache.runtime.program_store import Desk, ProgramStore
from jcache.runtime.verified_read import EXECUTABLES, Gate, Sound
from jcache.store.locking import DEFAULT_TIMEOUT

SOCKET: Final = "reads"
CHECKED_BEFORE_S: Final = 30.0
_LONGEST: Final = 1 << 16  # bytes of a request
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
_ALONE: Final = re.compile(r"-[a-zA-Z]*[ISE]")
_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
_PROGRAM: Final = ("-c", "-m")


class CheckedReads:
    """The reads of a root's executables by programs that have no jcache; several threads may use it.

    Args:
        root: which.

    Attributes:
        damaged: what was found damaged, and whether it could be put into quarantine, by key.
    """

    def __init__(self, root: Root) -> None:
        self.damaged: dict[str, tuple[Finding, bool]] = {}
        self._directory = root.directory(EXECUTABLES)
        self._desk = Desk(partial(ProgramStore, root, max_bytes=None, lock_timeout=DEFAULT_TIMEOUT), EXECUTABLES)
        self._of = threading.local()  # the platforms of the program that asks
        self._gate = Gate(root, self._desk.store.threads_ledger, self._desk.learn, self._platforms)

    def get(self, key: str, *, as_use: bool = True) -> bytes | None:
        """The bytes of an entry that may be served, None if there is none. What is damaged goes to quarantine."""
        if not key or "/" in key or "\0" in key:
            return None
        with suppress(OSError, JcacheError):
            found = self._gate.get(storable(key), as_use=as_use)
            if isinstance(found, Sound):
                return found.data
            if found is not None:
                self.damaged[key] = found, False
                self._desk.quarantine(found)
                self.damaged[key] = found, True
        return None

    def of_program(self, platforms: str) -> None:
        """Says for which platforms this thread reads: their names with commas between them, none for not known."""
        self._of.platforms = frozenset(filter(None, platforms.split(","))) or None

    def _platforms(self) -> frozenset[str] | None:
        return getattr(self._of, "platforms", None)

    def is_of(self, directory: str) -> bool:
        """Whether a directory is that of the root's executables."""
        try:
            return os.path.samefile(directory, self._directory)
        except (OSError, ValueError):
            return False

    def check_all(self, seconds: float = CHECKED_BEFORE_S) -> bool:
        """Checks all entries, for so many seconds at most.

        Returns:
            Whether each entry that is there now may be served. One that is being written may not be, nor one that is
            damaged and cannot be moved.
        """
        until = clock.monotonic() + seconds
        for entry in self._desk.store.entries([EXECUTABLES]):
            if clock.monotonic() >= until:
                return False
            if self.get(entry.key, as_use=False) is None and os.path.lexists(
                self._directory / (entry.key + ENTRY_SUFFIX)
            ):
                return False
        return True

    def close(self) -> None:
        """Tells the ledger what has been learnt."""
        with suppress(OSError, JcacheError):
            self._desk.close()


class _Handler(socketserver.StreamRequestHandler):
    reads: CheckedReads

    def handle(self) -> None:
        """Answers one request."""
        words = self.rfile.readline(_LONGEST).rstrip(b"\n").split(b"\0")
        if len(words) != 3:
            return
        directory, key, platforms = map(os.fsdecode, words)
        self.reads.of_program(platforms)
        if not self.reads.is_of(directory):
            self.wfile.write(b"?")
            return
        data = self.reads.get(key)
        self.wfile.write(b"-" if data is None else b"+%016x" % len(data))
        if data is not None:
            self.wfile.write(data)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing: the program that has asked was killed, most likely."""


@contextmanager
def serving(reads: CheckedReads, directory: Path) -> Iterator[None]:
    """Answers requests at a socket in a directory, in threads that take no signals.

    Raises:
        OSError: there cannot be such a socket.
    """
    handler = type("Handler", (_Handler,), {"reads": reads})
    with _short(directory) as place, _Server(f"{place}/{SOCKET}", handler) as server:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            thread = threading.Thread(target=server.serve_forever, name="jcache reads", daemon=True)
            thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _short(directory: Path) -> Iterator[str]:
    """A name of a directory that a socket's address has room for, where the system has one."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"/proc/self/fd/{descriptor}"
        yield short if len(os.fsencode(directory)) > 80 and os.path.isdir(short) else os.fspath(directory)
    finally:
        os.close(descriptor)


def is_alone(command: Sequence[str]) -> bool:
    """Whether a command is a Python that does not look at its environment, and so does not run the recorder."""
    if not _PYTHON.fullmatch(os.path.basename(command[0])):
        return False
    words = iter(command[1:])
    for word in words:
        if not word.startswith("-") or word == "-" or word.startswith(_PROGRAM):
            return False
        if _ALONE.match(word):
            return True
        if word in _WITH_VALUE:
            next(words, None)
    return False
