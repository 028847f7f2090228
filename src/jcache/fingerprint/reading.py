"""Which files are read and which directories are listed, as far as Python's audit events tell."""

# ruff: noqa: ANN401 - arguments of audit events

import contextlib
import hashlib
import os
import sys
import threading
from types import FrameType
from typing import Any, Final

from jcache.fingerprint import origins
from jcache.fingerprint.canonical import several, sha256, text
from jcache.fingerprint.texts import shortened

FILE: Final = "file "
DIRECTORY: Final = "directory "
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SYSTEM: Final = ("/proc/", "/dev/", "/sys/")
_LISTS: Final = frozenset({"os.listdir", "os.scandir"})
_CACHING: Final = ("jax", "etils")
_lock = threading.Lock()
_active: tuple["Files", ...] = ()
_hooked = False


class Files:
    """Collects what is read between `begin` and `end` in threads that `hears` says it hears of."""

    def __init__(self, hears: Any) -> None:
        self.reason: str | None = None
        self._hears = hears
        self._read: dict[str, tuple[int, ...] | None] = {}
        self._written: set[str] = set()

    def begin(self) -> None:
        """Starts collecting."""
        global _active, _hooked
        with _lock:
            _active = (*_active, self)
            if not _hooked:
                _hooked = True
                sys.addaudithook(_hear)  # which cannot be undone

    def end(self) -> None:
        """Stops collecting."""
        global _active
        with _lock:
            _active = tuple(each for each in _active if each is not self)

    def opened(self, path: str, *, writes: bool) -> None:
        """Takes down a file that is opened."""
        if writes:
            self._written.add(path)
        elif path not in self._written and FILE + path not in self._read:
            self._read[FILE + path] = _stamp(path)

    def listed(self, path: str) -> None:
        """Takes down a directory that is listed."""
        self._read.setdefault(DIRECTORY + path, None)

    def hears(self) -> bool:
        """Whether what happens in this thread is of interest."""
        return bool(self._hears())

    def parts(self) -> dict[str, str]:
        """What was read, as it is now."""
        for label, stamp in self._read.items():
            path = label.removeprefix(FILE)
            if label.startswith(FILE) and (path in self._written or _stamp(path) != stamp):
                self.reason = f"`{path}` was read and has changed meanwhile"
        return {label: read_now(label) for label in self._read}


def read_now(label: str) -> str:
    """The content of a file or directory that a label names, in words."""
    try:
        if label.startswith(DIRECTORY):
            names = sorted(os.listdir(label.removeprefix(DIRECTORY)))
            return f"{len(names)} names {shortened(sha256(several(b'names', map(text, names))))}"
        with open(label.removeprefix(FILE), "rb") as file:
            return f"{os.fstat(file.fileno()).st_size} bytes {hashlib.file_digest(file, 'sha256').hexdigest()}"
    except (OSError, ValueError):
        return "absent"


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active or (event != "open" and event not in _LISTS):
        return
    with contextlib.suppress(Exception):  # an audit hook that raises stops what it hears of
        _take_down(event, arguments, sys._getframe(1))


def _take_down(event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
    given = arguments[0] if arguments[0] is not None else "."
    if isinstance(given, int):
        return
    path = os.path.abspath(os.fsdecode(given))
    listening = [each for each in _active if each.hears()]
    if not listening or path.startswith(_SYSTEM) or origins.of_path(path) or not _is_of_users(frame):
        return
    for each in listening:
        if event in _LISTS:
            each.listed(path)
        else:
            mode, flags = arguments[1], arguments[2]
            each.opened(path, writes=any(c in mode for c in "wax+") if mode else bool((flags or 0) & _WRITES))


def _is_of_users(frame: FrameType | None) -> bool:
    """Whether it is done for the user's code: not to import something, nor for a cache of jcache's or JAX's."""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith("<frozen importlib"):
            return False
        origin = origins.of_path(path)
        if origin != origins.STDLIB:
            return origin != origins.OURS and not (origin or "").startswith(_CACHING)
        frame = frame.f_back
    return True
