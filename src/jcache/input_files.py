"""What the program has read and executed, from the import of jcache on.

What a file holds may reach a function by the state of a library, where no key sees it; `jcache.runtime.worlds` compares
it. The process has one audit hook, which is here; `next_hook` gets the events, too.
"""

# ruff: noqa: ANN401 - the arguments of audit events are of any type

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from jcache.attribution import is_in_packages, is_of_jcache, reads_for_itself

MOST: Final = 1_000  # files that are recorded,
_MOST_LOOKED_AT: Final = 4_000  # and that are read to find out whether they are text
LARGEST: Final = 256 << 10  # bytes of a file that is recorded,
MOST_BYTES: Final = 8 << 20  # and of all files
WRITING: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MOST_WRITTEN: Final = 10_000
_SYSTEM: Final = ("/proc/", "/dev/", "/sys/", "/etc/", "/run/", "/usr/lib/", "/usr/share/")
_STANDARD: Final = os.path.join(os.path.dirname(os.__file__), "")
_CODE: Final = (".pyc", ".so")
_BINARY: Final = re.compile(rb"[\0-\x08\x0e-\x1f]")
_EVENTS: Final = frozenset({"open", "exec"})


class InputFile(NamedTuple):
    """A file when it was read.

    Attributes:
        name: its path as the program gave it.
        identity: inode, size in bytes and modification time in nanoseconds since 1970.
        content: its text, in whatever encoding; of a file that has changed meanwhile, all its texts.
    """

    name: str
    identity: tuple[int, int, int]
    content: bytes


next_hook: Callable[[str, tuple[Any, ...]], None] | None = None  # gets all audit events
is_recorded_otherwise: Callable[[], object] = bool  # whether what this thread reads now counts in a key
_read: dict[str, InputFile] = {}  # by absolute path
_bytes = 0  # of their contents
_looked_at = 0
_executed: dict[str, None] = {}  # the files of code that was executed, in this order
_written: set[str] = set()  # files that the process itself has written, whose code is that of their writer
_changes = 0  # how often `_read` or `_executed` has changed
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


def executed() -> list[str]:
    """Return the absolute paths of the files whose code was executed, also of modules that are not loaded any more."""
    return [*_executed]


def changes() -> int:
    """Return how often more was recorded."""
    return _changes


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _EVENTS:  # the interpreter is ending, and has emptied this module
        return
    if event in _EVENTS:
        try:
            if not _is_of_packages(event, arguments[0]):
                _note(sys._getframe(1), event, *arguments)
        except Exception:  # noqa: BLE001, S110 - the program meets it itself
            pass
    if next_hook is not None:
        next_hook(event, arguments)


def _is_of_packages(event: str, given: Any) -> bool:
    """Return whether an event is one of the thousands for which a program's packages are imported."""
    if event == "open":
        return type(given) is str and given.endswith(_CODE)
    return is_in_packages(given.co_filename) or given.co_filename.startswith(_STANDARD)


def add(name: str) -> None:
    """Record a file that was read for a graph: a start that is served the graph does not read it."""
    with suppress(OSError, ValueError):
        _add(None, name, _whole(name))


def _note(frame: Any, event: str, given: Any, _mode: Any = None, flags: Any = 0, *_: Any) -> None:
    if event == "exec":
        _add_executed(given.co_filename)
    elif type(given) is int:  # a descriptor
        return
    else:
        name = os.fsdecode(given)
        if name[:1] != "/" and is_of_jcache(frame):  # in a directory that is open
            return
        if not flags & (os.O_WRONLY | os.O_TRUNC) and not name.endswith(_CODE):
            _add(frame, name, _whole(name))
        if flags & WRITING and len(_written) < _MOST_WRITTEN:
            _written.add(_whole(name))


def _add_executed(name: str) -> None:
    global _changes
    if name not in _executed and name[:1] != "<":
        path = os.path.abspath(name)
        if path not in _executed and not is_recorded_otherwise() and path not in _written and os.path.isfile(path):
            _executed[path] = None
            _changes += 1


def _add(frame: Any, name: str, path: str) -> None:
    """Record a file of text that is about to be read; once more if it has changed since."""
    global _bytes, _changes, _looked_at
    if len(_read) >= MOST or _looked_at >= _MOST_LOOKED_AT or is_recorded_otherwise():
        return
    if path.startswith(_SYSTEM) or is_in_packages(path):
        return
    status = os.stat(path)
    known, identity = _read.get(path), (status.st_ino, status.st_size, status.st_mtime_ns)
    is_small = status.st_size <= LARGEST and _bytes + status.st_size <= MOST_BYTES
    if not stat.S_ISREG(status.st_mode) or not is_small or (known is not None and known.identity == identity):
        return
    if not reads_for_itself(frame, name):
        _looked_at += 1
        with open(path, "rb", opener=_opened) as file:  # now, for the program may change or remove it before a call
            content = file.read(LARGEST + 1)
        if not _BINARY.search(content):
            before = b"" if known is None else known.content
            _read[path] = InputFile(name, identity, before + content)
            _bytes += len(content)
            _changes += 1


def _opened(path: str, flags: int) -> int:
    """Open a file and leave its access time as it is, where the system lets this user."""
    with suppress(PermissionError):
        return os.open(path, flags | getattr(os, "O_NOATIME", 0))
    return os.open(path, flags)


def _whole(name: str) -> str:
    """Return an absolute path; the directory above a link is that of its target, as for the system."""
    path = os.path.join(os.getcwd(), name)
    return os.path.realpath(path) if os.pardir in path else os.path.normpath(path)
