"""The traces of the root that a program has in use."""

from __future__ import annotations

import os

from jcache.errors import NotStorable
from jcache.jax_internals import compile_hook
from jcache.runtime.enable import enable, is_off
from jcache.runtime.sealed_store import store_of
from jcache.store import roots
from jcache.store.locking import timeout_in
from jcache.store.roots import InUse
from jcache.traces.format import TRACES
from jcache.traces.trace_store import Shelf


class _Shelf:
    """The shelf of the root in use, which keeps what it has learnt as long as that root is."""

    of: tuple[InUse, Shelf] | None = None


def shelf_in_use() -> Shelf:
    """The traces of the root in use; without one, `jcache.enable` puts the default one in use.

    Raises:
        NotStorable: there is none, or this JAX is not known.
    """
    ours = roots.in_use()
    if ours is None and is_off():
        raise NotStorable("`jcache.disable()` has been called.")
    if ours is None:
        enable()
        ours = roots.in_use()
    if ours is None or ours.root is None:
        raise NotStorable("There is no root in use.")
    if reason := compile_hook.install():
        raise NotStorable(f"{reason}.")
    if _Shelf.of is None or _Shelf.of[0] is not ours:
        store = store_of(ours.root, TRACES, max_bytes=ours.bound(), lock_timeout=timeout_in(os.environ))
        _Shelf.of = ours, Shelf(store, ours.shared)
    return _Shelf.of[1]
