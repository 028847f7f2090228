"""The traces of the root in use."""

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
from jcache.traces.trace_store import TraceStore

_known: Final[list[tuple[InUse, TraceStore]]] = []  # the root in use and its traces, at most one pair


def traces_in_use() -> TraceStore:
    """Return the traces of the root in use; if none is in use yet, enable the default root.

    Raises:
        NotStorable: there is no root in use, or programs cannot be replayed with this JAX.
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
    if not _known or _known[0][0] is not ours:
        store = store_of(ours.root, TRACES, max_bytes=ours.bound(), lock_timeout=timeout_in(os.environ))
        _known[:] = [(ours, TraceStore(store, ours.shared, ours.may_write))]
    return _known[0][1]
