"""Verify a store: read every entry, compare it with its digest, and check it as `jcache verify` checks a root's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from jcache.admin.remote.listing import RemoteListing
from jcache.findings import Damage
from jcache.formats.digest import digest, shown
from jcache.layout import Kind
from jcache.remote.client import Remote
from jcache.remote.transfer import in_parallel
from jcache.remote.usage import RemoteId
from jcache.verify.faults import fault_of


class RemoteFinding(NamedTuple):
    """A damaged entry of a store.

    Attributes:
        place: kind, namespace and key.
        damage: what is wrong.
        evidence: a sentence.
    """

    place: RemoteId
    damage: Damage
    evidence: str


@dataclass(slots=True)
class RemoteVerification:
    """The result of verifying a store.

    Attributes:
        entries: number of entries.
        bytes: size of all of them.
        findings: the damaged ones.
        unclaimed: entries without a digest, which nobody is served.
        opaque: number of executables whose content cannot be read here.
        repaired: number of damaged entries that were removed.
    """

    entries: int = 0
    bytes: int = 0
    findings: list[RemoteFinding] = field(default_factory=list)
    unclaimed: list[RemoteId] = field(default_factory=list)
    opaque: int = 0
    repaired: int = 0


class _Checked(NamedTuple):
    """An entry that was read: whether it is there, and what is wrong with it."""

    is_there: bool
    has_digest: bool = True
    damage: Damage | None = None
    evidence: str = ""


def verify_store(
    remote: Remote,
    kinds: Sequence[Kind],
    *,
    quick: bool = False,
    repair: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> RemoteVerification:
    """Check the entries of some kinds.

    Args:
        remote: the store.
        kinds: which kinds.
        quick: whether to leave out the checks that decompress an entry.
        repair: whether to remove damaged entries, so that they are stored again.
        progress: called with the bytes that are checked so far, and with all.

    Raises:
        InvalidValue: the store cannot list.
        RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
    """
    listing = RemoteListing.of(remote, kinds)
    sizes, found, done = listing.numbers("bytes"), RemoteVerification(), 0
    total = sum(sizes)

    def check(row: int) -> _Checked:
        return _check(remote, listing.place(row), quick=quick)

    for row, checked in in_parallel(check, range(len(listing)), sizes.__getitem__):
        done += sizes[row]
        progress(done, total)
        if not checked.is_there:
            continue
        found.entries += 1
        found.bytes += sizes[row]
        if not checked.has_digest:
            found.unclaimed.append(listing.place(row))
        elif checked.damage is Damage.OPAQUE:
            found.opaque += 1
        elif checked.damage is not None:
            found.findings.append(RemoteFinding(listing.place(row), checked.damage, checked.evidence))
    if repair and found.findings:
        remote.delete(finding.place for finding in found.findings)
        found.repaired = len(found.findings)
    return found


def _check(remote: Remote, place: RemoteId, *, quick: bool) -> _Checked:
    read = remote.read(*place)
    if read is None:
        return _Checked(is_there=False)
    if read.claimed is None and not remote.transport.keeps_metadata:
        evidence = "The object beside it holds no digest."
        return _Checked(is_there=True, damage=Damage.CHANGED, evidence=evidence)
    if read.claimed is None:
        return _Checked(is_there=True, has_digest=False)
    actual = digest(read.data)
    if actual != read.claimed:
        evidence = f"Its digest {shown(actual)} is not the recorded {shown(read.claimed)}."
        return _Checked(True, damage=Damage.CHANGED, evidence=evidence)  # noqa: FBT003
    fault = fault_of(read.data, place[0], place[2], quick=quick)
    return _Checked(True, damage=fault and fault.damage, evidence=fault.evidence if fault else "")  # noqa: FBT003
