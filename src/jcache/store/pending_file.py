"""A new file without a name, which becomes visible as a whole when it is published."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from jcache.layout import TEMPORARY_PREFIX


class PendingFile:
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
