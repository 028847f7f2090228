"""Local roots brought together: an export and an import without the archive in between.

The sources are read as for an export: checked, digested, and their damaged entries stay where they are. Nothing of them
is changed but what their ledgers know. What is there already is dealt with as in an import.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jcache.layout import Root
from jcache.shipping.archive import Member, item_name, neighbour_name
from jcache.shipping.archive.manifest import Item, Manifest, Neighbour, adapter_of
from jcache.shipping.exporter.export import Prepared, Request, prepare
from jcache.shipping.exporter.scan import Mark, open_regular
from jcache.shipping.forecast.judge import Forecast
from jcache.shipping.importer.archive_import import ImportPlan, plan_import, receive
from jcache.shipping.importer.outcome import WRITTEN, Fate, Imported, Name
from jcache.shipping.importer.preflight import check_room
from jcache.store.store import Store

Progress = Callable[[int, int], None]


def _silent(done: int, total: int) -> None:
    del done, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """What bringing one root into another one will do.

    Attributes:
        source: the root that is brought.
        prepared: its entries.
        plan: what becomes of them.
    """

    source: Root
    prepared: Prepared
    plan: ImportPlan


def plan_merge(
    source: Store,
    root: Root,
    judge: Callable[[Manifest], Forecast],
    *,
    replace: bool = False,
    skip_incompatible: bool = False,
    allow_code: bool = False,
    xla: bool = False,
    progress: Progress = _silent,
) -> Merging:
    """What bringing a root into another one will do.

    Args:
        source: the root that is brought.
        root: where to; it need not be there.
        judge: tells what will be hit there.
        replace: whether entries take the place of others under their keys.
        skip_incompatible: whether to leave out what cannot be hit.
        allow_code: as of `plan_import`.
        xla: whether to bring XLA's sub-caches as well.
        progress: is told how many bytes are read, and of how many.

    Raises:
        CannotWrite: the disk has no room for it, or the source cannot be read.
    """
    prepared = prepare(source, Request(xla=xla), progress)
    plan = plan_import(
        prepared.manifest,
        root,
        judge(prepared.manifest),
        replace=replace,
        skip_incompatible=skip_incompatible,
        allow_code=allow_code,
    )
    return Merging(source=source.root, prepared=prepared, plan=plan)


def behind(plan: ImportPlan, brought: dict[Name | str, str]) -> ImportPlan:
    """A plan as it will be once others have been carried out.

    Args:
        plan: made without them.
        brought: digests of what they write, by names of entries and paths of neighbours; what this one writes is added.
    """

    def fate(name: Name | str, digest: str, before: Fate) -> Fate:
        after = before
        if name in brought and before is not Fate.INCOMPATIBLE:
            other = Fate.REPLACED if plan.replace else Fate.DIFFERENT
            after = Fate.PRESENT if brought[name] == digest else other
        if after in WRITTEN:
            brought[name] = digest
        return after

    fates = {(i.kind, i.key): fate((i.kind, i.key), i.digest, plan.fates[i.kind, i.key]) for i in plan.manifest.items}
    neighbours = {n.path: fate(n.path, n.digest, plan.neighbours[n.path]) for n in plan.manifest.neighbours}
    return dataclasses.replace(plan, fates=fates, neighbours=neighbours)


def merge(merging: Merging, store: Store, imported: Imported, *, progress: Progress = _silent) -> None:
    """Brings a root into another one.

    Args:
        merging: what `plan_merge` gave.
        store: of the root where it goes, which is there.
        imported: is told what became of each entry, also if this ends with an error.
        progress: is told how many bytes are written, and of how many.

    Raises:
        CannotWrite: the root is read-only or full.
        Locked: a lock could not be had in time.
    """
    check_room(store.root, merging.plan.written)
    omitted: list[tuple[str, str]] = []
    members = _members(merging.prepared, omitted)
    receive(merging.plan, members, store, imported, omitted=lambda: omitted, progress=progress)


def _members(prepared: Prepared, omitted: list[tuple[str, str]]) -> Iterator[Member]:
    """The files as members of an archive would be; those that have changed meanwhile are omitted."""
    manifest = prepared.manifest
    adapter = adapter_of(manifest)
    whats: list[Item | Neighbour] = [*manifest.items, *manifest.neighbours]
    for what, source in zip(whats, prepared.sources, strict=True):
        if isinstance(what, Item):
            name, short = item_name(what, adapter), (what.kind.value, what.key)
        else:
            name, short = neighbour_name(what), ("xla", what.path)
        try:
            file = open_regular(source.path)
        except OSError:
            omitted.append(short)
            continue
        with file:
            if Mark.of(file) == source.mark:
                yield Member(what, name, file.readinto)
                if Mark.of(file) == source.mark:
                    continue
            omitted.append(short)
