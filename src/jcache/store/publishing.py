"""Entries that arrive already written, made visible in their directory, under its lock.

Where each entry needs its sidecar, because a bounded JAX was here, the sidecar comes before the entry, as in a put;
elsewhere after it, so that a process killed in between leaves nothing that has to be repaired. A lock file is not made:
where there is none, nobody has locked the others out yet, as in a put without a bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jcache.layout import SIDECAR_SUFFIX, Kind, Root
from jcache.store.directories import is_there, opened
from jcache.store.ledger import Known
from jcache.store.pending_file import PendingFile
from jcache.store.quarantine import Quarantine
from jcache.store.roots import has_lock
from jcache.store.sidecar import RECENCY_BYTES, write_recency


@dataclass(slots=True)
class Arrival:
    """An entry that is written and not visible yet.

    Attributes:
        known: what is known of it.
        file: its bytes.
        recency_ns: when it was last used.
        sidecar: whether a sidecar is to say so; else the file's own time does.
        replace: whether it takes the place of an entry that is there, which goes to quarantine.
        published: whether it is in its place now; if not, another entry is.
    """

    known: Known
    file: PendingFile
    recency_ns: int
    sidecar: bool
    replace: bool = False
    published: bool = False


def holder(root: Root, kind: Kind, key: str) -> Path:
    """Return the directory that an entry's file lies in."""
    return root.place(kind, key).parent


def publishing(root: Root, kind: Kind, arrivals: Sequence[Arrival], on_record: Mapping[str, Known]) -> Iterator[None]:
    """Publish entries of one kind and directory, a step each, with the lock held where there is one.

    Args:
        root: which root.
        kind: of the entries.
        arrivals: the entries.
        on_record: what the ledger knows of those that they replace, by key.
    """
    always, place, quarantine = has_lock(root, kind), holder(root, kind, arrivals[0].known.key), Quarantine(root)
    with opened(root, place, make=True) as directory:
        for arrival in arrivals:
            key = arrival.known.key
            entry, sidecar = os.path.basename(root.file_name(kind, key)), key + SIDECAR_SUFFIX
            try:
                if arrival.replace:
                    quarantine.keep(place / entry, kind, key, on_record.get(key))
                if always and (arrival.replace or not is_there(entry, directory)):
                    _write_sidecar(directory, sidecar, arrival.recency_ns)
                arrival.file.publish(entry, replace=arrival.replace)
                arrival.published = True
                if arrival.sidecar and not always and root.layout.has_sidecars:
                    _write_sidecar(directory, sidecar, arrival.recency_ns)
            except FileExistsError:
                arrival.file.discard()
            yield


def _write_sidecar(directory: int, name: str, time_ns: int) -> None:
    """Write a sidecar at once and whole, over one that is there in place."""
    file = PendingFile(directory)
    try:
        file.write(time_ns.to_bytes(RECENCY_BYTES, "little"))
        file.publish(name)
    except FileExistsError:
        write_recency(name, time_ns, directory=directory)
    finally:
        file.discard()
