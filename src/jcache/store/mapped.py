"""Sealed envelopes opened for use: verified, and mapped into memory rather than read where that is safe.

What is mapped is copied page by page when it is written to, so that arrays in it can be changed and the file cannot.
Only a file system of this machine is mapped: where another machine can remove a file, as with NFS, its pages vanish
with it, and the program that looks at them is killed. Small files are read, which is as fast.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakSet

from jcache import clock
from jcache.formats.compression import MAX_CONTENT
from jcache.formats.digest import digest
from jcache.formats.envelope import EnvelopeHeader, open_envelope
from jcache.store import verified_files
from jcache.store.file_systems import is_local

MAPPED_FROM: Final = 1 << 20
_MOST_MAPS: Final = 128  # before Python 3.13 each of them holds a file descriptor
_maps: WeakSet[mmap.mmap] = WeakSet()


def open_sealed(
    path: str | Path,
    *,
    limit: int = MAX_CONTENT,
    seen: os.stat_result | None = None,
    on_record: Callable[[], str | None] | None = None,
) -> tuple[EnvelopeHeader, memoryview]:
    """Return a trace or graph, every bit of it verified: its header, and its payload in memory that can be written to.

    Args:
        path: the path of the file.
        limit: how many bytes the payload may have.
        seen: the status of the file, if it is known.
        on_record: returns the digest that the file has by the ledger, if that can be relied on. It is asked for large
            files, since comparing it takes less time than the digest in the envelope.

    Raises:
        DamagedEntry: the bytes are not an envelope, were changed, or hold more than ``limit`` bytes.
        OSError: the file cannot be read, or is not a regular one.
    """
    path = os.fspath(path)
    known = None if seen is None else verified_files.recall(path, seen)
    if known is not None and known.payload is not None and len(known.payload) <= limit:
        return known.header, memoryview(bytearray(known.payload))
    at_ns = clock.now_ns()
    file = _contents(path)
    known = verified_files.recall(path, file.status)
    whole = memoryview(file.data)

    def is_known() -> bool:
        if known is not None or on_record is None or len(whole) < MAPPED_FROM:
            return known is not None
        expected = on_record()
        return expected is not None and digest(whole) == expected

    header, payload = open_envelope(whole, limit=limit, is_known=is_known)
    if known is None and file.is_local:
        verified_files.remember(path, file.status, at_ns, header, payload)
    return header, payload if isinstance(payload, memoryview) else memoryview(bytearray(payload))


class _Contents(NamedTuple):
    """The bytes of a file, its status when it was opened, and whether it is on a file system of this machine."""

    data: mmap.mmap | bytearray
    status: os.stat_result
    is_local: bool


def _contents(path: str) -> _Contents:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        local = is_local(descriptor)
        if status.st_size >= MAPPED_FROM and local and (mapped := _mapped(descriptor)) is not None:
            return _Contents(mapped, status, local)
        data = bytearray(status.st_size)
        view, read = memoryview(data), 0
        while read < len(data) and (count := file.readinto(view[read:])):
            read += count
        view.release()
        del data[read:]
        return _Contents(data, status, local)


def _mapped(descriptor: int) -> mmap.mmap | None:
    """Return the file in memory; None where the system refuses, or too many are."""
    try:
        if sys.version_info >= (3, 13):
            return mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY, trackfd=False)
        if len(_maps) >= _MOST_MAPS:
            return None
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):
        return None
    _maps.add(mapped)
    return mapped
