"""Read and write sidecars: files of 8 bytes that say when an entry was last used."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from jcache.store.files import IN_PLACE, publish
from jcache.store.unmoved_reads import READING

RECENCY_BYTES: Final = 8
LATEST_NS: Final = 2**63 - 1  # what SQLite and our columns hold, in the year 2262


def write_recency(path: str | Path, time_ns: int, *, directory: int | None = None) -> None:
    """Write a sidecar in one go and in place, so that no reader sees an empty one and the directory stays unchanged.

    JAX reads it as an 8-byte little-endian number of nanoseconds since 1970; a time before or long after becomes the
    nearest that we keep. What is no sidecar, or has other names (see `separate`), is replaced by a new file.
    """
    data = _packed(time_ns)
    descriptor = os.open(path, IN_PLACE, 0o666, dir_fd=directory)
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


def begin_recency(name: str, time_ns: int, directory: int) -> bool:
    """Write a sidecar as `write_recency` does, unless something has its name; return whether it was written."""
    try:
        descriptor = os.open(name, IN_PLACE | os.O_EXCL, 0o666, dir_fd=directory)
    except FileExistsError:
        return False
    try:
        os.pwrite(descriptor, _packed(time_ns), 0)
    except OSError:  # of a full disk: none is better than half a one
        os.unlink(name, dir_fd=directory)
        raise
    finally:
        os.close(descriptor)
    return True


def _packed(time_ns: int) -> bytes:
    return min(max(time_ns, 0), LATEST_NS).to_bytes(RECENCY_BYTES, "little")


def read_recency(path: str | Path, *, directory: int | None = None) -> int | None:
    """Return the time in a sidecar, in ns since 1970; None if it is absent, unreadable, not 8 bytes or after 2262."""
    try:
        descriptor = os.open(path, READING, dir_fd=directory)
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
