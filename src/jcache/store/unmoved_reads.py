"""Open files without moving their access times; where that is not allowed, note which times have moved.

An access time tells when a program last used an entry, so that jcache's own reading must not move it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

READING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_ATIME: Final = getattr(os, "O_NOATIME", 0)  # of Linux
_moved: dict[tuple[int, int], dict[int, Moved]] = {}  # by device and inode of a directory: see `moved_in`


class Moved(NamedTuple):
    """A change of a file's access time by reading, in nanoseconds since 1970.

    Attributes:
        to_ns: the time after reading.
        from_ns: the time before; if jcache has moved it repeatedly, the time of the last use by a program.
    """

    to_ns: int
    from_ns: int


def add_moved(known: dict[int, Moved], more: Mapping[int, Moved]) -> None:
    """Add what was moved later, by inodes."""
    for inode, (to_ns, from_ns) in more.items():
        before = known.get(inode)
        known[inode] = Moved(to_ns, before.from_ns if before and before.to_ns == from_ns else from_ns)


def open_to_look(path: str | Path, *, directory: int | None = None) -> int:
    """Open a file so that reading it does not move its access time, which tells when a program last used it.

    The system allows that to the file's owner and to root; others' reading moves it, and `moved_in` tells where to.

    Raises:
        OSError: it cannot be opened.
    """
    if _NO_ATIME:
        try:
            return os.open(path, READING | _NO_ATIME, dir_fd=directory)
        except PermissionError as error:
            if error.errno != errno.EPERM:
                raise
    descriptor = os.open(path, READING, dir_fd=directory)
    before = os.fstat(descriptor)
    with suppress(OSError):
        os.pread(descriptor, 1, 0)  # which moves it now, if reading does; under relatime no later reading does
    after = os.fstat(descriptor)
    if after.st_atime_ns != before.st_atime_ns:
        above = directory if directory is not None else os.path.dirname(path) or "."
        note_moved_in(above, {after.st_ino: Moved(after.st_atime_ns, before.st_atime_ns)})
    return descriptor


def note_moved_in(directory: str | Path | int, moved: Mapping[int, Moved]) -> None:
    """Remember moved access times of files in a directory, by the inodes of the files."""
    if moved:
        with suppress(OSError):
            status = os.stat(directory)
            add_moved(_moved.setdefault((status.st_dev, status.st_ino), {}), moved)


def moved_of(path: str, inode: int) -> Moved | None:
    """Return the access time that this process has moved of a file, if it has."""
    return moved_in(os.path.dirname(path)).get(inode) if _moved else None


def moved_in(directory: str | Path) -> Mapping[int, Moved]:
    """Return the access times that this process has moved in a directory, by the inodes of the files."""
    if not _moved:
        return {}
    try:
        status = os.stat(directory)
    except OSError:
        return {}
    return _moved.get((status.st_dev, status.st_ino), {})
