"""Sentences for the user on keys that depend on the path of a directory: who hits which entries."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from jcache.errors import DamagedEntry
from jcache.jax_internals.path_keys import in_keys
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.store import files, ledger_contents
from jcache.text import command
from jcache.verify.path_keys import (
    JCACHE_ORIGINS,
    MAX_SAMPLED_BYTES,
    SAMPLE_ENTRIES,
    XLA_CACHES,
    PathInKeys,
    directory_in_key,
)

if TYPE_CHECKING:
    from jcache.store.listing import Listing
    from jcache.store.store import Store


def describe_mixed_keys(directory: str | os.PathLike[str]) -> str:
    """Return a sentence for the user on a directory in which some keys depend on its path and others do not."""
    return (
        f"JAX without jcache has stored programs in {directory} under keys that depend on this path. jcache looks "
        "under these keys as well, and stores new programs under keys without the path. JAX without jcache hits the "
        f"new ones only with {XLA_CACHES}=none, and then misses the old ones."
    )


def describe_env_misses(root: Root, found: PathInKeys) -> str:
    """Return a sentence on what JAX without jcache misses in the environment of `jcache env`."""
    directory, run = str(root.directory(Kind.EXECUTABLES)), command("run", root.path, "-- CMD")
    stored = f"JAX without jcache has stored programs in {directory} under keys that depend on"
    if found.path is None:
        return (
            f"Only some entries in {directory} were read: with {XLA_CACHES}=none, jax <= 0.10.2 without jcache misses "
            f"programs that it has stored without this setting; `{run}` hits all."
        )
    if found.path != directory:
        return f"{stored} another path, {found.path}: JAX misses them under this one; `{run}` hits all."
    caches = found.xla_caches[0]
    how = f"with {XLA_CACHES}={caches}, so this is set" if caches else f"without {XLA_CACHES}=none, so this is not set"
    others = ", and those that it has stored with other values of this variable" if found.xla_caches[1:] else ""
    return (
        f"{stored} this path, and hits them only {how}. JAX then misses programs that jcache has stored{others}; "
        f"`{run}` hits all."
    )


def describe_portable_keys(store: Store, listing: Listing) -> str | None:
    """Return a sentence on keys in a root that JAX without jcache does not look up by default; None without such keys.

    Up to jax 0.10.2, these are the keys of all programs that `jcache run` and `jcache.enable()` have stored.

    Args:
        store: store of the root.
        listing: listing of its executables.
    """
    jaxlibs = store.queue.attempt(lambda: ledger_contents.jaxlibs_of(store.ledger, JCACHE_ORIGINS)) or set()
    who = ""
    if not any(map(in_keys, jaxlibs)):
        if not _may_be_portable(store, listing):
            return None
        who = "there is no record of who has stored the entries here: "
    run = command("run", store.root.path, "-- CMD")
    return (
        f"{who}jax <= 0.10.2 without jcache hits the programs that jcache has stored here only with {XLA_CACHES}=none, "
        f"and then misses its own older programs; `{run}` hits both"
    )


def _may_be_portable(store: Store, listing: Listing) -> bool:
    """Return whether a small entry without a record may have a key without the path.

    In a directory that JAX fills, too, such an entry names no path. `jcache.enable()` has the path in the entry, but
    not in its key; in a root that jcache made, most entries are jcache's.
    """
    if store.root.plain and not os.path.isdir(store.root.state):  # jcache has never written here
        return False
    columns = listing.columns
    small = (key for key, size in zip(columns.keys, columns.sizes, strict=True) if size <= MAX_SAMPLED_BYTES)
    some = list(islice(small, SAMPLE_ENTRIES))
    known = store.queue.attempt(lambda: store.ledger.known(Kind.EXECUTABLES, some)) or {}
    for key in some:
        if key in known and known[key].origin is not None:
            continue
        from jcache.formats.inspection import inspect

        with suppress(DamagedEntry, OSError):
            inside = inspect(files.read(listing.directory / (key + ENTRY_SUFFIX)))
            is_old = directory_in_key("", None, inside.xla_options, portable=False) is not None
            return is_old and (inside.cache_path is None or not store.root.plain)
    return False
