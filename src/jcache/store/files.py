"""Read, publish and remove single files, so that a visible name is always a whole file.

A file is published by writing a temporary one in the same directory and `os.replace`: a reader sees all of the old
or all of the new bytes. Nothing here follows a symbolic link or opens anything but a regular file.

Where ``directory`` is given, it is the descriptor of an open directory, and the path is the name of a file in it: what
is done then stays in that directory (see `jcache.store.directories`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from jcache.errors import CannotWrite
from jcache.layout import TEMPORARY_PREFIX
from jcache.store.pending_file import PendingFile
from jcache.store.unmoved_reads import READING, open_to_look

_WITHOUT_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
IN_PLACE: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # no wait for a FIFO's reader


_REFUSED = {
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.ENAMETOOLONG: "the name is too long",
}


@contextmanager
def refusal(action: str) -> Iterator[None]:
    """Turn an `OSError` of the block into a `CannotWrite` that names the action and the reason."""
    try:
        yield
    except OSError as error:
        reason = _REFUSED.get(error.errno or 0, error.strerror or str(error))
        raise CannotWrite(f"Cannot {action}: {reason}.") from error


def publish(path: str | Path, data: bytes | memoryview, *, directory: int | None = None, mode: int = 0o666) -> None:
    """Make the file at a path hold the data, atomically.

    Args:
        path: the path.
        data: its new content.
        directory: as everywhere here.
        mode: the file's permissions, which the process's umask lessens.

    Raises:
        OSError: as the file system says; the old file, if any, is then still whole and no temporary file is left.
    """
    temporary = create_temporary(os.path.dirname(path), directory=directory, mode=mode)
    try:
        fill(temporary, data, directory=directory)
        os.replace(temporary, path, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def touch(name: str, *, directory: int) -> None:
    """Make an empty file unless something has its name, perhaps a file of somebody else's.

    Raises:
        OSError: as the file system says.
    """
    with suppress(FileExistsError):
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=directory))


def create_temporary(above: str = "", *, directory: int | None = None, mode: int = 0o666) -> str:
    """Make a new, empty temporary file in a directory, named or open; return its path or name."""
    path = os.path.join(above, temporary_name())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    os.close(os.open(path, flags, mode, dir_fd=directory))
    return path


def temporary_name() -> str:
    """Return a name for a temporary file that no other has."""
    return f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"


def fill(temporary: str, data: bytes | memoryview, *, directory: int | None = None) -> int:
    """Write all of the data to a temporary file, which is made if it is absent; unlink it if that fails.

    Returns:
        The time as of which the bytes are in the file, nanoseconds since 1970, by the file system's clock.
    """
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o666, dir_fd=directory)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            return os.fstat(descriptor).st_ctime_ns
        finally:
            os.close(descriptor)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


class NoLinks(OSError):
    """The file system has no hard links."""


def give_name(temporary: str, name: str, *, directory: int) -> bool:
    """Give a file that is written the name that it is to have, unless something has that name: then return False.

    Unlike a rename, it never takes the place of a file that another process has published a moment before.

    Raises:
        NoLinks: it cannot be done here.
        OSError: as of ``os.link``.
    """
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _WITHOUT_LINKS:
            raise NoLinks(*error.args) from error
        raise
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)
    return True


def read(path: str | Path, limit: int | None = None, *, directory: int | None = None, as_use: bool = False) -> bytes:
    """Return the bytes of a regular file, at most ``limit`` of them.

    Args:
        path: which file.
        limit: how many bytes at most; None for all.
        directory: as everywhere here.
        as_use: whether it is read for a program, so that its access time may move; else it stays where it can.

    Raises:
        OSError: it cannot be read; a symbolic link, FIFO, directory or device is refused with ``EINVAL`` or ``ELOOP``.
    """
    descriptor = os.open(path, READING, dir_fd=directory) if as_use else open_to_look(path, directory=directory)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.pread(descriptor, limit, 0) if limit is not None else _read_whole(descriptor, status.st_size)
    finally:
        os.close(descriptor)


def _read_whole(descriptor: int, size: int) -> bytes:
    """Return all bytes of an open file, in one call unless it changes meanwhile or the system gives fewer at once."""
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        return data + file.readall()


def separate(name: str, *, directory: int, limit: int | None = None) -> None:
    """Give a name a file of its own where its file has other names: they may lie outside the root, as in a backup.

    Whatever changes a file in place calls this first. The other names keep the old file, which is not changed.

    Args:
        name: of a regular file; nothing is done if there is none.
        directory: descriptor of the directory that it is in.
        limit: how many bytes to keep at most; None for all.

    Raises:
        OSError: it cannot be read, or the copy cannot be written.
    """
    if not is_linked(name, directory=directory):
        return
    copy = PendingFile(directory)
    try:
        copy.write(read(name, limit, directory=directory))
        copy.take_mode_of(name)
        copy.publish(name, replace=True)
    finally:
        copy.discard()


def is_linked(name: str, *, directory: int) -> bool:
    """Return whether a name belongs to a regular file that has other names, too."""
    try:
        status = os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def append(name: str, data: bytes, *, directory: int, limit: int) -> int:
    """Append to a file, which is made if it is absent; return where the data ends, whoever else appends.

    Args:
        name: of the file.
        data: what to append.
        directory: descriptor of the directory that it is in.
        limit: how many bytes to copy at most, of a file that has other names (see `separate`).

    Raises:
        OSError: it cannot be written.
    """
    separate(name, directory=directory, limit=limit)
    descriptor = os.open(name, IN_PLACE | os.O_APPEND, 0o666, dir_fd=directory)
    try:
        if os.fstat(descriptor).st_nlink > 1:  # it was linked since
            raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), name)
        os.write(descriptor, data)
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)


def remove(path: str | Path, *, directory: int | None = None) -> int | None:
    """Unlink a regular file and return its bytes; None if it is already gone.

    Raises:
        OSError: it cannot be removed, or is not a regular file (``EINVAL``).
    """
    try:
        status = os.lstat(path, dir_fd=directory)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        os.unlink(path, dir_fd=directory)
    except FileNotFoundError:
        return None
    return status.st_size
