"""Read the headers of the latest traces, or graphs, of a function."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from jcache.errors import DamagedEntry
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import FileKind, Kind, Root, member, name_of
from jcache.store.store import header_at


def latest_headers(root: Root, kind: Kind, name: str, limit: int) -> Iterator[EnvelopeHeader]:
    """Yield the headers of the latest entries of a name, the latest first; those that cannot be read are left out.

    Args:
        root: the root.
        kind: traces or graphs.
        name: the name in their keys.
        limit: the number of entries whose headers are read at most.
    """
    found: list[tuple[int, str]] = []
    with suppress(OSError), os.scandir(root.directory(kind)) as items:
        for item in items:
            what, key = member(item.name)
            if what is FileKind.ENTRY and name_of(key) == name:
                with suppress(OSError):
                    found.append((item.stat(follow_symlinks=False).st_mtime_ns, item.path))
    for _, path in sorted(found, reverse=True)[:limit]:
        with suppress(OSError, DamagedEntry):
            yield header_at(path)
