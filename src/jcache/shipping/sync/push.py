"""Push: store in a store what it lacks of the selected entries, and manifests of what was stored.

Every entry is checked as an export checks it, and each byte that goes out is compared with its digest. An entry is sent
while the next ones are checked. What the store has is told by its listing and its manifests: an entry of the same size
that a push has stored is there. Of others the digest is asked. One with another digest is another build, which stays;
one without a digest, or without all its bytes, is replaced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple

from jcache.entry import Entry
from jcache.errors import InvalidValue, JcacheError
from jcache.findings import Finding
from jcache.layout import Kind
from jcache.remote.client import Remote
from jcache.remote.transfer import in_parallel
from jcache.shipping.archive.worlds import keys_of, lines_of
from jcache.shipping.exporter.export import empty_manifest, with_items
from jcache.shipping.exporter.selection import ExportRequest, choose_entries
from jcache.shipping.exporter.send import find_damage, read_whole
from jcache.shipping.exporter.survey import Progress, Survey, SurveyedEntry, with_makers
from jcache.shipping.forecast.installation import this_installation
from jcache.shipping.importer.outcome import EntryId
from jcache.shipping.sync.manifests import StoredManifest, namespace_of_made, read_manifests, write_manifest
from jcache.store.store import Store
from jcache.text import command

_AT_ONCE: Final = 4096  # entries of a manifest; a push that is killed leaves so many without one, and pull takes them


class PushOutcome(StrEnum):
    """What a push does with an entry."""

    NEW = "new"
    PRESENT = "present"  # in the store
    DIFFERENT = "different"  # from the store's entry of the key, which stays
    REPLACED = "replaced"  # the store's entry, which had other bytes than its digest says
    OMITTED = "omitted"  # it changed or vanished meanwhile


STORED: Final = (PushOutcome.NEW, PushOutcome.REPLACED)


@dataclass(slots=True)
class PushPlan:
    """What a push looks at.

    Attributes:
        store: store of the root.
        request: which entries were asked for.
        wanted: the entries that are checked, and stored unless the store proves to have them.
        there: namespaces and sizes of the store's entries that have the names of selected ones.
        outcomes: the other entries, which the store has.
        bytes: size of the entries that are checked.
        legacy: number of entries that are left out because only jax <= 0.4.30 reads them.
    """

    store: Store
    request: ExportRequest
    wanted: list[Entry]
    there: dict[EntryId, tuple[str, int]]
    outcomes: dict[EntryId, PushOutcome]
    bytes: int
    legacy: int


@dataclass(slots=True)
class PushResult:
    """What a push has done so far, or would do.

    Attributes:
        outcomes: what became of each entry that is sound.
        bytes: size of the entries that were stored.
        findings: the damaged entries, which are left out.
        being_written: the entries that were left out because another process was writing them.
    """

    outcomes: dict[EntryId, PushOutcome] = field(default_factory=dict)
    bytes: int = 0
    findings: list[Finding] = field(default_factory=list)
    being_written: list[tuple[Kind, str]] = field(default_factory=list)

    def count(self, *outcomes: PushOutcome) -> int:
        """Return how many entries have one of some outcomes."""
        return sum(outcome in outcomes for outcome in self.outcomes.values())


def plan_push(store: Store, remote: Remote, request: ExportRequest, *, signs: bool = False) -> PushPlan:
    """Return what a push looks at; read no entry, and change nothing.

    Args:
        store: store of the root.
        remote: where the entries go.
        request: which entries.
        signs: whether the manifest will be signed, so that it is to name the entries that no signed one names.

    Raises:
        InvalidValue: the entries are another program's.
        RemoteUnavailable: the store cannot be reached or fails.
        RemoteDenied: the store does not allow that.
        JcacheError: as in `choose_entries`.
    """
    if not store.root.layout.follows_jax:
        raise InvalidValue(
            f"{store.root.path} is {store.root.title}, whose entries have no names in a store: push it whole, as a"
            f" generation, with `{command('push URL --as NAME', store.root.path)}`."
        )
    chosen = choose_entries(store, request)
    there = _sizes_there(remote, request, chosen.entries) if remote.can_list else {}
    manifests = [] if not there else _signed_manifests(remote) if signs else read_manifests(remote).usable
    named = {(item.kind, item.key) for stored in manifests for item in stored.manifest.items}
    lines = set(lines_of(store.root, [entry for entry in chosen.entries if (entry.kind, entry.key) in there]))
    compared = keys_of(lines.difference(*(stored.manifest.worlds for stored in manifests)))
    wanted, outcomes = list[Entry](), dict[EntryId, PushOutcome]()
    for entry in chosen.entries:
        name = entry.kind, entry.key
        is_there = name in there and there[name][1] == entry.bytes
        if is_there and name in named and entry.key not in compared:
            outcomes[name] = PushOutcome.PRESENT
        else:
            wanted.append(entry)
    size = sum(entry.bytes for entry in wanted)
    return PushPlan(store, request, wanted, there, outcomes, size, chosen.legacy)


def _sizes_there(remote: Remote, request: ExportRequest, entries: Iterable[Entry]) -> dict[EntryId, tuple[str, int]]:
    """Return namespace and size of the store's entries that have the names of some."""
    chosen = {(entry.kind, entry.key) for entry in entries}
    listed = (one for kind in request.selection.kinds for one in remote.list(kind))
    return {(one.kind, one.key): (one.namespace, one.bytes) for one in listed if (one.kind, one.key) in chosen}


def _signed_manifests(remote: Remote) -> list[StoredManifest]:
    """Return the manifests that have a signature."""
    from jcache.remote.names import MANIFESTS, SIGNATURE_SUFFIX

    objects = [one.name for batch in remote.transport.objects(MANIFESTS) for one in batch]
    signed = {name.removesuffix(SIGNATURE_SUFFIX) for name in objects if name.endswith(SIGNATURE_SUFFIX)}
    return [stored for stored in read_manifests(remote).usable if stored.name in signed]


class _Settled(NamedTuple):
    """What becomes of an entry; `is_same` tells whether the store has exactly its bytes then."""

    outcome: PushOutcome
    is_same: bool


def _decide(plan: PushPlan, remote: Remote, found: SurveyedEntry, space: str) -> _Settled:
    """Return what is to become of an entry that is sound."""
    item, there = found.item, plan.there.get((found.item.kind, found.item.key))
    if remote.can_list and there is None:
        return _Settled(PushOutcome.NEW, is_same=True)
    digest, size = remote.claims(item.kind, space, item.key)
    if digest is None:  # also an object without a digest counts as none
        return _Settled(PushOutcome.NEW if there is None else PushOutcome.REPLACED, is_same=True)
    if digest != item.digest:
        return _Settled(PushOutcome.DIFFERENT, is_same=False)
    return _Settled(PushOutcome.PRESENT if size in (0, item.bytes) else PushOutcome.REPLACED, is_same=True)


def _send(plan: PushPlan, remote: Remote, found: SurveyedEntry, *, dry_run: bool) -> _Settled:
    """Store an entry that the store lacks, unless it is not as it was surveyed; return what becomes of it."""
    item, there = found.item, plan.there.get((found.item.kind, found.item.key))
    space = namespace_of_made(item.kind, found.maker)
    settled = _decide(plan, remote, found, space if there is None else there[0])
    if settled.outcome not in STORED or dry_run:
        return settled
    data = read_whole(found.source)
    if data is None:
        return _Settled(PushOutcome.OMITTED, is_same=False)
    replace = settled.outcome is PushOutcome.REPLACED
    if remote.put(item.kind, space, item.key, data, seconds=item.seconds, digest=item.digest, replace=replace):
        return settled
    return _Settled(PushOutcome.PRESENT, is_same=False)  # somebody else was faster


def execute_push(
    plan: PushPlan,
    remote: Remote,
    result: PushResult,
    *,
    sign: Callable[[bytes], bytes] | None = None,
    dry_run: bool = False,
    progress: Progress = lambda done, total: None,
) -> None:
    """Check the entries of a plan, and store those that the store lacks, and manifests of them.

    Args:
        plan: the plan.
        remote: where to.
        result: receives what becomes of each entry, also if this ends with an error.
        sign: returns the signature of a manifest's bytes; None for no signature.
        dry_run: whether to store nothing.
        progress: called with the bytes that are dealt with so far, and with all.

    Raises:
        RemoteUnavailable: the store cannot be reached or fails.
        RemoteDenied: the store does not allow that.
        JcacheError: as in `Survey.entries`.
    """
    survey = Survey(plan.store, plan.wanted, grace_ns=plan.request.grace_ns, processes=plan.request.processes)
    result.outcomes |= plan.outcomes
    result.findings, result.being_written = survey.findings, survey.being_written
    news, done = list[SurveyedEntry](), 0
    record = partial(_record, plan.store, remote, news, sign)
    send = partial(_send, plan, remote, dry_run=dry_run)
    with closing(survey.entries()) as sound:
        try:
            for found, settled in in_parallel(send, sound, lambda found: found.item.bytes):
                _settle(result, found, settled)
                is_told = settled.outcome in STORED or sign is not None or remote.can_list
                news += [found] if is_told and settled.is_same and not dry_run else []
                done += found.item.bytes
                progress(done, plan.bytes)
                if len(news) >= _AT_ONCE:
                    record()
        except KeyboardInterrupt:
            with suppress(JcacheError):
                record()
            raise
    record()
    result.findings.sort(key=lambda finding: finding.path)


def _settle(result: PushResult, found: SurveyedEntry, settled: _Settled) -> None:
    finding = find_damage(found.source) if settled.outcome is PushOutcome.OMITTED else None
    if finding is not None:
        result.findings.append(finding)
        return
    result.outcomes[found.item.kind, found.item.key] = settled.outcome
    result.bytes += found.item.bytes if settled.outcome in STORED else 0


def _record(store: Store, remote: Remote, news: list[SurveyedEntry], sign: Callable[[bytes], bytes] | None) -> None:
    """Store a manifest of some entries, if there are any, and forget them."""
    items, makers = with_makers(sorted(news, key=lambda found: found.item[:2]))
    news.clear()
    if items:
        installed = this_installation(os.environ)
        manifest = with_items(empty_manifest(store, installed), store, installed, items, makers)
        write_manifest(remote, manifest, sign)
