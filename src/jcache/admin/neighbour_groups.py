"""Count what lies beside the entries of a root, in groups."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from jcache.entry import Neighbour
from jcache.layout import ENTRY_SUFFIX, FileKind, Root, member
from jcache.store.file_tree import tree_size
from jcache.store.listing import Listing
from jcache.store.sidecar import RECENCY_BYTES

_NAMES_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one sort beside the entries: their number, their bytes and the first names."""

    files: int = 0
    bytes: int = 0
    names: tuple[str, ...] = ()


def grouped(listings: Iterable[Listing], root: Root, beside: Iterable[Neighbour]) -> dict[str, Group]:
    """Return the groups of files beside the entries, by their names.

    Args:
        listings: listings of all kinds.
        root: the root.
        beside: other files in its directory.
    """
    found: dict[str, list[Neighbour]] = {
        name: []
        for name in (
            "autotune",
            "kernels",
            "legacy",
            "sidecars",
            "orphans",
            "temporary",
            "unknown",
            "quarantine",
            "state",
        )
    }
    for listing in listings:
        found["sidecars"].append(Neighbour("", FileKind.SIDECAR, listing.sidecars, listing.sidecars * RECENCY_BYTES))
        found["legacy"] += (Neighbour(e.key, FileKind.LEGACY, 1, e.bytes) for e in listing.legacy)
        for neighbour in listing.neighbours:
            found["orphans" if neighbour.member is FileKind.SIDECAR else neighbour.member].append(neighbour)
    found["unknown"] += beside
    kept, kept_size = tree_size(root.quarantine)
    files, size = (kept, kept_size) if root.state_path else tree_size(root.state)  # else it lies outside
    found["quarantine"].append(Neighbour("", FileKind.OURS, kept // 2, kept_size))  # each entry has its record
    found["state"].append(Neighbour("", FileKind.OURS, files - kept, size - kept_size))
    return {name: _to_group(some) for name, some in found.items()}


def beside_executables(root: Root) -> Iterable[Neighbour]:
    """Yield the files in the top directory of a jcache root that are not jcache's."""
    with os.scandir(root.path) as listing:
        for item in listing:
            if member(item.name)[0] is not FileKind.OURS:
                with suppress(OSError):  # the file may be gone by now
                    regular = item.is_file(follow_symlinks=False)
                    yield Neighbour(item.name, FileKind.UNKNOWN, 1, item.stat(follow_symlinks=False).st_size * regular)


def _to_group(some: list[Neighbour]) -> Group:
    blocking_first = sorted((not n.name.endswith(ENTRY_SUFFIX), n.name) for n in some if n.name)
    names = [name for _, name in blocking_first[:_NAMES_SHOWN]]
    return Group(sum(n.files for n in some), sum(n.bytes for n in some), tuple(names))
