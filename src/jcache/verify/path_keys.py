"""Find executables whose keys depend on the path of another directory than the one that they lie in.

JAX 0.4.36 to 0.10.2 hashes the value of ``jax_compilation_cache_dir`` into keys, unless
``JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES`` is ``none``. Later versions do so if that variable is ``all`` or includes
XLA's kernel cache. Such an entry is never hit after a copy to another path. The compile options in an entry name the
directory; later versions write it there, too, but do not hash it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from jcache.jax_internals.path_keys import in_keys
from jcache.layout import Kind, Root
from jcache.store import ledger_contents
from jcache.text import command

if TYPE_CHECKING:
    from jcache.store.store import Store

Version = tuple[int, ...]

PORTABLE_ORIGINS: Final = frozenset({"program", "copy"})  # `jcache.enable()` stored or hit them under portable keys
JCACHE_ORIGINS: Final = PORTABLE_ORIGINS | {"run"}
_LAST_HASHED_OPTION: Final = 512  # XLA's last option in jaxlib 0.10.2; later versions have higher numbers
XLA_CACHES: Final = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
MAX_SAMPLED_BYTES: Final = 1 << 20  # larger entries are not read for a sample
_MAKER_VERSION: Final = 4  # incremented when inspections yield more facts


def version_numbers(version: str) -> Version:
    """Return the numbers of a version for comparison: ``0.4.31+cuda12`` gives ``(0, 4, 31)``."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def directory_in_key(
    cache_path: str | None,
    jaxlib: str | None,
    xla_options: int | None,
    *,
    portable: bool,
    xla_caches: str | None = None,
) -> str | None:
    """Return the directory that the key of an executable depends on; None if there is none.

    Args:
        cache_path: directory that the executable's options name.
        jaxlib: recorded version that compiled it; None if there is no record.
        xla_options: bits of the numbers of XLA's options (see `Inspection`), which show the version without a record.
        portable: whether it was stored with portable keys.
        xla_caches: setting of XLA's caches other than the default; with one, every version hashes their path.
    """
    if cache_path is None or portable:
        return None
    hashed = (xla_options or 0).bit_length() - 1 <= _LAST_HASHED_OPTION if jaxlib is None else in_keys(jaxlib)
    return cache_path if hashed or xla_caches is not None else None


def leads_to(path: str, directory: str | os.PathLike[str]) -> bool:
    """Return whether a path, relative or through links, leads to a directory; the directory need not exist."""
    try:
        return os.path.realpath(path) == os.path.realpath(directory)
    except (OSError, ValueError):  # the working directory is gone, or the text is no path
        return False


def describe_mixed_keys(directory: str | os.PathLike[str]) -> str:
    """Return a sentence for the user on a directory in which some keys depend on its path and others do not."""
    return (
        f"JAX without jcache has stored programs in {directory} under keys that depend on this path. jcache hits them, "
        "and stores new programs under keys without the path. JAX without jcache hits the new ones only with "
        f"{XLA_CACHES}=none, and then misses the old ones."
    )


def describe_env_misses(root: Root, path: str | None) -> str:
    """Return a sentence on what JAX without jcache misses in the environment of `jcache env`.

    Args:
        root: root.
        path: path in the keys of entries that JAX alone has stored there; None if it is unknown whether there are any.
    """
    directory, run = str(root.directory(Kind.EXECUTABLES)), command("run", root.path, "-- CMD")
    stored = f"JAX without jcache has stored programs in {directory} under keys that depend on"
    if path is None:
        return (
            f"Only some entries in {directory} were read: with {XLA_CACHES}=none, jax <= 0.10.2 without jcache misses "
            f"programs that it has stored without this setting; `{run}` hits all."
        )
    if path != directory:
        return f"{stored} another path, {path}: JAX misses them under this one; `{run}` hits all."
    return (
        f"{stored} this path, and hits them only without {XLA_CACHES}=none, so this is not set. JAX then misses "
        f"programs that jcache has stored; `{run}` hits all."
    )


def describe_portable_keys(store: Store) -> str | None:
    """Return a sentence on keys in a root that JAX without jcache does not look up by default; None without such keys.

    Up to jax 0.10.2, these are the keys of all programs that `jcache run` and `jcache.enable()` have stored.
    """
    jaxlibs = store.queue.attempt(lambda: ledger_contents.jaxlibs_of(store.ledger, JCACHE_ORIGINS)) or set()
    if not any(map(in_keys, jaxlibs)):
        return None
    run = command("run", store.root.path, "-- CMD")
    return (
        f"jax <= 0.10.2 without jcache hits programs that jcache has stored here only with {XLA_CACHES}=none, and then "
        f"misses those that it has stored without this setting; `{run}` hits both"
    )


def maker_text(maker: Mapping[str, Any]) -> str:
    """Return the text by which the ledger records an executable's maker."""
    known = {name: value for name, value in maker.items() if value is not None}
    return json.dumps({"version": _MAKER_VERSION} | known, sort_keys=True)


def parse_maker(text: str) -> dict[str, Any] | None:
    """Return the maker that a text of `maker_text` stands for; None for a text of another version."""
    try:
        maker: dict[str, Any] = json.loads(text)
        return maker if maker.pop("version") == _MAKER_VERSION else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
