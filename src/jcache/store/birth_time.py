"""The time at which a file or directory was made, where the file system keeps it."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

_AT_FDCWD: Final = -100  # these three from linux/fcntl.h and linux/stat.h
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_STATX_BTIME: Final = 0x800


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
