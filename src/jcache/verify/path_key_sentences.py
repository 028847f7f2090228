"""Sentences for users on keys that depend on the path of a directory: who hits which entries."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from jcache.errors import DamagedEntry
from jcache.jax_internals.path_keys import in_keys
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.store import files
from jcache.text import command
from jcache.verify.path_keys import LOOKED_AT, OURS, SMALL, XLA_CACHES, PathInKeys, keyed_for

if TYPE_CHECKING:
    from jcache.store.listing import Listing
    from jcache.store.store import Store


def choice(directory: str | os.PathLike[str]) -> str:
    """Return a sentence for the user on a directory whose entries have keys with and without its path."""
    return (
        f"JAX by itself has stored programs in {directory} under keys that depend on this path: jcache looks under "
        "these keys as well, and stores what is new under keys without the path. JAX by itself hits the new ones where "
        f"{XLA_CACHES}=none is set, and then misses those of its own that have the path in their keys."
    )


def about_env(root: Root, found: PathInKeys) -> str:
    """Return a sentence on what JAX alone misses in the environment of `jcache env`."""
    directory, run = str(root.directory(Kind.EXECUTABLES)), command("run", root.path, "-- CMD")
    stored = f"JAX by itself has stored programs in {directory} under keys that depend on"
    if found.path is None:
        return (
            f"Not all entries in {directory} were looked at: with {XLA_CACHES}=none JAX by itself misses those that "
            f"it has stored without it, up to jax 0.10.2; `{run}` hits all."
        )
    if found.path != directory:
        return f"{stored} another path of it, {found.path}: with this one it misses them, and `{run}` hits all."
    caches = found.xla_caches[0]
    how = f"with {XLA_CACHES}={caches}, so that is set" if caches else f"without {XLA_CACHES}=none, so that is not set"
    others = " and with other settings of that variable" if found.xla_caches[1:] else ""
    return (
        f"{stored} this path, and hits them only {how}. What jcache has stored{others} is then missed; "
        f"`{run}` hits all."
    )


def about_portable_keys(store: Store, listing: Listing) -> str | None:
    """Return a sentence on a root with keys that JAX alone does not look for by default; None without such keys.

    Up to jax 0.10.2 those are the keys of all that `jcache run` and `jcache.enable()` have stored.

    Args:
        store: of the root.
        listing: of its executables.
    """
    jaxlibs = store.softly(lambda: store.ledger.jaxlibs_of(OURS)) or set()
    run = command("run", store.root.path, "-- CMD")
    if not any(map(in_keys, jaxlibs)):
        if not _may_be_portable(store, listing):
            return None
        return (
            "who has stored the entries here is not on record: JAX by itself, up to 0.10.2, hits those of jcache only "
            f"with {XLA_CACHES}=none, and then misses those that it has stored without that; `{run}` hits both"
        )
    return (
        f"JAX by itself, up to 0.10.2, hits what jcache has stored here only with {XLA_CACHES}=none, and then misses "
        f"what it has stored without that; `{run}` hits both"
    )


def _may_be_portable(store: Store, listing: Listing) -> bool:
    """Return whether a small entry that is not on record may have a key without the path, as far as it tells.

    In a directory that JAX fills, too, it says so by naming no path. `jcache.enable()` has the path in the entry, but
    not in its key; in a root that jcache made, most entries are jcache's.
    """
    if store.root.plain and not os.path.isdir(store.root.state):  # jcache has never written here
        return False
    columns = listing.columns
    some = list(
        islice((key for key, size in zip(columns.keys, columns.sizes, strict=True) if size <= SMALL), LOOKED_AT)
    )
    known = store.softly(lambda: store.ledger.known(Kind.EXECUTABLES, some)) or {}
    for key in some:
        if key in known and known[key].origin is not None:
            continue
        from jcache.formats.inspection import inspect

        with suppress(DamagedEntry, OSError):
            inside = inspect(files.read(listing.directory / (key + ENTRY_SUFFIX)))
            is_old = keyed_for("", None, inside.xla_options, portable=False) is not None
            return is_old and (inside.cache_path is None or not store.root.plain)
    return False
