"""The traces of the root that a program has in use."""

from __future__ import annotations

import os
from typing import Final

from jcache.errors import NotStorable
from jcache.jax_internals import compile_hook
from jcache.runtime.enable import enable, is_off
from jcache.runtime.sealed_store import store_of
from jcache.store import roots
from jcache.store.locking import timeout_in
from jcache.store.roots import InUse
from jcache.traces.format import TRACES
from jcache.traces.trace_store import Shelf

_known: Final[list[tuple[InUse, Shelf]]] = []  # of the root in use: it keeps what it has learnt as long as that is


def shelf_in_use() -> Shelf:
    """Return the traces of the root in use, or of the default one; raise `NotStorable` where there is none."""
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
    if not _known or _known[0][0] is not ours:
        store = store_of(ours.root, TRACES, max_bytes=ours.bound(), lock_timeout=timeout_in(os.environ))
        _known[:] = [(ours, Shelf(store, ours.shared))]
    return _known[0][1]
