"""List the entries of another program's directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache.entry import NO_SIDECAR, Neighbour
from jcache.layout import STATE_NAME, FileKind, Kind, Root
from jcache.store.access_times import access_times
from jcache.store.directories import opened
from jcache.store.entry_reader import storable_ns
from jcache.store.sidecar import LATEST_NS

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter
    from jcache.store.listing import Listing

_TELLS: Final = Kind.GRAPHS  # the kind whose listing names the files that are no entries of another program


def fill_foreign(listing: Listing, root: Root, adapter: Adapter) -> None:
    """Read the entries of another program's directory, and the files beside them, into a listing.

    Raises:
        OSError: a directory cannot be read.
    """
    path = root.path
    with opened(root, path) as descriptor:
        listing.times = access_times(descriptor, root)
    for name, item in _scan_foreign(adapter, path):
        if name == STATE_NAME:
            continue
        known = adapter.entry(name)
        if (known[0] if known else _TELLS) is not listing.kind:
            continue
        try:
            status = item.stat(follow_symlinks=False)
        except OSError:
            continue  # vanished meanwhile
        regular = stat.S_ISREG(status.st_mode)
        if known and regular:
            made = min(max(status.st_mtime_ns, 0), LATEST_NS)
            columns = listing.columns
            columns.keys.append(known[1])
            changed = storable_ns(status.st_ctime_ns)
            numbers_of = status.st_size, made, made, NO_SIDECAR, listing.times.used_ns(status), changed
            for column, number in zip(columns[1:], numbers_of, strict=True):
                column.append(number)
        else:
            what = FileKind.UNKNOWN if known else listing.member(name)[0]
            listing.neighbours.append(Neighbour(name, what, 1, status.st_size if regular else 0))


def _scan_foreign(adapter: Adapter, path: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the files in a directory and in the adapter's sub-directories of it, with their relative names."""
    with os.scandir(path) as items:
        for item in items:
            if item.name not in adapter.directories or not item.is_dir(follow_symlinks=False):
                yield item.name, item
    for directory in adapter.directories:
        below = path / directory
        if below.is_dir() and not below.is_symlink():
            with os.scandir(below) as items:
                for item in items:
                    yield f"{directory}/{item.name}", item
