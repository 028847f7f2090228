"""Hints of earlier processes about calls: calls to trace without a look-up, and the executables that calls will need.

The files are in ``ROOT/.jcache/verdicts``. The name of each is a digest of its sort and of the call's rough key, or of
the trace's key for ``refused``:

    slower    a byte for each process in which looking the call up took noticeably longer than tracing it
    refused   the reason why the trace of the call cannot be stored
    likely    a note of the executable that the call needed last, after the note's SHA-256

The first two hold for a day; then a process finds out anew. A hint changes only how long a program takes: because of a
wrong one, `jax.jit` traces the call, or the executable is loaded later.
"""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from jcache import clock
from jcache.layout import Root
from jcache.store import files
from jcache.store.directories import opened

_DAY_NS: Final = 86_400_000_000_000
_PROCESSES: Final = 3  # processes that have to agree
# Tracing must take this many times as long as looking up: the traced time is that of a first call that was recorded, so
# it is longer than usual, and a hit takes more than the look-up.
_MARGIN: Final = 5.0
_NOTICEABLE_S: Final = 0.25  # of look-ups that a process could have saved; calls with less are looked up
_LONG_S: Final = 1.0  # of the look-up of a call that was traced after it: where code of the user's is large
_MAX_FILES: Final = 1000
_MAX_REASON_BYTES: Final = 500
_MAX_FILE_BYTES: Final = 1 << 20


class Hints:
    """The hints of a root. A hint that cannot be read or written is ignored."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._directory = os.fspath(root.verdicts)

    def is_slower(self, call: str) -> bool:
        """Return whether several processes have found that looking up a call is slower than tracing it."""
        try:
            status = os.stat(self._path("slower", call))
        except OSError:
            return False
        return status.st_size >= _PROCESSES and clock.now_ns() - status.st_mtime_ns < _DAY_NS

    def add_slower(self, calls: Iterable[str]) -> None:
        """Note that this process would have been faster without looking up these calls."""
        for call in calls:
            with suppress(OSError), opened(self._root, self._root.verdicts, make=True) as directory:
                _remove_old(name := _name("slower", call), directory)
                files.append(name, b".", directory=directory, limit=_MAX_FILE_BYTES)

    def refusal(self, key: str) -> str | None:
        """Return the reason why the trace of a key cannot be stored; None if no process has noted one."""
        path = self._path("refused", key)
        try:
            with open(path, "rb") as file:
                text = file.read(_MAX_REASON_BYTES).decode(errors="replace")
                recent = clock.now_ns() - os.fstat(file.fileno()).st_mtime_ns < _DAY_NS
        except OSError:
            return None
        return "".join(c if c.isprintable() else "�" for c in text) if recent and text else None

    def refuse(self, key: str, reason: str) -> None:
        """Note why the trace of a key cannot be stored."""
        self._write(_name("refused", key), reason.encode(errors="replace")[:_MAX_REASON_BYTES])

    def expected(self, call: str) -> str:
        """Return the note of the executable that a call needed last, see `jcache.jax_internals.preload`; else ""."""
        try:
            with open(self._path("likely", call), "rb") as file:
                told, _, note = file.read(_MAX_FILE_BYTES).partition(b"\n")
        except OSError:
            return ""
        return note.decode() if _digest(note) == told else ""

    def expect(self, call: str, note: str) -> None:
        """Note which executable a call needed."""
        self._write(_name("likely", call), _digest(note.encode()) + b"\n" + note.encode())

    def _path(self, what: str, of: str) -> str:
        return f"{self._directory}{os.sep}{_name(what, of)}"

    def _write(self, name: str, data: bytes) -> None:
        with suppress(OSError), opened(self._root, self._root.verdicts, make=True) as directory:
            _remove_old(name, directory)
            files.publish(name, data, directory=directory)


def _name(what: str, of: str) -> str:
    return hashlib.sha256(f"{what} {of}".encode(errors="surrogatepass")).hexdigest()[:24]


def _remove_old(name: str, directory: int) -> None:
    """Remove a file that is older than a day; if the directory has many files, remove all such files."""
    names = os.listdir(directory)
    for each in names if len(names) > _MAX_FILES else [name]:
        with suppress(OSError):
            if clock.now_ns() - os.lstat(each, dir_fd=directory).st_mtime_ns >= _DAY_NS:
                os.unlink(each, dir_fd=directory)


def _digest(note: bytes) -> bytes:
    """Return the checksum of a note; a note with a flipped bit could make XLA end the process."""
    return hashlib.sha256(note).hexdigest().encode()


class LookupCosts:
    """The CPU time that look-ups cost and saved in this process; at its end it adds hints about calls that lost time.

    Each call is judged by its own times. Only the first call is judged by the times of all calls together, since the
    first look-up of a process takes longer than later ones.
    """

    def __init__(self) -> None:
        self._by_root: dict[Root, dict[str, tuple[float, float]]] = {}
        self._long: dict[Root, set[str]] = {}

    def add(self, root: Root, call: str, took: float, spared: float) -> None:
        """Add a hit.

        Args:
            root: the root in use.
            call: the rough key of the call.
            took: CPU seconds of the look-up.
            spared: seconds that tracing took when the trace was stored.
        """
        self._prepare()
        calls = self._by_root.setdefault(root, {})
        before = calls.get(call, (0.0, 0.0))
        calls[call] = before[0] + took, before[1] + spared

    def add_traced(self, root: Root, call: str, took: float, traced: float) -> None:
        """Add a call that was traced in spite of its look-up.

        Args:
            root: the root in use.
            call: the rough key of the call.
            took: CPU seconds of the look-up.
            traced: seconds that tracing took.
        """
        if took >= max(_LONG_S, traced):
            self._prepare()
            self._long.setdefault(root, set()).add(call)

    def _prepare(self) -> None:
        if not self._by_root and not self._long:
            atexit.register(self._conclude)

    def _conclude(self) -> None:
        for root, long in self._long.items():
            Hints(root).add_slower(long)
        for root, calls in self._by_root.items():
            every = [sum(seconds) for seconds in zip(*calls.values(), strict=True)]
            judged = {**calls, next(iter(calls)): every}
            losing = [call for call, (took, spared) in judged.items() if took * _MARGIN > spared]
            if sum(calls[call][0] for call in losing) >= _NOTICEABLE_S:
                Hints(root).add_slower(losing)


lookup_costs: Final = LookupCosts()
