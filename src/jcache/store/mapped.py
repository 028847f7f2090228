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
from pathlib import Path
from typing import Final
from weakref import WeakSet

from jcache.formats.compression import MAX_CONTENT
from jcache.formats.envelope import EnvelopeHeader, open_envelope
from jcache.store.file_systems import is_local

MAPPED_FROM: Final = 1 << 20
_MOST_MAPS: Final = 128  # before Python 3.13 each of them holds a file descriptor
_maps: WeakSet[mmap.mmap] = WeakSet()


def open_sealed(path: str | Path, *, limit: int = MAX_CONTENT) -> tuple[EnvelopeHeader, memoryview]:
    """Return a trace or graph, every bit of it verified: its header, and its payload in memory that can be written to.

    Raises:
        DamagedEntry: the bytes are not an envelope, were changed, or hold more than ``limit`` bytes.
        OSError: the file cannot be read, or is not a regular one.
    """
    header, payload = open_envelope(memoryview(_contents(path)), limit=limit)
    return header, payload if isinstance(payload, memoryview) else memoryview(bytearray(payload))


def _contents(path: str | Path) -> mmap.mmap | bytearray:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size >= MAPPED_FROM and is_local(descriptor) and (mapped := _mapped(descriptor)) is not None:
            return mapped
        data = bytearray(status.st_size)
        view, read = memoryview(data), 0
        while read < len(data) and (count := file.readinto(view[read:])):
            read += count
        view.release()
        del data[read:]
        return data


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
