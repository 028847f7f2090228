"""Checks before an import writes anything: the root's directories can be written, and its disk has room."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from jcache.errors import CannotWrite
from jcache.layout import Kind, Root
from jcache.shipping.archive.manifest import Item, XlaFile
from jcache.store.files import refusal
from jcache.text import command
from jcache.units import format_size

_MIN_FREE_BYTES: Final = 64 << 20  # that the disk must have free afterwards
_BLOCK_BYTES: Final = 4096
_OVERHEAD_BYTES: Final = 256  # that an entry takes in a directory and in the ledger


def check_room(root: Root, written: Iterable[Item | XlaFile], what: str = "the import") -> None:
    """Raise CannotWrite if the disk has no room for the entries that will be written; messages call them ``what``."""
    sizes = [entry.bytes for entry in written]
    blocks = sum(-(-size // _BLOCK_BYTES) + 1 for size in sizes)  # one for the sidecar
    needed = blocks * _BLOCK_BYTES + len(sizes) * _OVERHEAD_BYTES
    place = _existing_directory(root.path)
    with refusal(f"look at {place}"):
        disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    if sizes and needed + _MIN_FREE_BYTES > free:
        raise CannotWrite(
            f"{root.path} has no room for {what}: {format_size(needed)} are to be written, "
            f"{format_size(_MIN_FREE_BYTES)} are to stay free on the disk, and {format_size(free)} are free: make room "
            f"with `{_prune_command(root)}`, or name another --root."
        )
    if disk.f_files and 2 * len(sizes) > disk.f_favail:
        raise CannotWrite(
            f"{root.path} has no room for {what}: {2 * len(sizes):,} files at most are to be written, and its disk "
            f"takes {disk.f_favail:,} more: make room with `{_prune_command(root)}`, or name another --root."
        )


def _prune_command(root: Root) -> str:
    return command("prune --max-size SIZE", root.path)


def check_writable(root: Root, kinds: Iterable[Kind]) -> None:
    """Raise CannotWrite if entries of these kinds cannot be stored in a root, which need not exist."""
    for kind in kinds:
        directory = root.directory(kind)
        for path in (root.path, directory):
            _check_directory(path, may_be_link=path == root.path)
        place = _existing_directory(directory)
        with refusal(f"store entries in {directory}"):
            if not os.access(place, os.W_OK | os.X_OK):
                is_read_only = os.statvfs(place).f_flag & os.ST_RDONLY
                number = errno.EROFS if is_read_only else errno.EACCES
                raise OSError(number, os.strerror(number), str(place))


def _check_directory(path: Path, *, may_be_link: bool) -> None:
    """Raise CannotWrite if a link or file is in the place of a directory."""
    if os.path.islink(path) and not (may_be_link and os.path.isdir(path)):
        target = os.readlink(path)
        raise CannotWrite(
            f"{path} is a symbolic link to {target}, which is not followed: put a directory in its place, or import "
            "into another --root."
        )
    if os.path.lexists(path) and not os.path.isdir(path):
        raise CannotWrite(f"{path} is no directory: move it away, or import into another --root.")


def _existing_directory(path: Path) -> Path:
    """Return the directory at a path, or the nearest one above it."""
    while not os.path.isdir(path) and path != path.parent:
        path = path.parent
    return path
