"""JAX's lock on a directory of entries.

A bounded JAX takes ``.lockfile`` (a `filelock.FileLock`, that is ``flock`` on POSIX) around every get and put, waits
10 s for it and then gives up, which costs a recompile. So jcache holds it for well under a second at a time, and only
around the renames and removals themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache import clock
from jcache.errors import CannotWrite, InvalidValue, Locked
from jcache.files import refusal
from jcache.layout import LOCK_NAME
from jcache.units import NANOSECONDS, parse_age

if TYPE_CHECKING:
    from filelock import FileLock

DEFAULT_TIMEOUT: Final = 10.0
VARIABLE: Final = "JCACHE_LOCK_TIMEOUT"
_NOTICE_AFTER: Final = 1.0  # seconds of silence before the one who waits says so


def timeout_in(environment: Mapping[str, str]) -> float:
    """Seconds to wait for a lock: ``$JCACHE_LOCK_TIMEOUT``, an age or a number of seconds, else 10.

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
    directory: Path, *, timeout: float = DEFAULT_TIMEOUT, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Holds the directory's lock for the block.

    Args:
        directory: a directory of entries.
        timeout: seconds to wait for it.
        waiting: is told once, as a sentence, for whom we wait, if that takes over a second.

    Raises:
        Locked: it could not be had in time.
        CannotWrite: the lock file cannot be made here (a read-only root, a full disk).
    """
    from filelock import FileLock

    path = directory / LOCK_NAME
    if path.is_symlink():  # filelock < 3.20 would truncate the file that it points to
        raise CannotWrite(f"{path} is a symbolic link, not a lock: remove it and try again.")
    if not os.path.isdir(directory):  # filelock >= 4 would make it
        raise CannotWrite(f"Cannot lock {directory}: it is not there.")
    lock = FileLock(path, thread_local=False)
    first = min(timeout, _NOTICE_AFTER) if waiting else timeout
    held = _acquire(lock, first)
    if not held and waiting and timeout > first:
        waiting(f"Waiting for {path}, held by {_holder(path)} …")
        held = _acquire(lock, timeout - first)
    if not held:
        raise Locked(
            f"{path} was held by {_holder(path)} for {timeout:g} s: try again later, or raise JCACHE_LOCK_TIMEOUT."
        )
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, timeout: float) -> bool:
    from filelock import Timeout

    with refusal(f"lock {lock.lock_file}"):
        try:
            lock.acquire(timeout=timeout, poll_interval=0.01)
        except Timeout:  # an OSError, too
            return False
        except NotImplementedError:
            raise CannotWrite(f"Cannot lock {lock.lock_file}: its file system has no locks.") from None
    return True


def in_batches(
    directory: Path,
    steps: Iterator[None],
    *,
    hold: float = 0.2,
    timeout: float = DEFAULT_TIMEOUT,
    waiting: Callable[[str], None] | None = None,
) -> None:
    """Runs an iterator's steps under the directory's lock, letting it go every ``hold`` seconds for others."""
    done = False
    while not done:
        with locked(directory, timeout=timeout, waiting=waiting):
            until = clock.monotonic() + hold
            for _ in steps:
                if clock.monotonic() > until:
                    break
            else:
                done = True
        if not done:
            clock.sleep(0.001)  # flock is not fair: without a pause we would take it again before anyone wakes


def _holder(path: Path) -> str:
    """Who holds the lock, as Linux tells in /proc/locks; elsewhere just "another process"."""
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
