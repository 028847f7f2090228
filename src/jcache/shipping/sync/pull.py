"""Pull: the entries of a store, read and written to files in parallel, for the importer, which publishes them.

Each entry has the digest of its manifest, whose push has checked it, as an archive's entries have. One in no manifest,
or with other bytes, has the digest that its object claims, and passes the checks of `jcache verify`, as an entry of a
plain tar does; where signatures count, only what a signed manifest describes is taken. The thread that has read an
entry compares it with its digest and writes it to a file without a visible name. What is gone or damaged in the store
is left out, and told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final, NamedTuple, Self

from jcache import clock
from jcache.findings import Damage
from jcache.layout import Kind, Root
from jcache.remote.client import Remote
from jcache.remote.names import entry_name
from jcache.remote.transfer import in_parallel
from jcache.shipping.archive import ArchiveMember
from jcache.shipping.archive.manifest import Item
from jcache.shipping.importer.archive_import import ImportPlan
from jcache.shipping.importer.entry_metadata import past
from jcache.shipping.importer.outcome import WRITTEN, EntryId, ImportResult, RefusedMember
from jcache.shipping.importer.staging import FileStager, StagedFile, StagedMember
from jcache.shipping.sync.survey import Available
from jcache.store import files
from jcache.store.directories import Directories
from jcache.verify.faults import fault_of

_AHEAD: Final = 96  # entries that are read or wait in open files


class _Pulled(NamedTuple):
    """An entry that was read, with its file or, of another program, its bytes; and what is wrong, if anything is."""

    item: Item | None
    file: StagedFile | None = None
    data: bytes = b""
    evidence: str = ""


@dataclass(slots=True)
class Pull:
    """Reads the entries of a plan; to be used in a block that lasts until they are published.

    Args:
        remote: the store.
        available: what it has.
        plan: which of it to read.
        root: where the entries go, which exists.
        imported: receives the entries that are refused.

    Attributes:
        omitted: kind and key of the entries that were gone.
    """

    remote: Remote
    available: Available
    plan: ImportPlan
    root: Root
    imported: ImportResult
    omitted: list[tuple[str, str]] = field(default_factory=list)
    _directories: Directories = field(init=False)
    _descriptors: dict[Kind, int] = field(default_factory=dict, init=False)
    _now_ns: int = field(default_factory=clock.now_ns, init=False)
    _unused: set[StagedFile] = field(default_factory=set, init=False)

    def __enter__(self) -> Self:
        self._directories = Directories(self.root)
        return self

    def __exit__(self, *_: object) -> None:
        self._descriptors.clear()  # of which threads may make use that nobody waits for
        for staged in list(self._unused):
            with suppress(OSError):
                staged.file.discard()
        self._directories.close()

    def members(self) -> Iterator[StagedMember | ArchiveMember]:
        """Yield the entries that are to be written, in the manifest's order.

        Raises:
            RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
            CannotWrite: the root is read-only or full.
        """
        wanted = [item for item in self.plan.manifest.items if self.plan.outcomes[item.kind, item.key] in WRITTEN]
        for kind in {item.kind for item in wanted} if self.root.adapter is None else ():
            place = self.root.directory(kind)
            with files.refusal(f"store entries in {place}"):
                self._descriptors[kind] = self._directories.descriptor(place, make=True)
        for item, pulled in in_parallel(self._read, wanted, lambda item: item.bytes, ahead=_AHEAD):
            if pulled.evidence:
                self.imported.refused.append(RefusedMember(item, pulled.evidence))
            elif pulled.item is None:
                self.omitted.append((str(item.kind), item.key))
            elif pulled.file is None:
                yield ArchiveMember(pulled.item, "", BytesIO(pulled.data).readinto)
            else:
                self._unused.discard(pulled.file)
                yield StagedMember(pulled.item, pulled.file)

    def _read(self, item: Item) -> _Pulled:
        """Read an entry, compare it, and write it to a file."""
        name: EntryId = item.kind, item.key
        space = self.available.places[name]
        if item.digest and item.seconds is not None:  # so that only the bytes are unknown
            data = self.remote.find_exact(item.kind, space, item.key, item.digest, item.bytes)
            if data is not None:
                return self._written(item, data)
        found = self.remote.find(item.kind, space, item.key)
        if found is None:
            return _Pulled(None, evidence=self._why_not(item, space))
        is_pushed = bool(item.digest) and name not in self.available.claimed
        if is_pushed and found.digest != item.digest:  # a program has stored it since a prune removed the pushed one
            if self.available.signer is not None:
                return _Pulled(None, evidence="Its bytes in the store are not those of the signed manifest.")
            is_pushed, item = False, item._replace(seconds=None)
        if not is_pushed:
            fault = fault_of(found.data, item.kind, item.key)
            if fault is not None and fault.damage is not Damage.OPAQUE:
                return _Pulled(None, evidence=fault.evidence)
        seconds = found.seconds if item.seconds is None else item.seconds
        return self._written(item._replace(digest=found.digest, bytes=len(found.data), seconds=seconds), found.data)

    def _why_not(self, item: Item, space: str) -> str:
        """Return why an entry cannot be read; nothing if it is gone."""
        if self.remote.exists(item.kind, space, item.key):
            return "Its bytes in the store are damaged."
        is_there = self.remote.transport.head(entry_name(item.kind, space, item.key)) is not None
        return "It has no digest in the store." if is_there else ""

    def _written(self, item: Item, data: bytes) -> _Pulled:
        """Write the bytes of an entry to a file, unless they are another program's."""
        if item.kind not in self._descriptors:
            return _Pulled(item, data=data)
        times = past(item.created_ns, self._now_ns), past(item.recency_ns, self._now_ns)
        stager = FileStager(self._descriptors[item.kind], *times)
        with files.refusal(f"store {item.key}"):
            staged = stager.finish(memoryview(data))
        self._unused.add(staged)
        return _Pulled(item, staged)


def spaces_here(jaxlib: str | None, platforms: frozenset[str], capabilities: tuple[str, ...]) -> list[str]:
    """Return the namespaces in which executables for this machine can be, the most likely first.

    Args:
        jaxlib: the version that is installed.
        platforms: on which JAX can compute here.
        capabilities: compute capabilities of the GPUs.
    """
    from jcache.remote.names import namespace_of

    devices = [("cpu", "cpu") if platform == "cpu" else (platform, device)
               for platform in sorted(platforms, reverse=True)
               for device in ((None,) if platform == "cpu" else (*dict.fromkeys(capabilities), None))]  # fmt: skip
    return list(dict.fromkeys(
        namespace_of(version, platform, device) for version in (jaxlib, None) for platform, device in devices
    ))  # fmt: skip
