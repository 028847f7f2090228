"""JAX's lock on a directory of entries.

A bounded JAX takes ``.lockfile`` (a `filelock.FileLock`, that is ``flock`` on POSIX) around every get and put, waits
10 s for it and then gives up, which costs a recompile. filelock looks every 50 ms whether the lock is free, so a holder
that lets it go for less than that may never be noticed. jcache holds it for 0.1 s at most (`HOLD_S`) and then leaves it
free for as long (`FREE_S`): whoever waits gets it after at most 0.2 s, unless one system call of ours takes longer.

The lock is taken by the same ``flock`` on the same file, but not by filelock: from version 4 on it resolves the path
when it takes the lock, ``/proc/self/fd/N`` included, and would make its file in another directory if a link were put in
the way at that moment.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from jcache import clock
from jcache.errors import CannotWrite, InvalidValue, Locked
from jcache.layout import LOCK_NAME, Kind, Root
from jcache.store.directories import opened
from jcache.store.files import refusal, separate, touch
from jcache.units import NANOSECONDS, parse_age

DEFAULT_TIMEOUT: Final = 10.0
VARIABLE: Final = "JCACHE_LOCK_TIMEOUT"
HOLD_S: Final = 0.1  # seconds, for which the lock is held at most
FREE_S: Final = 0.1  # and then free at least: twice what filelock waits between two looks
_RETRY_FOR_S: Final = 60.0
_POLL_S: Final = 0.01  # seconds between two attempts
_OPENING: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WITHOUT_LOCKS: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
_NOTICE_AFTER: Final = 1.0  # seconds of silence before the one who waits says so


def timeout_in(environment: Mapping[str, str]) -> float:
    """Return the seconds to wait for a lock: ``$JCACHE_LOCK_TIMEOUT``, an age or a number of seconds, else 10.

    Raises:
        InvalidValue: it cannot be read.
    """
    text = environment.get(VARIABLE)
    if text is None:
        return DEFAULT_TIMEOUT
    try:
        return parse_age(text if not text.replace(".", "", 1).isdigit() else text + "s") / NANOSECONDS
    except InvalidValue as error:
        raise InvalidValue(f"${VARIABLE}: {error}") from None


@contextmanager
def locked(
    root: Root, kind: Kind, *, timeout: float = DEFAULT_TIMEOUT, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold the lock on a root's entries of a kind for the block.

    Args:
        root: whose entries.
        kind: which of them.
        timeout: seconds to wait for it.
        waiting: is told once, as a sentence, for whom we wait, if that takes over a second.

    Raises:
        Locked: it could not be had in time.
        CannotWrite: the lock file cannot be made here (a read-only root, a full disk).
    """
    path = root.locks(kind) / LOCK_NAME
    with ExitStack() as stack:
        if not os.path.isdir(path.parent):
            raise CannotWrite(f"Cannot lock {path.parent}: it is not there.")
        with refusal(f"lock {path}"):
            directory = stack.enter_context(opened(root, path.parent))
            _check_file(path, directory, timeout)
        first = min(timeout, _NOTICE_AFTER) if waiting else timeout
        held = _acquire(directory, path, first)
        if held is None and waiting and timeout > first:
            waiting(f"Waiting for {path}, held by {_holder(path)} …")
            held = _acquire(directory, path, timeout - first)
        if held is None:
            raise Locked(
                f"{path} was held by {_holder(path)} for {timeout:g} s: try again later, or raise JCACHE_LOCK_TIMEOUT."
            )
        stack.callback(_release, held)
        yield


def _check_file(path: Path, directory: int, timeout: float) -> None:
    """Raise CannotWrite if what is to be locked is somebody's file, since some versions of filelock empty it.

    An empty file with other names, as a backup of hard links leaves it, is replaced by a file with this name alone.

    Raises:
        Locked: it has other names, and somebody held it until the timeout.
    """
    end = clock.monotonic() + timeout
    while True:
        try:
            status = os.lstat(LOCK_NAME, dir_fd=directory)
        except FileNotFoundError:
            return
        if stat.S_ISLNK(status.st_mode):
            raise CannotWrite(f"{path} is a symbolic link, not a lock: remove it and try again.")
        if not stat.S_ISREG(status.st_mode) or status.st_nlink == 1:
            return
        if status.st_size > 0:
            raise CannotWrite(f"{path} is a file of something else, not a lock: move it away and try again.")
        _replace_shared(directory)
        if clock.monotonic() >= end and _is_shared(directory):
            raise Locked(
                f"{path} has other names, too, as in a backup of hard links, and was held by {_holder(path)} for "
                f"{timeout:g} s: try again later, or raise JCACHE_LOCK_TIMEOUT."
            )
        clock.sleep(_POLL_S)


def _is_shared(directory: int) -> bool:
    """Return whether the lock file of an open directory has other names, too."""
    try:
        return os.lstat(LOCK_NAME, dir_fd=directory).st_nlink > 1
    except FileNotFoundError:
        return False


def _replace_shared(directory: int) -> None:
    """Replace a lock file that has other names by one that has none, unless somebody holds it."""
    with suppress(FileNotFoundError):  # some versions of filelock remove what they let go of
        lock = os.open(LOCK_NAME, os.O_RDONLY | _OPENING, dir_fd=directory)
        try:
            if _is_locked_now(lock, directory):
                separate(LOCK_NAME, directory=directory, limit=0)
                clock.sleep(FREE_S)  # whoever has opened the old file fails to lock it, and opens the new one
        finally:
            os.close(lock)


def _acquire(directory: int, path: Path, timeout: float) -> int | None:
    """Return the descriptor of the lock file of an open directory, locked; None if others hold it until the timeout.

    Args:
        directory: descriptor of the directory.
        path: the path of the lock file, for messages.
        timeout: seconds to wait; negative for no limit.
    """
    end = clock.monotonic() + timeout
    with refusal(f"lock {path}"):
        while True:
            lock = os.open(LOCK_NAME, os.O_RDWR | os.O_CREAT | _OPENING, 0o666, dir_fd=directory)
            is_held = False
            try:
                is_held = _is_locked_now(lock, directory)
            except OSError as error:
                if error.errno in _WITHOUT_LOCKS:
                    raise CannotWrite(f"Cannot lock {path}: its file system has no locks.") from None
                raise
            finally:
                if not is_held:
                    os.close(lock)
            if is_held:
                return lock
            if timeout >= 0 and clock.monotonic() >= end:
                return None
            clock.sleep(_POLL_S)


def _is_locked_now(lock: int, directory: int) -> bool:
    """Lock an open file; return whether nobody else holds it, and it is the directory's lock file still."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(lock), os.lstat(LOCK_NAME, dir_fd=directory))
    except (BlockingIOError, FileNotFoundError):
        return False


def _release(lock: int) -> None:
    """Let a lock go, also where a forked child has a copy of the descriptor."""
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        os.close(lock)


def in_batches(
    root: Root,
    kind: Kind,
    steps: Iterator[None],
    *,
    timeout: float = DEFAULT_TIMEOUT,
    waiting: Callable[[str], None] | None = None,
) -> None:
    """Run an iterator's steps under the lock, as many in each hold as its time allows, with pauses in between."""
    while True:
        with locked(root, kind, timeout=timeout, waiting=waiting):
            if run_until(steps, clock.monotonic() + HOLD_S):
                return
        clock.sleep(FREE_S)


def run_until(steps: Iterator[None], end: float) -> bool:
    """Run steps until a time of `clock.monotonic`, at least one; return whether that was all."""
    return not any(clock.monotonic() >= end for _ in steps)


class RootLocks:
    """The locks on a root's entries, as one store takes them.

    Args:
        root: whose entries.
        timeout: seconds to wait for a lock.
        waiting: is told, as a sentence, for whom we wait.
        bounded: whether entries are put under a bound.
        retry: seconds that `hold` waits for a lock while one has timed out lately; None for no such limit.
    """

    def __init__(
        self,
        root: Root,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        waiting: Callable[[str], None] | None = None,
        bounded: bool = False,
        retry: float | None = None,
    ) -> None:
        self.bounded = bounded
        self._root = root
        self._timeout = timeout
        self._waiting = waiting
        self._retry = retry
        self._retry_until = 0.0

    @contextmanager
    def hold(self, kind: Kind, *, at_most: float | None = None) -> Iterator[None]:
        """Hold the lock on the entries of a kind for the block; raise as `locked`.

        Args:
            kind: which entries.
            at_most: seconds to wait, if that is less than the store's timeout.
        """
        if self._retry is not None and clock.monotonic() < self._retry_until:
            at_most = self._retry
        timeout = self._timeout if at_most is None else min(self._timeout, at_most)
        self._mark(kind)
        try:
            with locked(self._root, kind, timeout=timeout, waiting=self._waiting):
                yield
        except Locked:
            self._retry_until = clock.monotonic() + _RETRY_FOR_S
            raise

    def in_batches(self, kind: Kind, steps: Iterator[None]) -> None:
        """Run steps under the lock of a kind's directory, letting it go for others every so often."""
        self._mark(kind)
        in_batches(self._root, kind, steps, timeout=self._timeout, waiting=self._waiting)

    def _mark(self, kind: Kind) -> None:
        """Record that a lock file, before it is made, is only jcache's, or else that there is a bound."""
        root = self._root
        if not root.layout.follows_jax:
            with refusal(f"make {root.state}"), opened(root, root.state, make=True):
                pass
        elif self.bounded:
            mark_bounded(root)
        elif kind is Kind.EXECUTABLES and not os.path.lexists(root.directory(kind) / LOCK_NAME):
            mark = root.unbounded_mark
            with suppress(OSError), opened(root, mark.parent, make=True) as state:
                touch(mark.name, directory=state)


def mark_bounded(root: Root) -> None:
    """Record that entries are put under a bound from now on."""
    mark = root.unbounded_mark
    with suppress(OSError), opened(root, mark.parent) as state:
        os.unlink(mark.name, dir_fd=state)


def _holder(path: Path) -> str:
    """Return the holder of the lock, from /proc/locks on Linux; elsewhere "another process"."""
    try:
        inode = os.stat(path).st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
                command = Path(f"/proc/{fields[4]}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                return f"process {fields[4]} ({' '.join(command.split())[:60] or 'unknown command'})"
    except (OSError, IndexError):
        pass
    return "another process"
