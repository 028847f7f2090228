"""Python interface of `jcache info`, `clear` and `prune`: frozen values, and errors instead of exit codes."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from jcache.admin.census import CAP, Census, take_census
from jcache.admin.limits import with_configured
from jcache.admin.removal import PruneLimits, execute, plan_clear, plan_prune
from jcache.errors import NotInEffect
from jcache.layout import Kind, Root, parse_kind
from jcache.store import roots
from jcache.store.locking import timeout_in
from jcache.store.order import Order
from jcache.store.removal import Removed
from jcache.store.roots import choose_path, open_root
from jcache.store.store import Store

__all__ = ["Removed", "clear", "info", "prune"]


def info(root: str | os.PathLike[str] | None = None) -> Census:
    """Count what a root holds; the same as `jcache info`.

    Args:
        root: a root or JAX cache directory. By default, the one that `jcache.enable` uses in this process, else
            ``$JCACHE_DIR``, ``$JAX_COMPILATION_CACHE_DIR`` or ``jcache`` in the user's cache directory.

    Returns:
        Number, bytes and last use of the entries by kind, other files in the root, and use of the disk. Sizes are in
        bytes, times in nanoseconds since 1970.

    Raises:
        NoCacheHere: there is no cache.
        NotInEffect: no root is named, and `jcache.enable` could not use the one that it was given.
        CannotWrite: a directory of the root cannot be read.
        InvalidValue: the root, or ``$JCACHE_LOCK_TIMEOUT``, cannot be parsed.

    Example:
        >>> import jcache
        >>> census = jcache.info()
        >>> programs = census.kinds[jcache.Kind.EXECUTABLES].entries
        >>> text = f"{programs} programs, {census.total_bytes} bytes, {census.health}"
    """
    with _open(root) as store:
        ours = roots.in_use()
        bound = ours.bound() if ours and ours.root == store.root else None
        return take_census(store, os.environ if bound is None else ChainMap({CAP: str(bound)}, os.environ))


def clear(
    kind: Kind | str | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    legacy: bool = False,
    xla: bool = False,
    dry_run: bool = False,
) -> Removed:
    """Remove all entries of a kind, or of all kinds; pinned entries stay. The same as `jcache clear --yes`.

    Args:
        kind: ``executables``, ``traces`` or ``graphs``; None for all kinds.
        root: as in `jcache.info`.
        legacy: whether to remove entries that only jax <= 0.4.30 reads as well.
        xla: whether to remove XLA's own sub-caches (autotune, kernels) as well.
        dry_run: whether to change nothing and return what would be removed.

    Returns:
        The entries that were removed and that stayed, with reasons. Entries that could not be removed are in
        ``failed``; they raise nothing.

    Raises:
        InvalidValue: there is no such kind, or the root cannot be parsed.
        NoCacheHere: there is no cache.
        NotInEffect: no root is named, and `jcache.enable` could not use the one that it was given.
        Locked: another process held the lock of a directory for longer than ``$JCACHE_LOCK_TIMEOUT``, or 10 s.
        LedgerUnavailable: it is unknown which entries are pinned; nothing was removed.
        CannotWrite: the root is read-only, or the system refuses the change.

    Example:
        >>> import jcache
        >>> jcache.clear("traces").failed
        ()
        >>> jcache.info().kinds[jcache.Kind.TRACES].entries
        0
    """
    kinds = _kinds(kind)
    with _open(root) as store:
        plan = plan_clear(store, kinds, legacy=legacy, seconds=True)
        return _as_tuples(execute(store, plan, xla=xla, dry_run=dry_run))


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

    An entry is removed if any of the limits requires it. Without any, those that `jcache config` shows hold.

    Args:
        root: as in `jcache.info`.
        max_size: upper limit of the total size: a number of bytes, or a text such as ``"20GiB"``.
        max_entries: upper limit of the number of entries.
        min_free: free space that the disk shall have, in bytes or as a text.
        older_than: time since the last use after which entries are removed: a `datetime.timedelta`, or a text such as
            ``"30d"``.
        keep_last: number of most recently used entries to keep in any case. Without another limit, all others go.
        legacy: whether to remove entries that only jax <= 0.4.30 reads; the limits do not count them.
        order: entries to remove first over a limit: ``lru``, the least recently used, or ``cost``, the cheapest to
            build per byte; None for the configured order, by default ``lru``.
        kinds: kinds of the entries to remove; None for all kinds.
        xla: whether to remove XLA's own sub-caches (autotune, kernels) as well.
        dry_run: whether to change nothing and return what would be removed.

    Returns:
        The entries that were removed and that stayed, with reasons. Entries that could not be removed are in
        ``failed``; they raise nothing.

    Raises:
        InvalidValue: a size, age, number, order, kind or the root cannot be parsed, or no limit is given.
        NoCacheHere: there is no cache.
        NotInEffect: no root is named, and `jcache.enable` could not use the one that it was given.
        OutOfReach: ``min_free`` cannot be reached, or the pinned entries alone exceed ``max_size`` or ``max_entries``;
            nothing was removed.
        Locked: another process held the lock of a directory for longer than ``$JCACHE_LOCK_TIMEOUT``, or 10 s.
        LedgerUnavailable: it is unknown which entries are pinned; nothing was removed.
        CannotWrite: the root is read-only, or the system refuses the change.

    Example:
        >>> import jcache
        >>> freed = jcache.prune(max_size="20GiB", older_than="30d", dry_run=True).freed_bytes
        >>> gone = [entry.key for entry, reason in jcache.prune(keep_last=1).removed]
        >>> jcache.info().kinds[jcache.Kind.EXECUTABLES].entries <= 1
        True
    """
    limits = PruneLimits(max_size, max_entries, min_free, older_than, keep_last, legacy, order)
    asked, chosen = limits.policy(), _kinds(kinds)
    with _open(root) as store:
        policy, _ = with_configured(asked, store, root, os.environ, xla=xla)
        plan = plan_prune(store, policy, chosen, xla=xla, seconds=True)
        return _as_tuples(execute(store, plan, xla=xla, dry_run=dry_run))


def _as_tuples(removed: Removed) -> Removed:
    """Return the same as values that need no store any more."""
    return replace(removed, removed=tuple(removed.removed), kept=tuple(removed.kept))


def _open(root: str | os.PathLike[str] | None) -> Store:
    return Store(_root(root), lock_timeout=timeout_in(os.environ))


def _root(root: str | os.PathLike[str] | None) -> Root:
    ours = roots.in_use()
    if root is None and ours is not None:
        if ours.root is None:
            raise NotInEffect("jcache.enable() could not use the root that it was given: name the root here.")
        # An empty directory is a root only while `jcache.enable` uses it.
        return ours.root if os.path.isdir(ours.root.path) else open_root(ours.root.path)
    return open_root(choose_path(None if root is None else os.fspath(root), os.environ))


def _kinds(kinds: Kind | str | Iterable[Kind | str] | None) -> tuple[Kind, ...]:
    """Return the named kinds without repetition; all kinds for None."""
    if kinds is None:
        return tuple(Kind)
    named = [kinds] if isinstance(kinds, str) else kinds
    return tuple(dict.fromkeys(parse_kind(kind) for kind in named))
