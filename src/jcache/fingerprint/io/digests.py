"""Files and environment variables as short texts, by which they are compared."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from jcache.frozen import Frozen

ABSENT: Final = "absent"
IRREGULAR: Final = "no regular file"
TOO_LARGE: Final = "too large to be digested"
MAX_BYTES: Final = 64 << 20  # of all files together that a strict block reads
MOST_BYTES: Final = 4 << 30
_WRITE_AHEAD_LOG: Final = "-wal"  # of a database of SQLite, which makes an empty one to read
_CHUNK: Final = 1 << 20
_SHOWN: Final = 60  # characters of a variable's value; longer ones are digested
_SECRET: Final = re.compile("auth|credential|key|pass|secret|token", re.IGNORECASE)


class Look(StrEnum):
    """What is read; the first word of its label."""

    FILE = "file"
    DIRECTORY = "directory"
    VARIABLE = "environment"
    KIND = "existence"
    STATUS = "status"
    LINK = "link"


_AT_PATHS: Final = frozenset({Look.KIND, Look.STATUS, Look.LINK})  # what can be asked of a path
_ALL: Final = frozenset(Look)


def label_of(look: Look, name: str) -> str:
    """Return under which label it stands among the parts what was read: a file, a directory, a variable, a path."""
    return f"{look} {name}"


def is_read(label: str) -> bool:
    """Return whether a label is one of those of which `now` tells what they stand for."""
    return label.partition(" ")[0] in _ALL


def is_look(label: str) -> bool:
    """Return whether a label is one of what there was at a path."""
    return label.partition(" ")[0] in _AT_PATHS


def path_of(label: str) -> str:
    return label.partition(" ")[2]


def now(parts: Iterable[str]) -> Mapping[str, str]:
    """Return what was read, by its labels, as it is now: equal to the parts if nothing has changed."""
    contents = Contents()
    return Frozen({label: _now(label, contents) for label in parts if is_read(label)})


def _now(label: str, contents: Contents) -> str:
    look, _, name = label.partition(" ")
    if look == Look.FILE:
        return contents.of_file(name)
    if look == Look.DIRECTORY:
        return names_in(name)
    return variable(name) if look == Look.VARIABLE else seen(name, Look(look))


class Contents:
    """Digests files, up to a number of bytes in all."""

    def __init__(self, max_bytes: int = MOST_BYTES) -> None:
        self._left = max_bytes

    def of_file(self, path: str) -> str:
        """The size and the digest of a file, or why there are none."""
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # before it is opened: a pipe notices that
                return IRREGULAR
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except (OSError, ValueError) as error:
            return f"unreadable ({type(error).__name__})"
        try:
            text = self._digested(descriptor)
            return ABSENT if text.startswith("0 ") and path.endswith(_WRITE_AHEAD_LOG) else text
        except OSError as error:
            return f"unreadable ({type(error).__name__})"
        finally:
            os.close(descriptor)

    def _digested(self, descriptor: int) -> str:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return IRREGULAR
        digest = hashlib.sha256()
        size = 0
        while chunk := os.read(descriptor, min(_CHUNK, self._left + 1)):
            size += len(chunk)
            self._left -= len(chunk)
            if self._left < 0 or self._left < status.st_size - size:
                self._left = max(self._left, 0)
                return TOO_LARGE
            digest.update(chunk)
        return f"{size} bytes {digest.hexdigest()}"


def seen(path: str, look: Look) -> str:
    """What there is at a path, as far as it was asked for."""
    try:
        if look is Look.LINK:
            return (
                f"to {os.readlink(path)!a}" if os.path.islink(path) else "no link" if os.path.lexists(path) else ABSENT
            )
        status = os.stat(path)
    except (OSError, ValueError) as error:
        absent = isinstance(error, FileNotFoundError | NotADirectoryError)
        return ABSENT if absent or look is Look.KIND else f"unknown ({type(error).__name__})"
    mode = status.st_mode
    kind = "a file" if stat.S_ISREG(mode) else "a directory" if stat.S_ISDIR(mode) else "something else"
    if look is Look.KIND:
        return kind
    return f"{kind} of {status.st_size} bytes, mode {stat.S_IMODE(mode):o}, changed at {status.st_mtime_ns}"


def names_in(path: str) -> str:
    try:
        names = sorted(os.listdir(path))
    except (OSError, ValueError):
        return ABSENT
    return f"{len(names)} names {hashlib.sha256(os.fsencode('/'.join(names))).hexdigest()}"


def variable(name: str) -> str:
    """The value of an environment variable, or its digest if it is long, or secret by its name."""
    value = os.environ.get(name)
    if value is None:
        return ABSENT
    if len(value) <= _SHOWN and value.isprintable() and not _SECRET.search(name):
        return repr(value)
    return f"{len(value)} characters {hashlib.sha256(os.fsencode(value)).hexdigest()}"
