"""Generations: archives under a name, which nobody replaces. One request reads all entries of one.

A generation is the archive of an export (`jcache.shipping.archive`), with its manifest and its signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import BinaryIO, Final, NamedTuple

from jcache.errors import BadArchive, InvalidValue, JcacheError, OutOfReach, UnknownKey, Untrusted
from jcache.findings import Finding
from jcache.remote.client import Remote
from jcache.remote.names import GENERATIONS, generation_name, generation_of
from jcache.shipping.archive import ArchiveReader
from jcache.shipping.exporter.export import prepare_export, write_archive
from jcache.shipping.exporter.selection import ExportRequest
from jcache.shipping.exporter.survey import Progress
from jcache.store.store import Store
from jcache.units import format_size
from jcache.verify.signatures import Signers, check_signature, verify_by

_MAX_BYTES: Final = 5 << 30  # what S3 takes in one request
_FIRST_BYTES: Final = 1 << 20  # of an archive, which have its manifest and its signature; more where they do not
_GROWTH: Final = 8
_MOST_BYTES: Final = 64 << 20  # of an archive, for its signature; a manifest of 100,000 entries takes less


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


class StoredGeneration(NamedTuple):
    """A generation of a store.

    Attributes:
        name: its name.
        bytes: size of its archive.
        written_ns: when it was stored, by the store's clock, nanoseconds since 1970.
    """

    name: str
    bytes: int
    written_ns: int


class ArchiveSignature(NamedTuple):
    """What is known of an archive's signature.

    Attributes:
        state: ``good``, ``none``, ``bad`` if it is not of the archive or nobody's who may sign, ``damaged`` if the
            archive cannot be read, ``unchecked`` where signatures cannot be checked or none is at its beginning.
        signer: who has signed: a principal, or the fingerprint of a key; None if that is not known.
    """

    state: str
    signer: str | None = None


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


def stored_generations(remote: Remote) -> list[StoredGeneration]:
    """Return the generations of a store, the oldest first.

    Raises:
        InvalidValue: the store cannot list.
        RemoteUnavailable, RemoteDenied: as in `push_generation`.
    """
    remote.check_can_list()
    listed = ((generation_of(one.name), one) for batch in remote.transport.objects(GENERATIONS) for one in batch)
    found = [StoredGeneration(name, one.bytes, one.written_ns) for name, one in listed if name is not None]
    return sorted(found, key=lambda one: (one.written_ns, one.name))


def signature_of(remote: Remote, stored: StoredGeneration, signers: Signers | None) -> ArchiveSignature:
    """Return what the signature of a generation says; only the archive's beginning is read.

    Args:
        remote: the store.
        stored: the generation.
        signers: those who may sign; None for anybody, who is then told by the fingerprint of the key.

    Raises:
        RemoteUnavailable, RemoteDenied: as in `push_generation`.
    """
    size = _FIRST_BYTES
    while True:
        size = min(size, stored.bytes)
        data = remote.transport.start(generation_name(stored.name), size) if size else None
        try:
            return _signature_in(data or b"", signers)
        except Untrusted:
            return ArchiveSignature("bad")
        except BadArchive:
            if size >= min(stored.bytes, _MOST_BYTES):
                return ArchiveSignature("damaged" if size == stored.bytes else "unchecked")
        except JcacheError:  # there is no ssh-keygen
            return ArchiveSignature("unchecked")
        size *= _GROWTH


def _signature_in(archive: bytes, signers: Signers | None) -> ArchiveSignature:
    found: list[ArchiveSignature] = []

    def check(manifest: bytes, signature: bytes | None) -> None:
        if signature is None:
            found.append(ArchiveSignature("none"))
        elif signers is None:
            found.append(ArchiveSignature("good", check_signature(manifest, signature)))
        else:
            found.append(ArchiveSignature("good", verify_by(manifest, signature, signers)))

    ArchiveReader(BytesIO(archive)).head(check)
    return found[0]


def remove_generations(remote: Remote, names: Iterable[str]) -> None:
    """Remove generations; raise as `stored_generations`."""
    remote.check_can_list()
    remote.transport.delete(map(generation_name, names))


def _taken(remote: Remote, name: str) -> OutOfReach:
    return OutOfReach(f"{remote} has a generation {name} already, which stays: choose another name.")
