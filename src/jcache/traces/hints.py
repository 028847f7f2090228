"""What earlier processes have found out about calls that are better traced as ever, without being looked up.

In ``ROOT/.jcache/verdicts`` a file named after a call says why its trace cannot be stored, or has a byte for each
process that took noticeably longer for looking traces up than tracing takes. It holds for a day; then it is found out
anew. Another one says which executable the call has needed, until it needs another. Nothing but time rests on any
of them: what they are about is traced by `jax.jit`, or loaded when it is needed.
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
_PROCESSES: Final = 3  # that have to agree
_MARGIN: Final = 5.0  # what was traced first, and recorded, took longer than usual; and a hit is more than looking up
_NOTICEABLE: Final = 0.25  # seconds of looking up that a process would have been spared; what takes less is served
_MOST: Final = 1000
_LONGEST: Final = 500
_LARGEST: Final = 1 << 20


class Verdicts:
    """The verdicts of a root."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._directory = os.fspath(root.verdicts)

    def is_slower(self, call: str) -> bool:
        try:
            status = os.stat(self._path("slower", call))
        except OSError:
            return False
        return status.st_size >= _PROCESSES and clock.now_ns() - status.st_mtime_ns < _DAY_NS

    def slower(self, calls: Iterable[str]) -> None:
        """Notes that a process would have been faster without looking these up."""
        for call in calls:
            with suppress(OSError), opened(self._root, self._root.verdicts, make=True) as directory:
                _tidy(name := _name("slower", call), directory)
                files.append(name, b".", directory=directory, limit=_LARGEST)

    def refusal(self, key: str) -> str | None:
        """Why the trace of a key cannot be stored, None if nobody has said so."""
        path = self._path("refused", key)
        try:
            with open(path, "rb") as file:
                text = file.read(_LONGEST).decode(errors="replace")
                recent = clock.now_ns() - os.fstat(file.fileno()).st_mtime_ns < _DAY_NS
        except OSError:
            return None
        return "".join(c if c.isprintable() else "�" for c in text) if recent and text else None

    def refuse(self, key: str, reason: str) -> None:
        self._write(_name("refused", key), reason.encode(errors="replace")[:_LONGEST])

    def likely(self, call: str) -> str:
        """Which executable a call has needed before, see `jcache.jax_internals.preload`; empty if that is not known."""
        try:
            with open(self._path("likely", call), "rb") as file:
                told, _, note = file.read(_LARGEST).partition(b"\n")
        except OSError:
            return ""
        return note.decode() if _digest(note) == told else ""

    def expect(self, call: str, note: str) -> None:
        self._write(_name("likely", call), _digest(note.encode()) + b"\n" + note.encode())

    def _path(self, what: str, of: str) -> str:
        return f"{self._directory}{os.sep}{_name(what, of)}"

    def _write(self, name: str, data: bytes) -> None:
        with suppress(OSError), opened(self._root, self._root.verdicts, make=True) as directory:
            _tidy(name, directory)
            files.publish(name, data, directory=directory)


def _name(what: str, of: str) -> str:
    return hashlib.sha256(f"{what} {of}".encode(errors="surrogatepass")).hexdigest()[:24]


def _tidy(name: str, directory: int) -> None:
    """Removes what is too old: that file, and where there are many all such."""
    names = os.listdir(directory)
    for each in names if len(names) > _MOST else [name]:
        with suppress(OSError):
            if clock.now_ns() - os.lstat(each, dir_fd=directory).st_mtime_ns >= _DAY_NS:
                os.unlink(each, dir_fd=directory)


def _digest(note: bytes) -> bytes:
    """What stands before a note, which XLA would not survive with one bit changed."""
    return hashlib.sha256(note).hexdigest().encode()


class Tally:
    """What looking traces up has taken and spared in this process; at its end that is its verdict.

    Each call is judged by itself, but for the first one, which takes longer than it would later: by all of them.
    """

    def __init__(self) -> None:
        self._of: dict[Root, dict[str, tuple[float, float]]] = {}

    def add(self, root: Root, call: str, took: float, spared: float) -> None:
        if not self._of:
            atexit.register(self._conclude)
        calls = self._of.setdefault(root, {})
        before = calls.get(call, (0.0, 0.0))
        calls[call] = before[0] + took, before[1] + spared

    def _conclude(self) -> None:
        for root, calls in self._of.items():
            every = [sum(seconds) for seconds in zip(*calls.values(), strict=True)]
            judged = {**calls, next(iter(calls)): every}
            losing = [call for call, (took, spared) in judged.items() if took * _MARGIN > spared]
            if sum(calls[call][0] for call in losing) >= _NOTICEABLE:
                Verdicts(root).slower(losing)


tally: Final = Tally()
