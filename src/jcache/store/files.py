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
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from jcache.errors import CannotWrite
from jcache.layout import TEMPORARY_PREFIX

RECENCY_BYTES: Final = 8
_WITHOUT_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
LATEST_NS: Final = 2**63 - 1  # what SQLite and our columns hold, in the year 2262
_READING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_IN_PLACE: Final = (
    os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
)  # no wait for a FIFO's reader
_NO_ATIME: Final = getattr(os, "O_NOATIME", 0)  # of Linux
_moved: dict[tuple[int, int], dict[int, Moved]] = {}  # by device and inode of a directory: see `moved_in`
_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _STATX_BTIME = -100, 0x100, 0x800  # linux/fcntl.h, linux/stat.h


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


def publish(path: str | Path, data: bytes | memoryview, *, directory: int | None = None) -> None:
    """Make the file at a path hold the data, atomically.

    Raises:
        OSError: as the file system says; the old file, if any, is then still whole and no temporary file is left.
    """
    temporary = create_temporary(os.path.dirname(path), directory=directory)
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


def create_temporary(above: str = "", *, directory: int | None = None) -> str:
    """Make a new, empty temporary file in a directory, named or open; return its path or name."""
    path = os.path.join(above, f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o666, dir_fd=directory))
    return path


def fill(temporary: str, data: bytes | memoryview, *, directory: int | None = None) -> None:
    """Write all of the data to a temporary file; unlink it if that fails."""
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        with open(descriptor, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


class Unpublished:
    """A new file that nobody sees until it is published; one that never is, is gone with its process.

    On Linux it has no name (``O_TMPFILE``), so that not even SIGKILL leaves anything; where the system or the file
    system knows no such files, it has a temporary one.

    Args:
        directory: descriptor of the one in which it is to be published.
    """

    __slots__ = ("_directory", "_file", "_temporary")

    def __init__(self, directory: int) -> None:
        self._directory = directory
        self._temporary: str | None = None
        try:
            self._file = os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666, dir_fd=directory)
            return
        except AttributeError:  # not Linux
            pass
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
                raise
        name = f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._file = os.open(name, flags, 0o666, dir_fd=directory)
        self._temporary = name

    def write(self, data: bytes | memoryview) -> None:
        """Write all of the data, after what was written before."""
        written = os.write(self._file, data)
        while written < len(data):
            data = memoryview(data)[written:]
            written = os.write(self._file, data)

    def settle(self, written_ns: int, used_ns: int | None = None) -> int:
        """Set its times, and return the moment as of when the bytes are known, by the file system's clock.

        Args:
            written_ns: the modification time, nanoseconds since 1970.
            used_ns: the access time; None for the same.
        """
        os.utime(self._file, ns=(written_ns if used_ns is None else used_ns, written_ns))
        return os.fstat(self._file).st_ctime_ns

    def take_mode_of(self, name: str) -> None:
        """Copy the permissions of the file of that name in the directory, if there is one."""
        with suppress(FileNotFoundError):
            os.fchmod(self._file, stat.S_IMODE(os.stat(name, dir_fd=self._directory).st_mode))

    def publish(self, name: str, *, replace: bool = False) -> None:
        """Give it a name in its directory, atomically, and close it.

        Raises:
            FileExistsError: the name is taken, and not to be replaced.
            OSError: it cannot be done.
        """
        here = self._directory
        if self._temporary is None:
            unseen = f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}" if replace else None  # no link replaces a file
            os.link(f"/proc/self/fd/{self._file}", unseen or name, dst_dir_fd=here, follow_symlinks=True)
            self._temporary = unseen
        elif not replace:
            with suppress(FileNotFoundError):
                os.lstat(name, dir_fd=here)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if self._temporary is not None:
            os.replace(self._temporary, name, src_dir_fd=here, dst_dir_fd=here)
            self._temporary = None
        self.discard()

    def discard(self) -> None:
        """Close it, and remove it if it was not published."""
        file, self._file = self._file, -1  # before it is closed: who is interrupted in between comes here again
        if file >= 0:
            os.close(file)
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._directory)
            self._temporary = None


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


def open_to_look(path: str | Path, *, directory: int | None = None) -> int:
    """Open a file so that reading it does not move its access time, which tells when a program last used it.

    The system allows that to the file's owner and to root; others' reading moves it, and `moved_in` tells where to.

    Raises:
        OSError: it cannot be opened.
    """
    if _NO_ATIME:
        try:
            return os.open(path, _READING | _NO_ATIME, dir_fd=directory)
        except PermissionError as error:
            if error.errno != errno.EPERM:
                raise
    descriptor = os.open(path, _READING, dir_fd=directory)
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


def moved_in(directory: str | Path) -> Mapping[int, Moved]:
    """Return the access times that this process has moved in a directory, by the inodes of the files."""
    if not _moved:
        return {}
    try:
        status = os.stat(directory)
    except OSError:
        return {}
    return _moved.get((status.st_dev, status.st_ino), {})


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
    descriptor = os.open(path, _READING, dir_fd=directory) if as_use else open_to_look(path, directory=directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with open(descriptor, "rb", buffering=0) as file:
        if limit is None:
            return file.readall()
        return os.pread(descriptor, limit, 0)


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
    copy = Unpublished(directory)
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
    descriptor = os.open(name, _IN_PLACE | os.O_APPEND, 0o666, dir_fd=directory)
    try:
        if os.fstat(descriptor).st_nlink > 1:  # it was linked since
            raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), name)
        os.write(descriptor, data)
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    finally:
        os.close(descriptor)


def write_recency(path: str | Path, time_ns: int, *, directory: int | None = None) -> None:
    """Write a sidecar in one go and in place, so that no reader sees an empty one and the directory stays unchanged.

    JAX reads it as an 8-byte little-endian number of nanoseconds since 1970; a time before or long after becomes the
    nearest that we keep. What is no sidecar, or has other names (see `separate`), is replaced by a new file.
    """
    data = min(max(time_ns, 0), LATEST_NS).to_bytes(RECENCY_BYTES, "little")
    descriptor = os.open(path, _IN_PLACE, 0o666, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_nlink > 1 or status.st_size not in (0, RECENCY_BYTES):
            return publish(path, data, directory=directory)
        try:
            os.pwrite(descriptor, data, 0)
        except OSError:
            if status.st_size == 0:  # of a full disk: none is better than half a one
                os.unlink(path, dir_fd=directory)
            raise
    finally:
        os.close(descriptor)


def read_recency(path: str | Path, *, directory: int | None = None) -> int | None:
    """Return the time in a sidecar, in ns since 1970; None if it is absent, unreadable, not 8 bytes or after 2262."""
    try:
        descriptor = os.open(path, _READING, dir_fd=directory)
    except OSError:
        return None
    try:
        data = os.read(descriptor, RECENCY_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    time_ns = int.from_bytes(data, "little")
    return time_ns if len(data) == RECENCY_BYTES and time_ns <= LATEST_NS else None


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


def remove_tree(name: str, *, directory: int) -> int:
    """Remove a file or a directory with all below it, links not followed, and return the bytes.

    Raises:
        OSError: it cannot be removed.
    """
    import shutil

    _, size = tree_size(name, directory=directory)
    if stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode):
        shutil.rmtree(name, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)
    return size


def born_ns(path: Path) -> int | None:
    """Return when a file or directory was made, nanoseconds since 1970; None where the file system does not tell.

    Linux tells by statx(2), which Python does not offer before 3.15; the offsets are those of ``struct statx``.
    """
    import ctypes
    import sys

    if sys.platform != "linux":
        born: float | None = getattr(os.lstat(path), "st_birthtime", None)
        return None if born is None else int(born * 1e9)
    buffer = ctypes.create_string_buffer(256)
    try:
        statx = ctypes.CDLL(None).statx
    except AttributeError:  # a C library older than glibc 2.28
        return None
    if statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, buffer) != 0:
        return None
    if not struct.unpack_from("=I", buffer, 0)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, 80)
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def tree_size(path: str | Path, *, directory: int | None = None) -> tuple[int, int]:
    """Return the number of files below a directory (or 1 for a file), and their bytes; links are not followed."""
    try:
        status = os.lstat(path, dir_fd=directory)
    except OSError:
        return 0, 0
    if not stat.S_ISDIR(status.st_mode):
        return 1, status.st_size
    files = size = 0
    for _, directories, names, below in os.fwalk(path, dir_fd=directory):
        for name in (*names, *directories):
            with suppress(OSError):
                status = os.lstat(name, dir_fd=below)
                if not stat.S_ISDIR(status.st_mode):
                    files, size = files + 1, size + status.st_size
    return files, size
