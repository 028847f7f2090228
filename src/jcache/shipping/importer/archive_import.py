"""An archive into a root: everything that can be refused is refused from the manifest, then entry by entry.

What an archive is believed: nothing but the digests in its manifest, and these because whoever wrote the manifest wrote
the digests; with a signature that is somebody who is known. Every entry must have its digest. That it is what its key
says was checked when it was exported, and is not checked again, which would take longer than all the rest; whoever
does not trust the sender asks for a signature, or verifies: an imported entry counts as not verified yet. Tars without
a manifest vouch for nothing, and each of their entries passes all checks first (`jcache.shipping.importer.tar_import`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache.errors import InvalidValue, NoCacheHere, Untrusted
from jcache.layout import Kind, Root
from jcache.shipping.archive import ArchiveMember
from jcache.shipping.archive.manifest import Item, Manifest, Neighbour
from jcache.shipping.archive.signing import check_signature, verify
from jcache.shipping.forecast.provenance import key_directory
from jcache.shipping.forecast.report import Forecast
from jcache.shipping.importer.entry_import import EntryImporter
from jcache.shipping.importer.outcome import WRITTEN, EntryId, ImportOutcome, ImportResult, outcome_of
from jcache.shipping.importer.preflight import check_room, check_writable
from jcache.store.foreign import meant_by, state_of
from jcache.store.roots import is_vacant, open_root
from jcache.store.store import Store

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Who signed an archive.

    Attributes:
        signed: whether it has a signature.
        signer: whom the allowed signers name for it; None if it was not checked.
    """

    signed: bool = False
    signer: str | None = None


_UPDATE_BATCH: Final = 1024
UNSIGNED: Final = Trust()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """What an import will do.

    Attributes:
        manifest: of the archive.
        outcomes: what will become of each entry.
        neighbours: of each file of XLA's sub-caches, by its path.
        trust: who signed it.
        forecast: what will hit here.
    """

    manifest: Manifest
    outcomes: Mapping[EntryId, ImportOutcome]
    neighbours: Mapping[str, ImportOutcome] = field(default_factory=dict)
    trust: Trust = UNSIGNED
    forecast: Forecast

    def count(self, *outcomes: ImportOutcome) -> int:
        """How many entries have one of these outcomes."""
        counted = Counter(self.outcomes.values())
        return sum(counted[outcome] for outcome in outcomes)

    @property
    def written(self) -> list[Item | Neighbour]:
        """What will be written."""
        items = [item for item in self.manifest.items if self.outcomes[item.kind, item.key] in WRITTEN]
        return [*items, *(n for n in self.manifest.neighbours if self.neighbours[n.path] in WRITTEN)]

    @property
    def bytes(self) -> int:
        """How many bytes will be written."""
        return sum(what.bytes for what in self.written)


def future_root(path: Path, *, plain: bool) -> Root:
    """The root at a path, or the one that will be made there; nothing is made.

    Raises:
        NoCacheHere: the path holds something else.
    """
    try:
        return open_root(path)
    except NoCacheHere:
        if not is_vacant(path):
            raise
    root = Root(path, plain=plain)
    return with_layout(root, meant_by(path))


def layout_by_keys(root: Root, manifest: Manifest) -> Root:
    """The root that will be made in a vacant place: a plain JAX directory, if executables are keyed for that very path.

    JAX alone then finds them again under the string that it has always been told.
    """
    if not is_layout_open(root):
        return root
    kinds = {item.kind for item in manifest.items}
    alike = {(item.maker, item.portable) for item in manifest.items if item.maker is not None}
    keyed = {key_directory(manifest.makers[maker], portable=portable) for maker, portable in alike}
    return Root(root.path, plain=kinds == {Kind.EXECUTABLES} and str(root.path) in keyed)


def is_layout_open(root: Root) -> bool:
    """Whether what comes decides if it will be a plain JAX directory."""
    return not root.plain and root.adapter is None and is_vacant(root.path)


def with_layout(root: Root, adapter: Adapter | None) -> Root:
    """The root for entries of JAX's, or of another program's: itself, or the one that will be made in a vacant place.

    Raises:
        InvalidValue: it is laid out for others.
    """
    if root.adapter is adapter:
        return root
    if adapter is not None and root.adapter is None and is_vacant(root.path):
        return Root(root.path, plain=True, adapter=adapter, state_path=state_of(root.path))
    theirs = adapter.title if adapter else "a JAX cache"
    raise InvalidValue(f"What is to come is from {theirs}, and {root.path} is {root.title}: name another --root.")


def check_trust(manifest: bytes, signature: bytes | None, *, required: bool, allowed_signers: Path | None) -> Trust:
    """Who signed an archive. Whoever names allowed signers wants one of them to have signed it.

    Args:
        manifest: the bytes that are signed.
        signature: of them; None if there is none.
        required: whether there must be one, even if nobody is named.
        allowed_signers: who may sign; None to take what anybody has, if it is what they have signed, or nobody.

    Raises:
        Untrusted: it is not signed and must be, or not by somebody who is allowed to.
        InvalidValue: the file of allowed signers cannot be read, or is missing.
        JcacheError: ssh-keygen, which checks signatures, is missing or too old.
    """
    if required and allowed_signers is None:
        raise InvalidValue("--require-signature needs to know whose: name a file by --allowed-signers.")
    if signature is None:
        if required or allowed_signers is not None:
            raise Untrusted("The archive is not signed, so nothing of it was taken: export it with --sign.")
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
    """What importing an archive will do; reads the root where it has entries of the same keys, and changes nothing.

    Args:
        manifest: of the archive.
        root: where to; it need not be there.
        forecast: what will hit there.
        trust: who signed the archive.
        replace: whether entries of the archive take the place of others under their keys.
        skip_incompatible: whether to leave out what cannot be hit here.
        allow_code: whether to take what another program executes when it reads it.

    Raises:
        CannotWrite: the root is read-only, or the disk has no room for it.
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
    kinds = {what.kind if isinstance(what, Item) else Kind.EXECUTABLES for what in written}
    check_writable(root, sorted(kinds))
    check_room(root, written)
    return plan


def total_bytes(manifest: Manifest) -> int:
    """Stored bytes of all that an archive holds."""
    return sum(item.bytes for item in manifest.items) + sum(one.bytes for one in manifest.neighbours)


def execute_plan(
    plan: ImportPlan,
    members: Iterable[ArchiveMember],
    store: Store,
    imported: ImportResult,
    *,
    omitted: Callable[[], Iterable[tuple[str, str]]] = tuple,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Carries out a plan.

    Args:
        plan: what to do.
        members: of the archive.
        store: of the root, which is there.
        imported: is told what became of each entry, also if this ends with an error.
        omitted: tells, once the members have come to their end, what the archive says that it lacks.
        progress: is told of the bytes that are done, and of all of them.

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
        present: list[Item] = []
        for item in manifest.items:
            outcome = plan.outcomes[item.kind, item.key]
            if outcome not in WRITTEN:
                imported.outcomes[item.kind, item.key] = outcome
                if outcome is ImportOutcome.PRESENT:
                    present.append(item)
            if len(present) >= _UPDATE_BATCH or (present and item is manifest.items[-1]):
                importer.update_present(*present)
                present.clear()
        imported.neighbours |= {path: outcome for path, outcome in plan.neighbours.items() if outcome not in WRITTEN}
        for member in members:
            _import_member(plan, member, importer)
            done += member.size
            if done >= due:
                progress(done, total)
                due = done + total // 256
    _settle_missing(plan, imported, frozenset(omitted()))


def _import_member(plan: ImportPlan, member: ArchiveMember, importer: EntryImporter) -> None:
    what = member.entry
    if isinstance(what, Neighbour):
        outcome = plan.neighbours[what.path]
        if outcome in WRITTEN:
            importer.add_neighbour(what, member, replace=outcome is ImportOutcome.REPLACED)
    elif plan.outcomes[what.kind, what.key] in WRITTEN:
        importer.add(what, member, replace=plan.outcomes[what.kind, what.key] is ImportOutcome.REPLACED)


def _settle_missing(plan: ImportPlan, imported: ImportResult, omitted: frozenset[tuple[str, str]]) -> None:
    """Says of what did not come whether the archive does without it or had other bytes for it."""
    lacking = {(str(kind), key) for kind, key in omitted}
    wrong = {(what.kind, what.key) for refused in imported.refused if isinstance(what := refused.what, Item)}
    for name, outcome in plan.outcomes.items():
        if outcome in WRITTEN and name not in imported.outcomes:
            honest = (str(name[0]), name[1]) in lacking and not (plan.trust.signer and name in wrong)
            imported.outcomes[name] = ImportOutcome.OMITTED if honest else ImportOutcome.REFUSED
    imported.refused = [
        refused
        for refused in imported.refused
        if not isinstance(refused.what, Item)
        or imported.outcomes[refused.what.kind, refused.what.key] is ImportOutcome.REFUSED
    ]
    for path, outcome in plan.neighbours.items():
        if outcome in WRITTEN and path not in imported.neighbours:
            imported.neighbours[path] = ImportOutcome.OMITTED if ("xla", path) in lacking else ImportOutcome.REFUSED
