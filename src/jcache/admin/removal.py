"""Plan and execute removals from a root, for `jcache.prune`, `jcache.clear` and the commands of these names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from datetime import timedelta

from jcache import clock
from jcache.entry import Entry
from jcache.errors import InvalidValue, OutOfReach
from jcache.layout import Kind, Root
from jcache.store.eviction import everything, plan
from jcache.store.files import refusal
from jcache.store.links import NO_LINKS, Links
from jcache.store.maintenance import Progress
from jcache.store.policy import Order, Plan, Policy, Reason, Verdict
from jcache.store.removal import Removed, foresee, xla_size
from jcache.store.store import Store
from jcache.text import command
from jcache.units import format_apart, parse_age, parse_choice, parse_size, whole_number

_BLOCK = 4096


_PINNED = (Reason.PINNED, Reason.NEEDED)


def make_policy(
    *,
    max_size: str | int | None,
    max_entries: str | int | None,
    min_free: str | int | None,
    older_than: str | timedelta | None,
    keep_last: str | int | None,
    legacy: bool,
    order: Order | str,
    xla: bool,
    root: str | os.PathLike[str] | None = None,
) -> Policy:
    """Return the policy for the arguments of `prune`, as a program or a command line gives them.

    Raises:
        InvalidValue: one of them cannot be read, or none of them asks for anything.
    """
    policy = Policy(
        max_bytes=None if max_size is None else parse_size(str(max_size)),
        max_entries=whole_number("--max-entries", max_entries),
        min_free_bytes=None if min_free is None else parse_size(str(min_free)),
        max_age_ns=None if older_than is None else _age(older_than),
        keep_last=whole_number("--keep-last", keep_last),
        legacy=legacy,
        order=parse_choice(Order, order, "is not an order"),
    )
    if policy.empty and not xla:
        raise InvalidValue(
            "prune needs to know what to remove: name --max-size, --max-entries, --min-free, --older-than, "
            f"--keep-last, --legacy or --xla; `{command('clear', root)}` removes everything."
        )
    return policy


def plan_prune(store: Store, policy: Policy, kinds: Iterable[Kind], *, xla: bool = False) -> Plan:
    """Return the plan of what a policy removes from a root.

    Raises:
        CannotWrite: a directory of the root cannot be read.
        OutOfReach: a bound, or what is to be free, cannot be reached, whatever is removed.
    """
    kinds = frozenset(kinds)
    entries, links = _linked(store, kinds)
    if policy.order is Order.COST:
        from jcache.admin.selection import with_seconds

        entries = with_seconds(store, entries)
    with refusal(f"read {store.root.path}"):
        free = shutil.disk_usage(store.root.path).free
    decided = plan(entries, policy, now_ns=clock.now_ns(), free_bytes=free, links=links, kinds=kinds)
    if (policy.bounded or policy.keep_last is not None) and (unknown := [e.kind for e in entries if e.unknown]):
        why = store.catalog.why_unknown(unknown)
        store.queue.notice(
            f"The last use of {len(unknown):,} of {len(entries):,} entries is unknown, counted from writing: {why}. "
            "jcache run and jcache.enable() record it from now on."
        )
    _check_bounds(entries, policy, links, kinds, root=store.root)
    reachable = free + sum(_on_disk(verdict.entry) for verdict in decided.victims)
    reachable += xla_size(store.root) if xla else 0
    if policy.min_free_bytes is not None and reachable < policy.min_free_bytes:
        wanted, now, at_most = format_apart(policy.min_free_bytes, free, reachable)
        raise OutOfReach(
            f"--min-free {wanted} cannot be reached: {now} are free, and removing all that may go would make it "
            f"{at_most}. Nothing was removed."
        )
    return decided


def _check_bounds(entries: list[Entry], policy: Policy, links: Links, kinds: frozenset[Kind], *, root: Root) -> None:
    """Raise OutOfReach if the pinned entries, with those that they need, are over a bound by themselves."""
    kept = everything(entries, links=links, kinds=kinds).kept if any(entry.pinned for entry in entries) else ()
    staying = [v.entry for v in kept if v.reason in _PINNED and not v.entry.legacy]
    size, unpin = sum(entry.bytes for entry in staying), command("unpin KEY", root.path)
    if policy.max_bytes is not None and size > policy.max_bytes:
        bound, held = format_apart(policy.max_bytes, size)
        option, why = f"--max-size {bound}", f"what is pinned, and what it needs, takes {held}"
    elif policy.max_entries is not None and len(staying) > policy.max_entries:
        option = f"--max-entries {policy.max_entries:,}"
        why = f"{len(staying):,} entries are pinned, or needed by what is pinned"
    else:
        return
    raise OutOfReach(f"{option} cannot be reached: {why}. Nothing was removed; `{unpin}` lets an entry go.")


def _on_disk(entry: Entry) -> int:
    """Return the most bytes that removing an entry can free: whole blocks, with one for its sidecar."""
    return -(-entry.bytes // _BLOCK) * _BLOCK + _BLOCK * entry.sidecar


def plan_clear(store: Store, kinds: Iterable[Kind], *, legacy: bool) -> Plan:
    """Return the plan of what clearing removes from a root.

    Raises:
        CannotWrite: a directory of the root cannot be read.
    """
    kinds = frozenset(kinds)
    entries, links = _linked(store, kinds)
    return everything(entries, legacy=legacy, links=links, kinds=kinds)


def _linked(store: Store, kinds: frozenset[Kind]) -> tuple[list[Entry], Links]:
    """Return the entries of some kinds, with the traces that need any of them, and the links between them."""
    entries = store.entries([kind for kind in Kind if kind in kinds], legacy=True, uses=True)
    if not kinds & {Kind.EXECUTABLES, Kind.TRACES}:
        return entries, NO_LINKS
    traces = [] if Kind.TRACES in kinds else store.entries([Kind.TRACES], uses=True)
    if not traces and not any(entry.kind is Kind.TRACES for entry in entries):
        return entries, NO_LINKS
    from jcache.store.lineage import read_lineage

    return [*entries, *traces], read_lineage(store).links


def carry_out(store: Store, plan: Plan, *, xla: bool, dry_run: bool, progress: Progress[Verdict] = iter) -> Removed:
    """Execute a plan or, on a dry run, predict the result.

    Args:
        store: of the root that the plan is of.
        plan: what goes and what stays.
        xla: whether XLA's sub-caches go as well.
        dry_run: change nothing.
        progress: is given the victims of each kind, and passes them on.

    Raises:
        CannotWrite: the root cannot be changed at all.
        Locked: the lock could not be had in time.
        LedgerUnavailable: what is pinned cannot be known; nothing was removed.
    """
    if dry_run and plan.victims:
        store.pins.known(sure=True)  # which a real run could not do without, either
    removal = foresee(plan) if dry_run else store.maintenance.execute(plan, progress=progress)
    xla_bytes = (xla_size(store.root) if dry_run else store.maintenance.remove_xla()) if xla else 0
    gone = {(entry.kind, entry.key) for entry in removal.removed}
    return Removed(
        root=store.root,
        dry_run=dry_run,
        removed=tuple(verdict for verdict in plan.victims if (verdict.entry.kind, verdict.entry.key) in gone),
        kept=(*plan.kept, *removal.kept),
        failed=tuple(removal.failures),
        freed_bytes=removal.bytes + xla_bytes,
        xla_bytes=xla_bytes,
        sidecars_made=removal.adopted,
        notices=tuple(store.notices),
        because=plan.because,
    )


def _age(age: str | timedelta) -> int:
    if not isinstance(age, timedelta):
        return parse_age(str(age))
    if age < timedelta():
        raise InvalidValue(f"'{age}' is not an age: it is negative.")
    return age // timedelta(microseconds=1) * 1000
