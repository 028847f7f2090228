"""Measure and remove a directory with all that is below it; links are not followed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def remove_tree(name: str, *, directory: int) -> int:
    """Remove a file or a directory with all below it, links not followed, and return the bytes.

    Raises:
        OSError: it cannot be removed.
    """
    import shutil

    _, size = tree_size(name, directory=directory)
    if stat.S_ISDIR(os.lstat(name, dir_fd=directory).st_mode):
        shutil.rmtree(name, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)
    return size


def tree_size(path: str | Path, *, directory: int | None = None) -> tuple[int, int]:
    """Return the number of files below a directory (or 1 for a file), and their bytes; links are not followed."""
    try:
        status = os.lstat(path, dir_fd=directory)
    except OSError:
        return 0, 0
    if not stat.S_ISDIR(status.st_mode):
        return 1, status.st_size
    files = size = 0
    for _, directories, names, below in os.fwalk(path, dir_fd=directory):
        for name in (*names, *directories):
            with suppress(OSError):
                status = os.lstat(name, dir_fd=below)
                if not stat.S_ISDIR(status.st_mode):
                    files, size = files + 1, size + status.st_size
    return files, size
