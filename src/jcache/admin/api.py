"""The Python interface of `jcache info`, `clear` and `prune`: typed, frozen values, and errors instead of exit codes.

The commands print the same values, which `jcache.admin.removal` makes for both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta

from jcache.admin.census import CAP, Census, take_census
from jcache.admin.limits import with_configured
from jcache.admin.removal import carry_out, make_policy, plan_clear, plan_prune
from jcache.errors import NotInEffect
from jcache.layout import Kind, Root, parse_kind
from jcache.store import roots
from jcache.store.locking import timeout_in
from jcache.store.policy import Order
from jcache.store.removal import Removed
from jcache.store.roots import choose_path, open_root
from jcache.store.store import Store

__all__ = ["Removed", "clear", "info", "prune"]


def info(root: str | os.PathLike[str] | None = None) -> Census:
    """Count what a root holds; the same as `jcache info`.

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
    """Remove all entries of a kind, or of all kinds, but pinned ones; the same as `jcache clear --yes`.

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
    order: Order | str | None = None,
    kinds: Iterable[Kind | str] | None = None,
    xla: bool = False,
    dry_run: bool = False,
) -> Removed:
    """Remove entries by size, number, free space, age or format; pinned ones stay. The same as `jcache prune`.

    Criteria add up: an entry goes as soon as one asks for it. Without any, those that `jcache config` shows hold.

    Args:
        root: as in `jcache.info`.
        max_size: bound of all bytes together: a number of them, or a text such as ``"20GiB"``.
        max_entries: bound of the number of entries.
        min_free: how much of the disk to have free, in bytes or as a text.
        older_than: what was not used for longer goes: a `datetime.timedelta`, or a text such as ``"30d"``.
        keep_last: so many of the most recently used entries stay in any case; alone, all others go.
        legacy: whether the entries go that only jax <= 0.4.30 reads; bounds do not count them.
        order: who goes first over a bound: ``lru``, the least recently used, or ``cost``, the cheapest to build again
            for each byte; None for the one that is configured, by default ``lru``.
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
    )
    chosen = _kinds(kinds)
    with _open(root) as store:
        policy, _ = with_configured(policy, store, root, os.environ, xla=xla)
        return carry_out(store, plan_prune(store, policy, chosen, xla=xla), xla=xla, dry_run=dry_run)


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
    """Return the named kinds without repetition; all kinds for None."""
    if kinds is None:
        return tuple(Kind)
    named = [kinds] if isinstance(kinds, str) else kinds
    return tuple(dict.fromkeys(parse_kind(kind) for kind in named))
