"""Lists the entries of a root, whosever it is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache.entry import NO_SIDECAR, Neighbour
from jcache.layout import STATE_NAME, Kind, Member, Root
from jcache.store.access_times import access_times
from jcache.store.directories import opened
from jcache.store.files import LATEST_NS
from jcache.store.listing import Listing, Snapshots, read_listing

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

_TELLS: Final = Kind.GRAPHS  # with which what is no entry of another program's is listed


def list_root(root: Root, kind: Kind, snapshots: Snapshots | None = None, *, uses: bool = False) -> Listing:
    """Lists the entries of one kind in a root, and what lies beside them; links below the root are not followed.

    Args:
        root: which.
        kind: of these entries.
        snapshots: as in `jcache.store.listing.read_listing`.
        uses: as there.

    Raises:
        OSError: a directory cannot be read.
    """
    if root.layout.follows_jax:
        return read_listing(kind, root.directory(kind), snapshots, root=root, uses=uses)
    return _list_others(root, root.adapter, kind)


def _list_others(root: Root, adapter: Adapter, kind: Kind) -> Listing:
    path = root.path
    listing = Listing(kind, path, adapter)
    with opened(root, path) as descriptor:
        listing.times = access_times(descriptor, root)
    for name, item in _scan(adapter, path):
        if name == STATE_NAME:
            continue
        known = adapter.entry(name)
        if (known[0] if known else _TELLS) is not kind:
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
            numbers_of = status.st_size, made, made, NO_SIDECAR, listing.times.used_ns(status)
            for column, number in zip(columns[1:], numbers_of, strict=True):
                column.append(number)
        else:
            what = Member.UNKNOWN if known else listing.member(name)[0]
            listing.neighbours.append(Neighbour(name, what, 1, status.st_size if regular else 0))
    return listing


def _scan(adapter: Adapter, path: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """What lies in a directory and in the adapter's sub-directories of it, by relative names."""
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
