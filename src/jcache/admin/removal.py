"""Plan and execute removals from a root, for `jcache.prune`, `jcache.clear` and the commands of these names."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

from jcache import clock
from jcache.admin.filters import Filter
from jcache.entry import Entry
from jcache.errors import InvalidValue, OutOfReach
from jcache.layout import Kind, Root
from jcache.store.entries import joined
from jcache.store.eviction import everything, plan
from jcache.store.files import refusal
from jcache.store.links import NO_LINKS, Links, Name, exact_name
from jcache.store.order import Order
from jcache.store.policy import Plan, Policy, Reason, Verdict
from jcache.store.progress import Progress
from jcache.store.removal import Removed, foresee, xla_size
from jcache.store.store import Store
from jcache.text import command
from jcache.units import format_apart, parse_age, parse_choice, parse_size, whole_number

_BLOCK_BYTES = 4096
_MANY = 5000  # removed entries after which the ledger may have become much too large
_PINNED = (Reason.PINNED, Reason.NEEDED)


class PruneLimits(NamedTuple):
    """Limits of `prune` as a program or a command line gives them; `jcache.prune` describes them."""

    max_size: str | int | None = None
    max_entries: str | int | None = None
    min_free: str | int | None = None
    older_than: str | timedelta | None = None
    keep_last: str | int | None = None
    legacy: bool = False
    order: Order | str | None = None

    def policy(self) -> Policy:
        """Return the policy that these limits mean.

        Raises:
            InvalidValue: a limit cannot be parsed.
        """
        return Policy(
            max_bytes=None if self.max_size is None else parse_size(str(self.max_size)),
            max_entries=whole_number("--max-entries", self.max_entries),
            min_free_bytes=None if self.min_free is None else parse_size(str(self.min_free)),
            max_age_ns=None if self.older_than is None else _parse_age(self.older_than),
            keep_last=whole_number("--keep-last", self.keep_last),
            legacy=self.legacy,
            order=None if self.order is None else parse_choice(Order, self.order, "is not an order"),
        )


def plan_prune(
    store: Store,
    policy: Policy,
    kinds: Iterable[Kind],
    *,
    filters: Sequence[Filter] = (),
    xla: bool = False,
    seconds: bool = False,
) -> Plan:
    """Return the plan of what a policy removes from a root.

    Args:
        store: store of the root.
        policy: what to keep to.
        kinds: kinds of the entries that the policy applies to.
        filters: that the entries satisfy which the policy is about.
        xla: whether XLA's sub-caches go as well.
        seconds: whether the entries need their build seconds in any case.

    Raises:
        CannotWrite: a directory of the root cannot be read.
        OutOfReach: a limit cannot be reached, whatever is removed.
    """
    kinds = frozenset(kinds)
    entries, links = entries_with_links(store, kinds, seconds=seconds or policy.order is Order.COST)
    if policy.order is Order.COST:
        from jcache.admin.selection import with_seconds

        entries = with_seconds(store, entries)
    only = _satisfying(store, entries, filters)
    with refusal(f"read {store.root.path}"):
        free = shutil.disk_usage(store.root.path).free
    decided = plan(entries, policy, now_ns=clock.now_ns(), free_bytes=free, links=links, kinds=kinds, only=only)
    if policy.bounded or policy.keep_last is not None:
        _tell_unknown_uses(store, entries)
    _check_bounds(entries, decided, policy, links, kinds, root=store.root)
    if policy.min_free_bytes is not None:
        reachable = free + sum(_max_freed_bytes(verdict.entry) for verdict in decided.victims)
        reachable += xla_size(store.root) if xla else 0
        if reachable < policy.min_free_bytes:
            wanted, now, at_most = format_apart(policy.min_free_bytes, free, reachable)
            raise OutOfReach(
                f"--min-free {wanted} cannot be reached: {now} are free, and would be {at_most} without all entries "
                "that may be removed. Nothing was removed."
            )
    return decided


def _tell_unknown_uses(store: Store, entries: Sequence[Entry]) -> None:
    """Add a notice on the entries whose last use is unknown."""
    if not store.catalog.why_unknown(Kind):
        return
    if unknown := [entry.kind for entry in entries if entry.unknown]:
        store.queue.notice(
            f"The last use of {len(unknown):,} of {len(entries):,} entries is unknown, and counted from writing: "
            f"{store.catalog.why_unknown(unknown)}. jcache run and jcache.enable() record uses from now on."
        )


def _satisfying(store: Store, entries: Sequence[Entry], filters: Sequence[Filter]) -> set[Name] | None:
    """Return the entries that satisfy all filters; None where there is no filter."""
    if not filters:
        return None
    from jcache.admin.named import satisfying

    return {exact_name(entry) for entry in satisfying(store, entries, filters)}


def _check_bounds(
    entries: Sequence[Entry], decided: Plan, policy: Policy, links: Links, kinds: frozenset[Kind], *, root: Root
) -> None:
    """Raise OutOfReach if pinned entries, and those that they need, are over a bound that is about them."""
    is_held = decided.kept.for_reasons(*_PINNED)
    kept = everything(entries, links=links, kinds=kinds).kept.for_reasons(*_PINNED) if is_held else ()
    about = (*decided.victims, *decided.kept) if kept else ()
    names = {exact_name(verdict.entry) for verdict in about}
    staying = [entry for entry, _ in kept if not entry.legacy and exact_name(entry) in names]
    size, unpin = sum(entry.bytes for entry in staying), command("unpin KEY", root.path)
    if policy.max_bytes is not None and size > policy.max_bytes:
        bound, held = format_apart(policy.max_bytes, size)
        option, why = f"--max-size {bound}", f"pinned entries, and those that they need, take {held}"
    elif policy.max_entries is not None and len(staying) > policy.max_entries:
        option = f"--max-entries {policy.max_entries:,}"
        why = f"{len(staying):,} entries are pinned, or needed by pinned entries"
    else:
        return
    raise OutOfReach(f"{option} cannot be reached: {why}. Nothing was removed; `{unpin}` lets an entry go.")


def _max_freed_bytes(entry: Entry) -> int:
    """Return the largest number of bytes that removing an entry can free: whole blocks, and one for its sidecar."""
    return -(-entry.bytes // _BLOCK_BYTES) * _BLOCK_BYTES + _BLOCK_BYTES * entry.sidecar


def plan_clear(store: Store, kinds: Iterable[Kind], *, legacy: bool, seconds: bool = False) -> Plan:
    """Return the plan that removes all entries of some kinds from a root; arguments are those of `plan_prune`.

    Raises:
        CannotWrite: a directory of the root cannot be read.
    """
    kinds = frozenset(kinds)
    entries, links = entries_with_links(store, kinds, seconds=seconds)
    return everything(entries, legacy=legacy, links=links, kinds=kinds)


def entries_with_links(store: Store, kinds: frozenset[Kind], *, seconds: bool = False) -> tuple[Sequence[Entry], Links]:
    """Return the entries of some kinds, with all traces if these may need them, and the links between them."""
    wanted = [kind for kind in Kind if kind in kinds]
    entries = store.entries(wanted, legacy=True, uses=True, seconds=seconds)
    if not kinds & {Kind.EXECUTABLES, Kind.TRACES}:
        return entries, NO_LINKS
    traces = () if Kind.TRACES in kinds else store.entries([Kind.TRACES], uses=True, seconds=seconds)
    if not traces and not any(entry.kind is Kind.TRACES for entry in entries):
        return entries, NO_LINKS
    from jcache.store.lineage import read_lineage

    return joined((entries, traces)), read_lineage(store).links


def execute(store: Store, plan: Plan, *, xla: bool, dry_run: bool, progress: Progress[Verdict] = iter) -> Removed:
    """Execute a plan or, on a dry run, predict the result.

    Args:
        store: store of the root.
        plan: plan for this root.
        xla: whether to remove XLA's sub-caches as well.
        dry_run: whether to change nothing.
        progress: receives the victims of each kind and yields them.

    Raises:
        CannotWrite: the root cannot be changed at all.
        Locked: another process held a lock for too long.
        LedgerUnavailable: it is unknown which entries are pinned; nothing was removed.
    """
    if dry_run and plan.victims:
        store.pins.known(sure=True)  # raises, as a real run would, if the pins are unknown
    removal = foresee(plan) if dry_run else store.maintenance.execute(plan, progress=progress)
    xla_bytes = (xla_size(store.root) if dry_run else store.maintenance.remove_xla()) if xla else 0
    if not dry_run and len(removal.removed_at) >= _MANY:
        store.ledger.shrink((), sure=4 * len(removal.removed_at) >= len(plan.victims) + len(plan.kept))
    return Removed(
        root=store.root,
        dry_run=dry_run,
        removed=plan.victims if dry_run else plan.victims.at(sorted(removal.removed_at)),
        kept=plan.kept + removal.kept,
        failed=tuple(removal.failures),
        freed_bytes=removal.bytes + xla_bytes,
        xla_bytes=xla_bytes,
        sidecars_made=removal.adopted,
        notices=tuple(store.notices),
        because=plan.because,
    )


def _parse_age(age: str | timedelta) -> int:
    if not isinstance(age, timedelta):
        return parse_age(str(age))
    if age < timedelta():
        raise InvalidValue(f"'{age}' is not an age: it is negative.")
    return age // timedelta(microseconds=1) * 1000
