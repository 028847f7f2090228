"""Import of an archive into a root: refuse what the manifest shows to be wrong, then check each entry's digest.

Import believes only the digests in the manifest. The author of the manifest wrote them, and a signature tells who that
is. Every entry must have its digest. That an entry is what its key says was checked when it was exported, and is not
checked again, since that would take longer than all the rest. Users who do not trust the sender require a signature, or
run `jcache verify`: an imported entry counts as not verified yet. Tars without a manifest have no digests, so that each
of their entries passes all checks first (`jcache.shipping.importer.tar_import`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache.errors import InvalidValue, Untrusted
from jcache.layout import Kind, Root
from jcache.shipping.archive import ArchiveMember
from jcache.shipping.archive.manifest import Item, Manifest, XlaFile
from jcache.shipping.archive.worlds import keep_lines
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.importer.entry_import import EntryImporter
from jcache.shipping.importer.outcome import WRITTEN, EntryId, ImportOutcome, ImportResult, outcome_of
from jcache.shipping.importer.preflight import check_room, check_writable
from jcache.shipping.importer.staging import StagedMember
from jcache.store.store import Store
from jcache.verify.signatures import check_signature, verify

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The signer of an archive.

    Attributes:
        signed: whether the archive has a signature.
        signer: the principal that the allowed signers name for its key; None if that was not checked.
    """

    signed: bool = False
    signer: str | None = None


_UPDATE_BATCH: Final = 1024
UNSIGNED: Final = Trust()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """The plan of an import.

    Attributes:
        manifest: manifest of the archive.
        outcomes: the planned outcome for each entry.
        neighbours: the planned outcome for each file of XLA's sub-caches, by path.
        trust: result of the check of the signature.
        forecast: forecast for the executables.
    """

    manifest: Manifest
    outcomes: Mapping[EntryId, ImportOutcome]
    neighbours: Mapping[str, ImportOutcome] = field(default_factory=dict)
    trust: Trust = UNSIGNED
    forecast: Forecast

    def count(self, *outcomes: ImportOutcome) -> int:
        """Return how many entries have one of these outcomes."""
        counted = Counter(self.outcomes.values())
        return sum(counted[outcome] for outcome in outcomes)

    @property
    def written(self) -> list[Item | XlaFile]:
        """The entries and neighbours that will be written."""
        items = [item for item in self.manifest.items if self.outcomes[item.kind, item.key] in WRITTEN]
        return [*items, *(n for n in self.manifest.neighbours if self.neighbours[n.path] in WRITTEN)]

    @property
    def bytes(self) -> int:
        """Stored bytes that will be written."""
        return sum(entry.bytes for entry in self.written)


def check_signers(*, required: bool, allowed_signers: Path | None) -> None:
    """Raise InvalidValue if a signature is required and nobody is named who may sign."""
    if required and allowed_signers is None:
        raise InvalidValue("--require-signature needs a list of signers: name a file with --allowed-signers.")


def check_trust(manifest: bytes, signature: bytes | None, *, required: bool, allowed_signers: Path | None) -> Trust:
    """Check an archive's signature; return its signer. Allowed signers imply that a signature is required.

    Args:
        manifest: the bytes that are signed.
        signature: signature of the manifest; None if there is none.
        required: whether there must be a signature.
        allowed_signers: file of the principals who may sign; None to accept any valid signature.

    Raises:
        Untrusted: the signature is missing and required, or invalid, or not by an allowed signer.
        InvalidValue: the file of allowed signers cannot be read, or is missing.
        JcacheError: ssh-keygen, which checks signatures, is missing or too old.
    """
    check_signers(required=required, allowed_signers=allowed_signers)
    if signature is None:
        if required or allowed_signers is not None:
            raise Untrusted("The archive is not signed, so nothing was imported: export it with --sign.")
        return UNSIGNED
    if allowed_signers is None:
        check_signature(manifest, signature)
        return Trust(signed=True)
    return Trust(signed=True, signer=verify(manifest, signature, allowed_signers))


def plan_import(
    manifest: Manifest,
    root: Root,
    forecast: Forecast,
    *,
    trust: Trust = UNSIGNED,
    replace: bool = False,
    skip_incompatible: bool = False,
    allow_code: bool = False,
) -> ImportPlan:
    """Plan the import of an archive: read entries of the same keys in the root, and change nothing.

    Args:
        manifest: manifest of the archive.
        root: the destination, which need not exist.
        forecast: forecast for the executables in the root.
        trust: result of the check of the signature.
        replace: whether entries of the archive replace others under their keys.
        skip_incompatible: whether to leave out executables that cannot be hit here.
        allow_code: whether to import files that another program executes when it reads them.

    Raises:
        CannotWrite: the root is read-only, or the disk has no room for the entries.
    """
    places = {kind: root.directory(kind) for kind in Kind}
    directory = places[Kind.EXECUTABLES]
    adapter = root.adapter
    outcomes: dict[EntryId, ImportOutcome] = {}
    for item in manifest.items:
        place = os.path.join(places[item.kind], root.file_name(item.kind, item.key))
        unwanted = skip_incompatible and item.kind is Kind.EXECUTABLES and forecast.verdicts[item.key].incompatible
        outcome = ImportOutcome.INCOMPATIBLE if unwanted else outcome_of(place, item, replace=replace)
        if (
            adapter is not None
            and outcome is not ImportOutcome.PRESENT
            and adapter.is_code(item.kind, item.key)
            and not allow_code
        ):
            outcome = ImportOutcome.CODE
        outcomes[item.kind, item.key] = outcome
    neighbours = {n.path: outcome_of(directory / n.path, n, replace=replace) for n in manifest.neighbours}
    plan = ImportPlan(
        manifest=manifest,
        outcomes=outcomes,
        neighbours=neighbours,
        trust=trust,
        forecast=forecast,
    )
    written = plan.written
    kinds = {entry.kind if isinstance(entry, Item) else Kind.EXECUTABLES for entry in written}
    check_writable(root, sorted(kinds))
    check_room(root, written)
    return plan


def total_bytes(manifest: Manifest) -> int:
    """Return the stored bytes of all entries and neighbours of an archive."""
    return sum(item.bytes for item in manifest.items) + sum(one.bytes for one in manifest.neighbours)


def execute_plan(
    plan: ImportPlan,
    members: Iterable[ArchiveMember | StagedMember],
    store: Store,
    imported: ImportResult,
    *,
    omitted: Callable[[], Iterable[tuple[str, str]]] = tuple,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Carry out a plan.

    Args:
        plan: plan to carry out.
        members: members of the archive, or entries that are written already.
        store: store of the root, which exists.
        imported: receives the outcome of each entry, also if this ends with an error.
        omitted: returns the entries that the archive's trailer lists as omitted; called after the last member.
        progress: called with the bytes that are imported so far, and with those of all members.

    Raises:
        BadArchive: the archive is torn or malformed.
        CannotWrite: the root is read-only or full.
        Locked: a lock could not be had in time.
    """
    manifest = plan.manifest
    total, done, due = total_bytes(manifest), 0, 0

    def jaxlib_of(item: Item) -> str | None:
        return None if item.maker is None else manifest.makers[item.maker].jaxlib

    with EntryImporter(store, imported, jaxlib_of) as importer:
        _settle_unwritten(plan, imported, importer)
        for member in members:
            _import_member(plan, member, importer)
            done += member.size
            if done >= due:
                progress(done, total)
                due = done + total // 256
    _settle_missing(plan, imported, frozenset(omitted()))
    keep_lines(store.root, manifest.worlds, {item.key for item in manifest.items})


def _settle_unwritten(plan: ImportPlan, imported: ImportResult, importer: EntryImporter) -> None:
    """Report the outcome of everything that will not be written; update the metadata of entries that are present."""
    present: list[Item] = []
    for item in plan.manifest.items:
        outcome = plan.outcomes[item.kind, item.key]
        if outcome not in WRITTEN:
            imported.outcomes[item.kind, item.key] = outcome
            if outcome is ImportOutcome.PRESENT:
                present.append(item)
        if len(present) >= _UPDATE_BATCH or (present and item is plan.manifest.items[-1]):
            importer.update_present(*present)
            present.clear()
    imported.neighbours |= {path: outcome for path, outcome in plan.neighbours.items() if outcome not in WRITTEN}


def _import_member(plan: ImportPlan, member: ArchiveMember | StagedMember, importer: EntryImporter) -> None:
    if isinstance(member, StagedMember):
        outcome = plan.outcomes[member.entry.kind, member.entry.key]
        return importer.add_staged(member, replace=outcome is ImportOutcome.REPLACED)
    entry = member.entry
    if isinstance(entry, XlaFile):
        outcome = plan.neighbours[entry.path]
        if outcome in WRITTEN:
            importer.add_neighbour(entry, member, replace=outcome is ImportOutcome.REPLACED)
    elif plan.outcomes[entry.kind, entry.key] in WRITTEN:
        importer.add(entry, member, replace=plan.outcomes[entry.kind, entry.key] is ImportOutcome.REPLACED)
    return None


def _settle_missing(plan: ImportPlan, imported: ImportResult, omitted: frozenset[tuple[str, str]]) -> None:
    """Set the outcome of entries that did not come: omitted by the archive, or refused for their bytes.

    A signer vouches for the manifest and not for the trailer: entries that it omits and whose bytes are wrong count as
    refused.
    """
    lacking = {(str(kind), key) for kind, key in omitted}
    wrong = {(entry.kind, entry.key) for refused in imported.refused if isinstance(entry := refused.entry, Item)}
    for name, outcome in plan.outcomes.items():
        if outcome in WRITTEN and name not in imported.outcomes:
            is_omitted = (str(name[0]), name[1]) in lacking and not (plan.trust.signer and name in wrong)
            imported.outcomes[name] = ImportOutcome.OMITTED if is_omitted else ImportOutcome.REFUSED
    imported.refused = [
        refused
        for refused in imported.refused
        if not isinstance(refused.entry, Item)
        or imported.outcomes[refused.entry.kind, refused.entry.key] is ImportOutcome.REFUSED
    ]
    for path, outcome in plan.neighbours.items():
        if outcome in WRITTEN and path not in imported.neighbours:
            imported.neighbours[path] = ImportOutcome.OMITTED if ("xla", path) in lacking else ImportOutcome.REFUSED
