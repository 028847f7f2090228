"""Push: store in a store what it lacks of the selected entries, and a manifest of what was stored.

Every entry is checked as an export checks it, and each byte that goes out is compared with its digest. What the store
has is told by its listing alone: entries of the same key and size are there. Where the sizes differ, the store's entry
is another build, which stays, or has not all its bytes, and is replaced.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from jcache.entry import Entry
from jcache.errors import InvalidValue, JcacheError
from jcache.findings import Finding
from jcache.remote.client import Remote
from jcache.remote.transfer import in_parallel
from jcache.shipping.archive.manifest import Item
from jcache.shipping.exporter.export import PreparedExport, prepare_export
from jcache.shipping.exporter.selection import ExportRequest, choose_entries
from jcache.shipping.exporter.send import find_damage, read_whole
from jcache.shipping.exporter.survey import Progress, SourceFile
from jcache.shipping.importer.outcome import EntryId
from jcache.shipping.sync.manifests import namespace_of_item, read_manifests, write_manifest
from jcache.store.store import Store
from jcache.text import command

_AT_ONCE: Final = (
    4096  # entries of a manifest: a push that is killed leaves so many without one, which pull all the same
)


class PushOutcome(StrEnum):
    """What a push does with an entry."""

    NEW = "new"
    PRESENT = "present"  # in the store
    DIFFERENT = "different"  # from the store's entry of the key, which stays
    REPLACED = "replaced"  # the store's entry, which had other bytes than its digest says
    OMITTED = "omitted"  # it changed or vanished meanwhile


@dataclass(slots=True)
class PushPlan:
    """What a push stores.

    Attributes:
        prepared: the entries that go, surveyed; and those that cannot go.
        outcomes: what becomes of each selected entry that is sound.
        bytes: size of the entries that go.
        vouched: entries that are in the store already, and that a signed manifest is to name.
    """

    prepared: PreparedExport
    outcomes: dict[EntryId, PushOutcome] = field(default_factory=dict)
    bytes: int = 0
    vouched: tuple[Item, ...] = ()


@dataclass(slots=True)
class PushResult:
    """What a push has done so far.

    Attributes:
        outcomes: what became of each entry.
        bytes: size of the entries that were stored.
    """

    outcomes: dict[EntryId, PushOutcome] = field(default_factory=dict)
    bytes: int = 0

    def count(self, *outcomes: PushOutcome) -> int:
        """Return how many entries have one of some outcomes."""
        return sum(outcome in outcomes for outcome in self.outcomes.values())


STORED: Final = (PushOutcome.NEW, PushOutcome.REPLACED)


def plan_push(
    store: Store, remote: Remote, request: ExportRequest, progress: Progress = lambda done, total: None,
    *, signs: bool = False,
) -> PushPlan:  # fmt: skip
    """Return what a push stores; change nothing.

    Args:
        store: store of the root.
        remote: where the entries go.
        request: which entries.
        progress: called with the bytes that are read so far, and with those of all entries.
        signs: whether the manifest will be signed, so that it is to name the entries that no signed one names.

    Raises:
        InvalidValue: the entries are another program's.
        RemoteUnavailable: the store cannot be reached or fails.
        RemoteDenied: the store does not allow that.
        JcacheError: as in `prepare_export`.
    """
    if not store.root.layout.follows_jax:
        raise InvalidValue(
            f"{store.root.path} is {store.root.title}, whose entries have no names in a store: push it whole, as a"
            f" generation, with `{command('push URL --as NAME', store.root.path)}`."
        )
    there = _sizes_there(store, remote, request) if remote.can_list else {}
    named = _named_by_signers(remote) if signs and remote.can_list else set()

    def is_wanted(entry: Entry) -> bool:
        name = entry.kind, entry.key
        size = there.get(name, ("", None))[1]
        return size != entry.bytes or (signs and name not in named)

    outcomes = dict.fromkeys(there, PushOutcome.PRESENT)
    prepared = prepare_export(store, request, progress, wanted=is_wanted)
    plan = PushPlan(prepared, outcomes)
    _decide(plan, remote, there)
    return plan


def _sizes_there(store: Store, remote: Remote, request: ExportRequest) -> dict[EntryId, tuple[str, int]]:
    """Return namespace and size of the store's entries that have the names of selected ones."""
    chosen = {(entry.kind, entry.key) for entry in choose_entries(store, request).entries}
    listed = (one for kind in request.selection.kinds for one in remote.list(kind))
    return {(one.kind, one.key): (one.namespace, one.bytes) for one in listed if (one.kind, one.key) in chosen}


def _named_by_signers(remote: Remote) -> set[EntryId]:
    """Return the entries that manifests with a signature name."""
    from jcache.remote.names import MANIFESTS, SIGNATURE_SUFFIX

    objects = [one.name for batch in remote.transport.objects(MANIFESTS) for one in batch]
    signed = {name.removesuffix(SIGNATURE_SUFFIX) for name in objects if name.endswith(SIGNATURE_SUFFIX)}
    found = (stored for stored in read_manifests(remote).usable if stored.name in signed)
    return {(item.kind, item.key) for stored in found for item in stored.manifest.items}


def _decide(plan: PushPlan, remote: Remote, there: dict[EntryId, tuple[str, int]]) -> None:
    """Decide what becomes of each surveyed entry, and leave in the plan what goes."""
    manifest = plan.prepared.manifest
    keep, vouched = list[bool](), list[Item]()

    def claimed(item: Item) -> str | None:
        """Return the digest that the store's entry claims to have; None for none."""
        known = there.get((item.kind, item.key))
        space = namespace_of_item(item, manifest.makers) if known is None else known[0]
        return remote.digest(item.kind, space, item.key)

    asked = [item for item in manifest.items if not remote.can_list or (item.kind, item.key) in there]
    digests = {(item.kind, item.key): digest for item, digest in in_parallel(claimed, asked)}
    for item in manifest.items:
        name = item.kind, item.key
        is_whole = name not in there or there[name][1] == item.bytes
        digest = digests.get(name)
        if digest is None:  # an object without a digest counts as none
            outcome = PushOutcome.REPLACED if name in there else PushOutcome.NEW
        elif digest != item.digest:
            outcome = PushOutcome.DIFFERENT
        else:
            outcome = PushOutcome.PRESENT if is_whole else PushOutcome.REPLACED
            vouched += [item] if is_whole else []
        plan.outcomes[name] = outcome
        keep.append(outcome in STORED)
        plan.bytes += item.bytes if outcome in STORED else 0
    plan.vouched = tuple(vouched)
    _keep(plan.prepared, keep)


def _keep(prepared: PreparedExport, keep: Collection[bool]) -> None:
    """Leave in a prepared export the entries whose flags are true."""
    pairs = [pair for pair, kept in zip(zip(prepared.manifest.items, prepared.sources, strict=True), keep, strict=True)
             if kept]  # fmt: skip
    prepared.manifest = dataclasses.replace(prepared.manifest, items=tuple(item for item, _ in pairs))
    prepared.sources = [source for _, source in pairs]


def execute_push(
    plan: PushPlan,
    remote: Remote,
    result: PushResult,
    *,
    sign: Callable[[bytes], bytes] | None = None,
    progress: Progress = lambda done, total: None,
) -> None:
    """Store the entries of a plan, and manifests of them.

    Args:
        plan: what to store; damage that is found now is added to its findings.
        remote: where to.
        result: receives what becomes of each entry, also if this ends with an error.
        sign: returns the signature of a manifest's bytes; None for no signature.
        progress: called with the bytes that are stored so far, and with all.

    Raises:
        RemoteUnavailable: the store cannot be reached or fails.
        RemoteDenied: the store does not allow that.
    """
    manifest, done = plan.prepared.manifest, 0
    result.outcomes |= {name: one for name, one in plan.outcomes.items() if one not in STORED}

    def upload(pair: tuple[Item, SourceFile]) -> bool | None:
        """Store an entry; return whether it was stored, None if it is not as it was."""
        item, source = pair
        data = read_whole(source)
        if data is None:
            return None
        replace = plan.outcomes[item.kind, item.key] is PushOutcome.REPLACED
        space = namespace_of_item(item, manifest.makers)
        return remote.put(item.kind, space, item.key, data, seconds=item.seconds, digest=source.digest, replace=replace)

    pairs = zip(manifest.items, plan.prepared.sources, strict=True)
    news, left = list[Item](), plan.vouched if sign is not None else ()

    def record() -> None:
        """Store the manifest of what was stored since the last one."""
        nonlocal left
        items, left = sorted([*news, *left], key=lambda item: item[:2]), ()
        news.clear()
        if items:
            write_manifest(remote, dataclasses.replace(manifest, items=tuple(items)), sign)

    try:
        for (item, source), was_stored in in_parallel(upload, pairs, lambda pair: pair[0].bytes):
            _settle(plan, result, item, source, was_stored)
            news += [item] if was_stored else []
            done += item.bytes
            progress(done, plan.bytes)
            if len(news) >= _AT_ONCE:
                record()
    except KeyboardInterrupt:
        with suppress(JcacheError):
            record()
        raise
    record()


def _settle(plan: PushPlan, result: PushResult, item: Item, source: SourceFile, was_stored: bool | None) -> None:  # noqa: FBT001
    name = item.kind, item.key
    if was_stored is None:
        finding: Finding | None = find_damage(source)
        if finding is not None:
            plan.prepared.findings.append(finding)
            plan.outcomes.pop(name)
        else:
            result.outcomes[name] = PushOutcome.OMITTED
        return
    result.outcomes[name] = plan.outcomes[name] if was_stored else PushOutcome.PRESENT  # somebody else was faster
    result.bytes += item.bytes if was_stored else 0
