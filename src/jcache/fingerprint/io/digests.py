"""Short texts that stand for files, directories and environment variables when these are compared."""

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
MAX_BYTES: Final = 64 << 20  # of all files that a strict block reads
MOST_BYTES: Final = 4 << 30  # of all files that another block or `now` reads
_WRITE_AHEAD_LOG: Final = "-wal"  # of an SQLite database; SQLite makes an empty one even to read
_CHUNK: Final = 1 << 20
_SHOWN: Final = 60  # characters of a variable's value; longer ones are digested
_SECRET: Final = re.compile("auth|credential|key|pass|secret|token", re.IGNORECASE)


class Look(StrEnum):
    """Kind of a read: the first word of its label."""

    FILE = "file"
    DIRECTORY = "directory"
    VARIABLE = "environment"
    KIND = "existence"
    STATUS = "status"
    LINK = "link"


_AT_PATHS: Final = frozenset({Look.KIND, Look.STATUS, Look.LINK})  # what there is at a path
_ALL: Final = frozenset(Look)


def label_of(look: Look, name: str) -> str:
    """Return the label of a read among the parts; `name` is a path or the name of a variable."""
    return f"{look} {name}"


def is_read(label: str) -> bool:
    """Return whether a label is that of a read, so that `now` has a text for it."""
    return label.partition(" ")[0] in _ALL


def is_look(label: str) -> bool:
    """Return whether a label is about what there is at a path, not about the content."""
    return label.partition(" ")[0] in _AT_PATHS


def is_path(label: str) -> bool:
    """Return whether a label is that of a read at a path."""
    return is_read(label) and not label.startswith(f"{Look.VARIABLE} ")


def path_of(label: str) -> str:
    return label.partition(" ")[2]


def now(parts: Iterable[str]) -> Mapping[str, str]:
    """Return the present texts of reads by their labels: equal to the earlier parts if nothing has changed."""
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
    """Digester of files, up to a number of bytes in all."""

    def __init__(self, max_bytes: int = MOST_BYTES) -> None:
        self._left = max_bytes

    def of_file(self, path: str) -> str:
        """Return the size and the digest of a file, or why there are none."""
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):  # before it is opened: opening a pipe has an effect
                return IRREGULAR
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                text = self._digested(descriptor)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return ABSENT
        except (OSError, ValueError) as error:
            return f"unreadable ({type(error).__name__})"
        return ABSENT if text.startswith("0 ") and path.endswith(_WRITE_AHEAD_LOG) else text

    def _digested(self, descriptor: int) -> str:
        expected = os.fstat(descriptor).st_size
        digest = hashlib.sha256()
        size = 0
        while chunk := os.read(descriptor, min(_CHUNK, self._left + 1)):
            size += len(chunk)
            self._left -= len(chunk)
            if self._left < 0 or self._left < expected - size:
                self._left = max(self._left, 0)
                return TOO_LARGE
            digest.update(chunk)
        return f"{size} bytes {digest.hexdigest()}"


def seen(path: str, look: Look) -> str:
    """Return what there is at a path, as far as `look` asks for it."""
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
    """Return the value of an environment variable, or its digest if it is long or if its name suggests a secret."""
    value = os.environ.get(name)
    if value is None:
        return ABSENT
    if len(value) <= _SHOWN and value.isprintable() and not _SECRET.search(name):
        return repr(value)
    return f"{len(value)} characters {hashlib.sha256(os.fsencode(value)).hexdigest()}"
