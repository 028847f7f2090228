"""The kind of the file system that a file is on."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ctypes

_LOCAL: Final = frozenset(  # of linux/magic.h and of ZFS
    {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0xF2F52010, 0xCA451A4E, 0x2FC12FC1, 0x858458F6}
)


def is_local(descriptor: int) -> bool:
    """Return whether a file is on a local file system of Linux; Python has no statfs(2)."""
    import ctypes

    if sys.platform != "linux":
        return False
    buffer = (ctypes.c_long * 32)()  # struct statfs has 120 bytes and begins with the type, a long
    if _libc().fstatfs(descriptor, buffer) != 0:
        return False
    return buffer[0] & 0xFFFFFFFF in _LOCAL


@cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None)
