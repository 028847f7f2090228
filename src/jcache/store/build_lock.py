"""One builder at a time: who asks for what somebody is building waits for that one, and then finds it built.

    ROOT/.jcache/building/<key>.lock      locked (``flock``) by the one who builds the entry of the key

The lock belongs to the open file, so it holds between threads as between processes, and the system takes it from a
process that is killed. Its holder unlinks the file before letting go; who then gets the lock of a file that has that
name no more tries again with the one that has. Where nothing can be locked (a root that is read-only or gone, a file
system without locks), everybody builds.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from jcache import clock
from jcache.forking import TellInChild
from jcache.layout import Root
from jcache.store.directories import Directories, opened

_SUFFIX: Final = ".lock"
_BUSY: Final = (errno.EAGAIN, errno.EACCES)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05  # seconds


@contextmanager
def single_flight(root: Root, key: str, *, done: Callable[[], bool], at_most: float | None = None) -> Iterator[bool]:
    """Wait until nobody else builds the entry of a key, and keep others from it during the block.

    Args:
        root: of the entry.
        key: of the entry.
        done: whether the entry is there; asked while we wait.
        at_most: seconds to wait. After them, as where nothing can be locked, the block runs all the same. None: as
            long as it takes.

    Yields:
        Whether that took waiting. Either way the entry may be there by now: look again.
    """
    lock = _Lock(root, f"{key}{_SUFFIX}")
    try:
        yield lock.wait(done, at_most)
    finally:
        lock.release()


def sweep(root: Root, before_ns: int) -> int:
    """Remove the lock files that killed builders have left, older than a time; return how many."""
    removed = 0
    names: list[str] = []
    with suppress(OSError), opened(root, root.building) as directory:
        there = (name for name in sorted(os.listdir(directory)) if name.endswith(_SUFFIX))
        names = [name for name in there if os.lstat(name, dir_fd=directory).st_mtime_ns < before_ns]
    for name in names:
        lock = _Lock(root, name)
        with suppress(OSError, ImportError):
            removed += lock.is_free()
        lock.release()
    return removed


class _Lock:
    """The lock file of a key."""

    def __init__(self, root: Root, name: str) -> None:
        self._root = root
        self._name = name
        self._directories = Directories(root)
        self._file: int | None = None
        self._held = False
        _LOCKS.add(self)

    def wait(self, done: Callable[[], bool], at_most: float | None) -> bool:
        """Take the lock, or leave it where it is of no use; return whether that took waiting."""
        until = None if at_most is None else clock.monotonic() + at_most
        pause, waited = _FIRST_PAUSE, False
        try:
            while not self.is_free():
                waited = True
                if done() or (until is not None and clock.monotonic() > until):
                    break
                clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        except (OSError, ImportError):  # no locks here, or no place for them
            self.release()
        return waited

    def is_free(self) -> bool:
        """Take the lock, if it can be had at once; return whether that is so."""
        import fcntl  # not on Windows

        directory = self._directories.descriptor(self._root.building, make=True)
        if self._file is None:
            self._file = _open(self._name, directory)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _BUSY:
                raise
            return False
        with suppress(FileNotFoundError):
            self._held = os.path.samestat(os.fstat(self._file), os.lstat(self._name, dir_fd=directory))
        if not self._held:  # its holder has unlinked it before letting go
            self._close_file()
        return self._held

    def release(self) -> None:
        """Let go of the file, and remove it if the lock is ours."""
        if self._held:
            self._held = False
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._directories.descriptor(self._root.building))
        self._close()

    def leave_to_parent(self) -> None:
        """Close what a forked child has inherited: what the parent holds stays its own."""
        self._held = False
        self._close()

    def _close(self) -> None:
        self._close_file()
        self._directories.close()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)


def _open(name: str, directory: int) -> int:
    flags = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(name, os.O_RDWR | flags, 0o666, dir_fd=directory)
    except PermissionError:  # of another user, who is building
        return os.open(name, os.O_RDONLY | flags, 0o666, dir_fd=directory)


_LOCKS: Final = TellInChild(_Lock.leave_to_parent)
