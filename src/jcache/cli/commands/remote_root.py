"""What `info`, `ls`, `du`, `prune` and `verify` do where `--root` is a URL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from jcache import clock
from jcache.admin.fields import Facts, Field
from jcache.admin.filters import Filter
from jcache.admin.remote.listing import RemoteListing
from jcache.admin.remote.prune import GRACE_NS, execute_prune, plan_prune
from jcache.admin.remote.verify import RemoteFinding, verify_store
from jcache.admin.selection import Selection
from jcache.admin.usage import UNKNOWN, Grouping, UsageGroup
from jcache.cli import output
from jcache.cli.progress import Bar
from jcache.cli.reports import entry_table, removal_report
from jcache.entry import Entry
from jcache.errors import InvalidValue
from jcache.findings import Damage
from jcache.layout import Kind, Root, short_key
from jcache.remote.client import Remote, open_existing
from jcache.remote.names import MANIFEST_SUFFIX, MANIFESTS
from jcache.shipping.sync.generations import stored_generations
from jcache.store.policy import Policy
from jcache.store.removal import Removed
from jcache.units import format_size, parse_age, rfc3339

_ROWS: Final = 40
_NOWHERE: Final = Root(Path(), plain=True)  # of a report whose root is printed otherwise


def info(url: str, *, json: bool, quiet: bool) -> None:
    """Show what a store holds: entries, bytes and times of each kind, and of each namespace of executables."""
    with open_existing(url) as remote:
        listing = RemoteListing.of(remote)
        listing.add_uses(remote)
        names = sorted(one.name for one in stored_generations(remote))
        objects = (one.name for batch in remote.transport.objects(MANIFESTS) for one in batch)
        manifests = sum(name.endswith(MANIFEST_SUFFIX) for name in objects)
        told = _count(remote, listing) | {"generations": names, "manifests": manifests}
    if json:
        output.as_json(told)
    elif quiet:
        output.data(format_size(told["total_bytes"]))
    else:
        _render_info(told)


def _count(remote: Remote, listing: RemoteListing) -> dict[str, Any]:
    sizes, uses, groups = listing.numbers("bytes"), listing.numbers("recency_ns"), dict[str, list[int]]()
    for row in range(len(listing)):
        kind, space, _ = listing.place(row)
        groups.setdefault(f"{kind}/{space}" if space else str(kind), []).append(row)
    counted = {
        name: {
            "entries": len(rows),
            "bytes": sum(map(sizes.__getitem__, rows)),
            "newest_use": rfc3339(max(map(uses.__getitem__, rows))),
            "oldest_use": rfc3339(min(map(uses.__getitem__, rows))),
        }
        for name, rows in sorted(groups.items())
    }
    return {"root": str(remote), "layout": "store", "groups": counted, "total_bytes": sum(sizes)}


def _render_info(told: dict[str, Any]) -> None:
    output.rich(output.plain(f"{told['root']}  (a store)"), "")
    columns = [
        ("kind", "fold"),
        ("entries", "right"),
        ("bytes", "right"),
        ("last use", "right"),
        ("oldest use", "right"),
    ]
    rows = [
        (output.plain(name), f"{group['entries']:,}", format_size(group["bytes"]), group["newest_use"][:10],
         group["oldest_use"][:10])
        for name, group in told["groups"].items()
    ]  # fmt: skip
    output.rich(output.table(columns, rows), "")
    if told["generations"]:
        output.prose(f"generations  {', '.join(told['generations'])}")
    output.data(f"total   {format_size(told['total_bytes'])}")


class _Known:
    """Facts about the entries of a store that are shown."""

    def __init__(self, entries: Sequence[Entry], facts: Sequence[Facts]) -> None:
        self._facts = {(entry.kind, entry.key): known for entry, known in zip(entries, facts, strict=True)}

    def of(self, entry: Entry) -> Facts:
        return self._facts[entry.kind, entry.key]


def ls(url: str, selection: Selection, shown: Sequence[Field], *, json: bool, quiet: bool, verbose: bool) -> None:
    """List the entries of a store; build seconds, hits and runs are not known of them."""
    with open_existing(url) as remote:
        listing = RemoteListing.of(remote, selection.kinds)
        listing.add_uses(remote)
    rows = listing.selected(selection.filters, selection.sort, selection.limit)
    if json:
        make = entry_table.json_maker(entry_table.more_json(selection, shown))
        objects = (make(listing[row], listing.facts(row)) | {"namespace": listing.namespace(row)} for row in rows)
        output.as_json_list({"root": str(remote)}, "entries", objects, version=2)
        return
    if quiet:
        for row in rows:
            output.data(listing.key_at(row))
        return
    if not rows:
        output.message("No entries.")
        return
    entries = [listing[row] for row in rows]
    known = _Known(entries, [listing.facts(row) for row in rows])
    output.rich(entry_table.table(entries, shown, known, clock.now_ns(), whole=verbose), whole=verbose)
    total = format_size(sum(entry.bytes for entry in entries))
    output.message(f"{output.count(len(entries), 'entry', 'entries')}, {total}")


def groups(url: str, by: Grouping, kinds: Sequence[Kind]) -> list[UsageGroup]:
    """Return the groups of a store's entries, for `jcache du`.

    Raises:
        InvalidValue: the store does not tell such groups.
    """
    if by is Grouping.RUN:
        raise InvalidValue(
            "du --by run needs recorded runs, and a store records none: choose another group, such as function."
        )
    with open_existing(url) as remote:
        listing = RemoteListing.of(remote, kinds)
    sizes, found = listing.numbers("bytes"), dict[str, UsageGroup]()
    for row in range(len(listing)):
        name = _group(listing, row, by) or UNKNOWN
        group = found.setdefault(name, UsageGroup(name))
        group.entries += 1
        group.bytes += sizes[row]
    return list(found.values())


def _group(listing: RemoteListing, row: int, by: Grouping) -> str | None:
    match by:
        case Grouping.FUNCTION:
            return listing[row].name
        case Grouping.KIND:
            return str(listing[row].kind)
        case Grouping.DEVICE:
            return listing.facts(row).device
        case _:
            return listing.facts(row).jaxlib


def prune(
    url: str,
    policy: Policy,
    kinds: Sequence[Kind],
    filters: Sequence[Filter],
    *,
    grace: str | None,
    dry_run: bool,
    json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Remove from a store the entries that a policy selects; return the exit code."""
    grace_ns = GRACE_NS if grace is None else parse_age(grace)
    with open_existing(url) as remote:
        planned = plan_prune(remote, policy, kinds, filters=filters, grace_ns=grace_ns)
        victims = planned.plan.victims
        if not dry_run:
            with Bar("removing", items=True) as bar:
                execute_prune(remote, planned, bar.show)
    done = Removed(root=_NOWHERE, dry_run=dry_run, removed=victims, kept=planned.plan.kept, failed=(),
                   freed_bytes=victims.bytes, xla_bytes=0, sidecars_made=0, notices=())  # fmt: skip
    if json:
        output.as_json(removal_report.as_json(done) | {"root": str(remote)}, version=2)
    elif not quiet:
        removal_report.render(done, verbose, listed=dry_run or verbose, of_named=False)
        if not planned.batches:
            output.message(f"No use is recorded in {remote}, so the time of storing counts as the last use.")
    return 0


def verify(
    url: str,
    kinds: Sequence[Kind],
    ignored: Collection[Damage],
    *,
    quick: bool,
    repair: bool,
    json: bool,
    quiet: bool,
    verbose: bool,
) -> int:
    """Check every entry of a store; return the exit code."""
    with open_existing(url) as remote, Bar("verifying") as bar:
        found = verify_store(remote, kinds, quick=quick, repair=repair, progress=bar.show)
    findings = [finding for finding in found.findings if finding.damage not in ignored]
    if json:
        output.as_json({
            "root": str(remote), "clean": not findings or repair, "entries": found.entries, "bytes": found.bytes,
            "not_checked_inside": found.opaque, "without_digest": len(found.unclaimed),
            "findings": list(map(_finding_json, findings)), "removed": found.repaired,
        })  # fmt: skip
    else:
        for finding in () if quiet else findings if verbose else findings[:_ROWS]:
            key = finding.place[2] if verbose else short_key(finding.place[2])
            output.prose(f"{finding.damage}  {finding.place[0]}  {key}  {finding.evidence}")
        checked = output.count(found.entries, "entry", "entries")
        output.prose(f"Checked {checked}, {format_size(found.bytes)}: {_found_text(findings)}")
        _tell_rest(found.repaired, len(found.unclaimed), len(findings), url)
    return 0 if not findings or repair else 1


def _found_text(findings: Sequence[RemoteFinding]) -> str:
    """Return the number of findings and their kinds of damage, or ``no findings``."""
    if not findings:
        return "no findings"
    counts = Counter(finding.damage.replace("_", " ") for finding in findings).most_common()
    damages = ", ".join(f"{number:,} {damage}" for damage, number in counts)
    return f"{output.count(len(findings), 'finding', 'findings')} ({damages})"


def _finding_json(finding: RemoteFinding) -> dict[str, str]:
    kind, namespace, key = finding.place
    return {"damage": finding.damage, "kind": kind, "namespace": namespace, "key": key, "evidence": finding.evidence}


def _tell_rest(repaired: int, unclaimed: int, damaged: int, url: str) -> None:
    from jcache.text import command, masked

    if unclaimed:
        number = output.count(unclaimed, "entry has", "entries have")
        output.message(f"{number} no digest, since JAX stored them without jcache: jcache never serves them.")
    if repaired:
        output.message(f"Removed {output.count(repaired, 'damaged entry', 'damaged entries')}: push them again.")
    elif damaged:
        output.message(
            f"`{command('verify --repair', masked(url))}` removes damaged entries, and the next push stores them again."
        )
