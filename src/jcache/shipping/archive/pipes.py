"""Pipes, and how much they hold."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final

_WANTED: Final = 1 << 20  # bytes; what anybody may have on Linux, and we write at once


def widened(descriptor: int) -> int:
    """Lets a pipe hold more, so that neither end waits for the other all the time.

    Returns:
        How many bytes it may hold; 0 if it is no pipe, or none of which the system tells.
    """
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _WANTED)
            return max(_WANTED, fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ))  # the other end may widen it, too
    return 0
