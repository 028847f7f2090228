"""What `jcache info`, `clear` and `prune` do, for programs: typed, frozen values, and errors instead of exit codes.

The commands print these very values: `make_policy`, `plan_prune`, `plan_clear` and `carry_out` are theirs as well.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from datetime import timedelta

from jcache import clock
from jcache.admin.census import CAP, Census, take_census
from jcache.entry import Entry
from jcache.errors import InvalidValue, NotInEffect, OutOfReach
from jcache.layout import Kind, Root, parse_kind
from jcache.store import roots
from jcache.store.eviction import Order, Plan, Policy, Reason, Verdict, everything, plan
from jcache.store.files import refusal
from jcache.store.links import NO_LINKS, Links
from jcache.store.locking import timeout_in
from jcache.store.maintenance import Progress
from jcache.store.removal import Removed, foresee, xla_size
from jcache.store.roots import choose_path, open_root
from jcache.store.store import Store
from jcache.text import command
from jcache.units import format_apart, parse_age, parse_choice, parse_size, whole_number

_BLOCK = 4096
_PINNED = (Reason.PINNED, Reason.NEEDED)
__all__ = ["Removed", "carry_out", "clear", "info", "make_policy", "plan_clear", "plan_prune", "prune"]


def info(root: str | os.PathLike[str] | None = None) -> Census:
    """Counts what a root holds; the same as `jcache info`.

    Args:
        root: a root or JAX cache directory. By default the one that `jcache.enable` put in use in this process, else
            ``$JCACHE_DIR``, ``$JAX_COMPILATION_CACHE_DIR`` or ``jcache`` in the user's cache directory.

    Returns:
        Entries, bytes and last use by kind, what lies beside them, and how full the disk is; sizes in bytes, times in
        nanoseconds since 1970.

    Raises:
        NoCacheHere: there is no cache.
        NotInEffect: no root is named, and the one that `jcache.enable` was given could not be put in use.
        CannotWrite: a directory of the root cannot be read.
        InvalidValue: the root, or ``$JCACHE_LOCK_TIMEOUT``, cannot be read.

    Example:
        >>> import jcache
        >>> census = jcache.info()
        >>> programs = census.kinds[jcache.Kind.EXECUTABLES].entries
        >>> text = f"{programs} programs, {census.total_bytes} bytes, {census.health}"
    """
    with _open(root) as store:
        ours = roots.in_use()
        bound = ours.bound() if ours and ours.root == store.root else None
        return take_census(store, os.environ if bound is None else os.environ | {CAP: str(bound)})


def clear(
    kind: Kind | str | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    legacy: bool = False,
    xla: bool = False,
    dry_run: bool = False,
) -> Removed:
    """Removes all entries of a kind, or of all kinds, but pinned ones; the same as `jcache clear --yes`.

    Args:
        kind: ``executables``, ``traces`` or ``graphs``; None for all of them.
        root: as in `jcache.info`.
        legacy: also the entries that only jax <= 0.4.30 reads.
        xla: also XLA's own sub-caches (autotune, kernels).
        dry_run: change nothing, and return what would be done.

    Returns:
        What went, what stayed and why; what could not be removed is in ``failed``, and raises nothing.

    Raises:
        InvalidValue: there is no such kind, or the root cannot be read.
        NoCacheHere: there is no cache.
        NotInEffect: no root is named, and the one that `jcache.enable` was given could not be put in use.
        Locked: another process held the lock of a directory for longer than ``$JCACHE_LOCK_TIMEOUT``, or 10 s.
        LedgerUnavailable: what is pinned cannot be known; nothing was removed.
        CannotWrite: the root is read-only or otherwise refuses.

    Example:
        >>> import jcache
        >>> jcache.clear("traces").failed
        ()
        >>> jcache.info().kinds[jcache.Kind.TRACES].entries
        0
    """
    kinds = _kinds(kind)
    with _open(root) as store:
        return carry_out(store, plan_clear(store, kinds, legacy=legacy), xla=xla, dry_run=dry_run)


def prune(
    *,
    root: str | os.PathLike[str] | None = None,
    max_size: str | int | None = None,
    max_entries: int | None = None,
    min_free: str | int | None = None,
    older_than: str | timedelta | None = None,
    keep_last: int | None = None,
    legacy: bool = False,
    order: Order | str = Order.LRU,
    kinds: Iterable[Kind | str] | None = None,
    xla: bool = False,
    dry_run: bool = False,
) -> Removed:
    """Removes entries by size, number, free space, age or format; pinned ones stay. The same as `jcache prune`.

    Criteria add up: an entry goes as soon as one asks for it.

    Args:
        root: as in `jcache.info`.
        max_size: bound of all bytes together: a number of them, or a text such as ``"20GiB"``.
        max_entries: bound of the number of entries.
        min_free: how much of the disk to have free, in bytes or as a text.
        older_than: what was not used for longer goes: a `datetime.timedelta`, or a text such as ``"30d"``.
        keep_last: so many of the most recently used entries stay in any case; alone, all others go.
        legacy: whether the entries go that only jax <= 0.4.30 reads; bounds do not count them.
        order: who goes first over a bound: ``lru``, the least recently used, or ``cost``, the cheapest to build again
            for each byte.
        kinds: entries of these kinds; None for all.
        xla: also XLA's own sub-caches (autotune, kernels).
        dry_run: change nothing, and return what would be done.

    Returns:
        What went, what stayed and why; what could not be removed is in ``failed``, and raises nothing.

    Raises:
        InvalidValue: a size, age, number, order, kind or the root cannot be read, or nothing says what to remove.
        NoCacheHere: there is no cache.
        NotInEffect: no root is named, and the one that `jcache.enable` was given could not be put in use.
        OutOfReach: ``min_free`` cannot be reached, or what is pinned is over ``max_size`` or ``max_entries`` by itself;
            nothing was removed.
        Locked: another process held the lock of a directory for longer than ``$JCACHE_LOCK_TIMEOUT``, or 10 s.
        LedgerUnavailable: what is pinned cannot be known; nothing was removed.
        CannotWrite: the root is read-only or otherwise refuses.

    Example:
        >>> import jcache
        >>> freed = jcache.prune(max_size="20GiB", older_than="30d", dry_run=True).freed_bytes
        >>> gone = [entry.key for entry, reason in jcache.prune(keep_last=1).removed]
        >>> jcache.info().kinds[jcache.Kind.EXECUTABLES].entries <= 1
        True
    """
    policy = make_policy(
        max_size=max_size,
        max_entries=max_entries,
        min_free=min_free,
        older_than=older_than,
        keep_last=keep_last,
        legacy=legacy,
        order=order,
        xla=xla,
        root=root,
    )
    chosen = _kinds(kinds)
    with _open(root) as store:
        return carry_out(store, plan_prune(store, policy, chosen, xla=xla), xla=xla, dry_run=dry_run)


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
    """The policy that the arguments of `prune` mean, as a program or a command line gives them, for some root.

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
    """What a policy removes of a root.

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
        why = store.why_unknown(unknown)
        store.notice(
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
    """Raises OutOfReach where what is pinned, and what that needs, is over a bound by itself."""
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
    """What removing an entry makes free, at most: whole blocks, its sidecar's among them."""
    return -(-entry.bytes // _BLOCK) * _BLOCK + _BLOCK * entry.sidecar


def plan_clear(store: Store, kinds: Iterable[Kind], *, legacy: bool) -> Plan:
    """What clearing removes of a root.

    Raises:
        CannotWrite: a directory of the root cannot be read.
    """
    kinds = frozenset(kinds)
    entries, links = _linked(store, kinds)
    return everything(entries, legacy=legacy, links=links, kinds=kinds)


def _linked(store: Store, kinds: frozenset[Kind]) -> tuple[list[Entry], Links]:
    """The entries of some kinds and, where traces need executables of them, the traces; with the links between them."""
    entries = store.entries([kind for kind in Kind if kind in kinds], legacy=True, uses=True)
    if not kinds & {Kind.EXECUTABLES, Kind.TRACES}:
        return entries, NO_LINKS
    traces = [] if Kind.TRACES in kinds else store.entries([Kind.TRACES], uses=True)
    if not traces and not any(entry.kind is Kind.TRACES for entry in entries):
        return entries, NO_LINKS
    from jcache.store.lineage import read_lineage

    return [*entries, *traces], read_lineage(store).links


def carry_out(store: Store, plan: Plan, *, xla: bool, dry_run: bool, progress: Progress[Verdict] = iter) -> Removed:
    """Executes a plan or, on a dry run, foresees what that does.

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
    removal = foresee(plan) if dry_run else store.execute(plan, progress=progress)
    xla_bytes = (xla_size(store.root) if dry_run else store.remove_xla()) if xla else 0
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


def _open(root: str | os.PathLike[str] | None) -> Store:
    return Store(_root(root), lock_timeout=timeout_in(os.environ))


def _root(root: str | os.PathLike[str] | None) -> Root:
    ours = roots.in_use()
    if root is None and ours is not None:
        if ours.root is None:
            raise NotInEffect("The root that jcache.enable() was given is not in use: name the one that is meant.")
        # It is a root even while it is empty, when a plain directory elsewhere is none.
        return ours.root if os.path.isdir(ours.root.path) else open_root(ours.root.path)
    return open_root(choose_path(None if root is None else os.fspath(root), os.environ))


def _kinds(kinds: Kind | str | Iterable[Kind | str] | None) -> tuple[Kind, ...]:
    """The kinds that were named, or all where nothing was said; of no kinds there is nothing to remove."""
    if kinds is None:
        return tuple(Kind)
    named = [kinds] if isinstance(kinds, str) else kinds
    return tuple(dict.fromkeys(parse_kind(kind) for kind in named))


def _age(age: str | timedelta) -> int:
    if not isinstance(age, timedelta):
        return parse_age(str(age))
    if age < timedelta():
        raise InvalidValue(f"'{age}' is not an age: it is negative.")
    return age // timedelta(microseconds=1) * 1000
