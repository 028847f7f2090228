"""Generations: archives under a name, which nobody replaces. One request reads all entries of one.

A generation is the archive of an export (`jcache.shipping.archive`), with its manifest and its signature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO, Final

from jcache.errors import InvalidValue, OutOfReach, UnknownKey
from jcache.findings import Finding
from jcache.remote.client import Remote
from jcache.remote.names import GENERATIONS, generation_name
from jcache.shipping.exporter.export import prepare_export, write_archive
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.exporter.survey import Progress
from jcache.store.store import Store
from jcache.units import format_size

_MAX_BYTES: Final = 5 << 30  # what S3 takes in one request


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation that was stored, or would be.

    Attributes:
        entries: number of its entries.
        bytes: stored bytes of these.
        archive_bytes: size of the archive; 0 for a dry run.
        findings: the damaged entries, which are left out.
    """

    entries: int
    bytes: int
    archive_bytes: int
    findings: tuple[Finding, ...]


def push_generation(
    store: Store,
    remote: Remote,
    request: ExportRequest,
    name: str,
    sign: Callable[[bytes], bytes] | None = None,
    *,
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
) -> Generation:
    """Store the archive of the requested entries under a name.

    Raises:
        InvalidValue: the name cannot be one.
        OutOfReach: there is a generation of the name, or the archive is too large for one request.
        RemoteUnavailable: the store cannot be reached or fails.
        RemoteDenied: the store does not allow that.
    """
    place = generation_name(name)
    if remote.transport.head(place) is not None:
        raise _taken(remote, name)
    prepared = prepare_export(store, request, progress)
    if not prepared.sources:
        raise InvalidValue(f"No entry was selected, so that there is nothing to store as {name}.")
    if dry_run:
        return Generation(len(prepared.manifest.items), prepared.bytes, 0, tuple(prepared.findings))
    stream = BytesIO()
    done = write_archive(prepared, stream, sign=sign, progress=progress)
    data = stream.getvalue()
    if len(data) > _MAX_BYTES:
        raise OutOfReach(
            f"The archive of {name} has {format_size(len(data))}, and a store takes {format_size(_MAX_BYTES)} at once:"
            " push fewer entries, by --kind, --filter or --run."
        )
    if not remote.transport.put(place, data, {}, replace=False):
        raise _taken(remote, name)
    return Generation(done.entries, done.bytes, len(data), tuple(prepared.findings))


def open_generation(remote: Remote, name: str) -> BinaryIO:
    """Return the archive of a generation.

    Raises:
        UnknownKey: there is none of the name.
        RemoteUnavailable, RemoteDenied: as in `push_generation`.
    """
    found = remote.transport.get(generation_name(name))
    if found is None:
        raise UnknownKey(f"{remote} has no generation {name}.")
    return BytesIO(found.data)


def has_generation(remote: Remote, name: str) -> bool:
    """Return whether there is a generation of a name; raise as `open_generation` does."""
    try:
        place = generation_name(name)
    except InvalidValue:
        return False
    return remote.transport.head(place) is not None


def generation_names(remote: Remote) -> list[str]:
    """Return the names of all generations of a store that lists."""
    objects = (one.name for batch in remote.transport.objects(GENERATIONS) for one in batch)
    return sorted(name.removeprefix(GENERATIONS).rpartition(".")[0] for name in objects)


def _taken(remote: Remote, name: str) -> OutOfReach:
    return OutOfReach(f"{remote} has a generation {name} already, which stays: choose another name.")
