"""Files that the program has read, from the import of jcache on, but for those that it has written itself.

What a file holds may reach a function by the state of a library, where no key sees it. `jcache.runtime.worlds` compares
these files. The process has one audit hook, which is here; `also` gets the events, too.
"""

# ruff: noqa: ANN401 - the arguments of audit events are of any type

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from jcache.attribution import Reader, is_own, reader

MOST: Final = 256  # files that are recorded
LARGEST: Final = 1 << 20  # bytes of a file that is recorded
WRITING: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MOST_WRITTEN: Final = 10_000
_SYSTEM: Final = ("/proc/", "/dev/", "/sys/", "/etc/", "/usr/", "/run/")
_CODE: Final = (".pyc", ".so")
_EVENTS: Final = frozenset({"open", "os.rename", "os.mkdir"})


class InputFile(NamedTuple):
    """A file when it was read.

    Attributes:
        name: its path as the program gave it.
        identity: inode, size in bytes and modification time in nanoseconds since 1970.
    """

    name: str
    identity: tuple[int, int, int]


also: Callable[[str, tuple[Any, ...]], None] | None = None  # gets all audit events
is_recorded_otherwise: Callable[[], object] = bool  # whether what this thread reads now counts in a key
_read: dict[str, InputFile] = {}  # by absolute path
_written: set[str] = set()  # what the process itself has written or made, by absolute path
_changes = 0  # how often `_read` has changed
_has_hook = False


def record() -> None:
    """Begin to record, once in a process."""
    global _has_hook
    if not _has_hook:
        _has_hook = True
        sys.addaudithook(_hook)


def files() -> dict[str, InputFile]:
    """Return the files that were read, by absolute path, in the order in which they were read first."""
    return _read.copy()


def changes() -> int:
    """Return how often the recorded files have changed."""
    return _changes


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _EVENTS:  # the interpreter is ending, and has emptied this module
        return
    if event in _EVENTS:
        with suppress(OSError, ValueError, TypeError):  # the program meets it itself
            _note(sys._getframe(1), event, *arguments)
    if also is not None:
        also(event, arguments)


def _note(frame: Any, event: str, given: Any, other: Any = None, flags: Any = 0, *_: Any) -> None:
    if type(given) is int:  # a descriptor
        return
    name = os.fsdecode(given)
    if event == "os.mkdir":
        if not os.path.lexists(name):
            _add_written(name)
    elif event == "os.rename":
        _add_written(os.fsdecode(other))
    elif flags & (WRITING | os.O_RDWR):
        _add_written(name)
    elif len(_read) < MOST and not name.endswith(_CODE) and (other is not None or os.path.isabs(name)):
        _add(frame, name, _whole(name))


def _add(frame: Any, name: str, path: str) -> None:
    """Record a file that is about to be read. Without a mode it may be in another directory than the present one."""
    global _changes
    if path.startswith(_SYSTEM) or is_own(frame) or is_recorded_otherwise() or _is_written(path):
        return
    status = os.stat(path)
    if stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST:
        file = InputFile(name, (status.st_ino, status.st_size, status.st_mtime_ns))
        if _read.get(path) != file and reader(frame, None, name) is Reader.PROGRAM:
            _read[path] = file
            _changes += 1


def _add_written(name: str) -> None:
    if len(_written) < _MOST_WRITTEN:
        _written.add(_whole(name))


def _is_written(path: str) -> bool:
    """Return whether the process has written a file, or made a directory that it is in."""
    while path not in _written:
        above = os.path.dirname(path)
        if above == path:
            return False
        path = above
    return True


def _whole(name: str) -> str:
    return os.path.normpath(os.path.join(os.getcwd(), name))
