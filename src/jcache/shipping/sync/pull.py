"""Pull: the entries of a store as the members of an archive, read in parallel and checked.

Each entry has the digest of its manifest, whose push has checked it, as an archive's entries have. One in no manifest
has the digest that its object claims, and passes the checks of `jcache verify`, as an entry of a plain tar does. The
importer compares each once more and publishes it. What is gone or damaged in the store is left out, and told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import NamedTuple

from jcache.findings import Damage
from jcache.remote.client import Remote
from jcache.remote.entries import FoundEntry
from jcache.remote.transfer import in_parallel
from jcache.shipping.archive import ArchiveMember
from jcache.shipping.archive.manifest import Item
from jcache.shipping.importer.archive_import import ImportPlan
from jcache.shipping.importer.outcome import WRITTEN, EntryId, ImportResult, RefusedMember
from jcache.shipping.sync.survey import Available
from jcache.verify.faults import fault_of


class _Pulled(NamedTuple):
    """An entry that was read, and what is wrong with it, if anything is."""

    found: FoundEntry | None
    evidence: str = ""


@dataclass(slots=True)
class Pull:
    """Reads the entries of a plan.

    Args:
        remote: the store.
        available: what it has.
        plan: which of it to read.
        imported: receives the entries that are refused.

    Attributes:
        omitted: kind and key of the entries that were gone.
    """

    remote: Remote
    available: Available
    plan: ImportPlan
    imported: ImportResult
    omitted: list[tuple[str, str]] = field(default_factory=list)

    def members(self) -> Iterator[ArchiveMember]:
        """Yield the entries that are to be written, in the manifest's order.

        Raises:
            RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
        """
        wanted = [item for item in self.plan.manifest.items if self.plan.outcomes[item.kind, item.key] in WRITTEN]
        for item, pulled in in_parallel(self._read, wanted, lambda item: item.bytes):
            if pulled.evidence:
                self.imported.refused.append(RefusedMember(item, pulled.evidence))
            elif pulled.found is None:
                self.omitted.append((str(item.kind), item.key))
            else:
                found = pulled.found
                seconds = found.seconds if item.seconds is None else item.seconds
                item = item._replace(digest=item.digest or found.digest, bytes=len(found.data), seconds=seconds)
                yield ArchiveMember(item, "", BytesIO(found.data).readinto)

    def _read(self, item: Item) -> _Pulled:
        name: EntryId = item.kind, item.key
        space = self.available.places[name]
        found = self.remote.find(item.kind, space, item.key)
        if found is None:
            is_there = self.remote.exists(item.kind, space, item.key)
            return _Pulled(None, "Its bytes in the store are damaged." if is_there else "")
        if item.digest and found.digest != item.digest:
            return _Pulled(None, "Its bytes in the store are not those of the manifest.")
        if item.digest:  # a push has checked them
            return _Pulled(found)
        fault = fault_of(found.data, item.kind, item.key)
        if fault is not None and fault.damage is not Damage.OPAQUE:
            return _Pulled(None, fault.evidence)
        return _Pulled(found)


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
