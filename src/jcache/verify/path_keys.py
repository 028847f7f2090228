"""Directories that keys of executables depend on, and executables that lie in another one.

JAX from 0.4.36 to 0.10.2 hashes the string that ``jax_compilation_cache_dir`` is set to, unless
``JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES`` is ``none``; later ones as well, where that is ``all`` or has XLA's cache of
kernels in it. So what was copied to another path is never hit there. An entry
names the directory in its options; later jax does so, too, but hashes it no more.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.errors import DamagedEntry
from jcache.frozen import Frozen
from jcache.jax_internals.path_keys import SPELLINGS, in_keys
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.store import files, ledger_contents
from jcache.store.roots import VARIABLES
from jcache.text import command

if TYPE_CHECKING:
    from jcache.store.listing import Listing
    from jcache.store.store import Store

Version = tuple[int, ...]

PORTABLE_ORIGINS: Final = frozenset({"program", "copy"})  # of `jcache.enable()`: stored, or hit, under portable keys
_OURS: Final = PORTABLE_ORIGINS | {"run"}
_LAST_OPTION: Final = 512  # XLA's in jaxlib 0.10.2; later ones have higher numbers
XLA_CACHES: Final = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
_VERSION: Final = 4  # of what is remembered; goes up when inspections tell more
_SMALL: Final = 1 << 20  # bytes of an entry that is read for a sample
_NAMES: Final = 256  # entries of which the ledger is asked where their keys have come from
_LOOKED_AT: Final = 8  # entries that are read, of those
_MOST_LOOKED_AT: Final = 512  # entries that are read to be sure
_SPELLINGS: Final = 4  # strings to try; each costs a key, 0.2 ms, for every program that is not stored


def numbers(version: str) -> Version:
    """Return a version's numbers, to compare: ``0.4.31+cuda12`` gives ``(0, 4, 31)``."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def keyed_for(
    cache_path: str | None,
    jaxlib: str | None,
    xla_options: int | None,
    *,
    portable: bool,
    xla_caches: str | None = None,
) -> str | None:
    """Return the directory that the key of an executable depends on, None for none.

    Args:
        cache_path: the directory that its options name.
        jaxlib: that made it, where this is on record.
        xla_options: numbers of XLA's options, as `Inspection` has them, which tell it else.
        portable: whether it was stored with portable keys.
        xla_caches: those of XLA that JAX was told of besides, whose path it hashes in all versions.
    """
    if cache_path is None or portable:
        return None
    hashed = (xla_options or 0).bit_length() - 1 <= _LAST_OPTION if jaxlib is None else in_keys(jaxlib)
    return cache_path if hashed or xla_caches is not None else None


def leads(path: str, directory: str | os.PathLike[str]) -> bool:
    """Return whether a path, relative or through links, leads to a directory, which need not exist yet."""
    try:
        return os.path.realpath(path) == os.path.realpath(directory)
    except (OSError, ValueError):  # there is nowhere to begin, or it is no path at all
        return False


def choice(directory: str | os.PathLike[str]) -> str:
    """Return a sentence for the user on a directory whose entries have keys with and without its path."""
    return (
        f"JAX by itself has stored programs in {directory} under keys that depend on this path: they are hit as they "
        "are, and what is new gets keys without it. JAX by itself hits the new ones where "
        f"{XLA_CACHES}=none is set, and then misses those of its own that have the path in their keys."
    )


def about_env(root: Root, path: str | None) -> str:
    """Return a sentence on what JAX alone misses in the environment of `jcache env`.

    Args:
        root: which.
        path: in the keys of entries that JAX alone has stored there; None where it is not known whether there are any.
    """
    directory, run = str(root.directory(Kind.EXECUTABLES)), command("run", root.path, "-- CMD")
    stored = f"JAX by itself has stored programs in {directory} under keys that depend on"
    if path is None:
        return (
            f"Not all entries in {directory} were looked at: with {XLA_CACHES}=none JAX by itself misses those that "
            f"it has stored without it, up to jax 0.10.2; `{run}` hits all."
        )
    if path != directory:
        return f"{stored} another path of it, {path}: with this one it misses them, and `{run}` hits all."
    return (
        f"{stored} this path, and hits them only without {XLA_CACHES}=none, so that is not set. What jcache has stored "
        f"is then missed; `{run}` hits all."
    )


def about_portable_keys(store: Store) -> str | None:
    """Return a sentence on a root with keys that JAX alone does not look for by default; None without such keys.

    Up to jax 0.10.2 those are the keys of all that `jcache run` and `jcache.enable()` have stored.
    """
    jaxlibs = store.queue.attempt(lambda: ledger_contents.jaxlibs_of(store.ledger, _OURS)) or set()
    if not any(map(in_keys, jaxlibs)):
        return None
    run = command("run", store.root.path, "-- CMD")
    return (
        f"JAX by itself, up to 0.10.2, hits what jcache has stored here only with {XLA_CACHES}=none, and then misses "
        f"what it has stored without that; `{run}` hits both"
    )


class Elsewhere(NamedTuple):
    """Executables that are keyed for another directory than the one that they lie in.

    Attributes:
        directories: that they are keyed for, and how many are; the most first.
        looked_at: of how many executables this is known.
        xla_caches: of directories, what JAX was told of XLA's caches there, where that is not its default.
    """

    directories: Mapping[str, int]
    looked_at: int
    xla_caches: Mapping[str, str] = Frozen({})


NOTHING: Final = Elsewhere(Frozen({}), 0)


def elsewhere(store: Store, listing: Listing, *, sample: int = 1) -> Elsewhere:
    """Return the executables keyed for other directories, as the ledger or a sample of small entries tells.

    Args:
        store: of the root.
        listing: of its executables.
        sample: how many entries to read, of those that the ledger does not know, if it knows none.
    """
    if not len(listing):
        return NOTHING
    directory = str(listing.directory)
    ledger, attempt = store.ledger, store.queue.attempt
    told = {number: told_by(text) for number, text in (attempt(lambda: ledger_contents.makers(ledger)) or {}).items()}
    makers = {number: maker for number, maker in told.items() if maker is not None}
    if not makers:
        return _sampled(listing, directory, sample)
    foreign = [number for number, maker in makers.items() if _foreign(maker, directory) is not None]
    rows = (attempt(lambda: ledger_contents.made_by(ledger, foreign)) or []) if foreign else []
    present = set(listing.columns.keys) if rows else set()
    found: Counter[str] = Counter()
    caches: dict[str, str] = {}
    for key, jaxlib, origin, number in rows:
        path = _foreign(makers[number], directory, jaxlib, portable=origin in PORTABLE_ORIGINS)
        if key in present and path is not None:
            found[path] += 1
            caches |= _caches(path, makers[number])
    looked_into = (attempt(lambda: ledger_contents.looked_into(ledger)) or set()) if found else set()
    return Elsewhere(Frozen(dict(found.most_common())), len(present & looked_into), Frozen(caches))


class Spellings(NamedTuple):
    """How keys of a root's executables may name its directory.

    Attributes:
        texts: the strings that JAX may have hashed, as ``jax_compilation_cache_dir`` had them; JAX's own key is tried
            with each.
        seen: whether an entry with such a key was seen. Only a few are read, so there may be some all the same.
    """

    texts: tuple[str, ...]
    seen: bool


def given(environment: Mapping[str, str], *more: str | os.PathLike[str] | None) -> list[str]:
    """Return the paths by which somebody has named a cache directory.

    Args:
        environment: of the process; `jcache run` has put into it what was given above it.
        more: other paths; None and an empty one are left out.
    """
    texts = [*map(environment.get, VARIABLES), *environment.get(SPELLINGS, "").split("\n")]
    return [str(text) for text in (*more, *texts) if text]


def spellings(store: Store, given: Iterable[str] = ()) -> Spellings:
    """Return the strings that may stand for a root's directory of executables in the keys of its entries.

    Those are its path, the paths that were given for it, and others that some of its entries name.

    Args:
        store: of the root.
        given: paths, of which those count that lead to the directory.
    """
    directory = str(store.root.directory(Kind.EXECUTABLES))
    known = [directory, *(text for text in given if leads(text, directory))]
    found = list(filter(None, _named_in(directory, _by_jax(store, directory, _NAMES), _LOOKED_AT)))
    several = dict.fromkeys(str(PurePath(text)) for text in (*known, *found))
    return Spellings(tuple(text for text in several if "\n" not in text)[:_SPELLINGS], bool(found))


def path_in_keys(store: Store) -> tuple[str | None, bool]:
    """Return the path of a root's directory in the keys that JAX alone has stored there by default.

    Returns:
        The path as it is spelled there, the root's own if it is among several, None where none was seen; and whether
        enough was read to know.
    """
    directory = str(store.root.directory(Kind.EXECUTABLES))
    theirs = _by_jax(store, directory, None)
    named = list(_named_in(directory, theirs, _MOST_LOOKED_AT))
    paths = dict.fromkeys(text for text in named if text is not None)
    path = directory if directory in paths else next(iter(paths), None)
    return path, path == directory or len(named) == len(theirs)


def _by_jax(store: Store, directory: str, most: int | None) -> list[tuple[int, str]]:
    """Return entries that jcache has not stored, as far as the ledger knows: their bytes and keys, the smallest first.

    Args:
        store: of the root.
        directory: of the entries.
        most: how many entries to ask of; None for all.
    """
    sizes: dict[str, int] = {}
    with suppress(OSError), os.scandir(directory) as listing:
        items = (item for item in listing if item.name.endswith(ENTRY_SUFFIX))
        some = islice(items, most)
        sizes = {item.name.removesuffix(ENTRY_SUFFIX): item.stat(follow_symlinks=False).st_size for item in some}
    if not sizes:
        return []
    keys = None if most is None else list(sizes)
    known = store.queue.attempt(lambda: store.ledger.known(Kind.EXECUTABLES, keys)) or {}
    ours = {key for key, record in known.items() if record.origin in _OURS}
    return sorted((size, key) for key, size in sizes.items() if key not in ours)


def _named_in(directory: str, entries: Sequence[tuple[int, str]], most: int) -> Iterator[str | None]:
    """Yield for each of some entries the string in their keys that leads to their directory, or None.

    Args:
        directory: of the entries.
        entries: their bytes and keys, the smallest first; those of more than 1 MiB are passed over.
        most: how many to read; they are of all sizes.
    """
    small = [key for size, key in entries if size <= _SMALL]
    if not small:
        return
    from jcache.formats.inspection import inspect

    for key in small[:: -(-len(small) // most)]:
        named = None
        with suppress(DamagedEntry, OSError):
            inside = inspect(files.read(os.path.join(directory, key + ENTRY_SUFFIX)))
            path = keyed_for(inside.cache_path, None, inside.xla_options, portable=False, xla_caches=inside.xla_caches)
            named = path if path is not None and leads(path, directory) else None
        yield named


def remembered(maker: Mapping[str, Any]) -> str:
    """Return the text by which the ledger remembers what an executable tells of its maker."""
    told = {name: value for name, value in maker.items() if value is not None}
    return json.dumps({"version": _VERSION} | told, sort_keys=True)


def told_by(text: str) -> dict[str, Any] | None:
    """Return the maker in a remembered text; None for a text of another version."""
    try:
        maker: dict[str, Any] = json.loads(text)
        return maker if maker.pop("version") == _VERSION else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _foreign(maker: Any, directory: str, jaxlib: str | None = None, *, portable: bool = False) -> str | None:  # noqa: ANN401
    """Return the other directory that executables of a maker are keyed for."""
    options = maker.get("xla_options")
    numbers_ = None if options is None else int(options, 16)
    caches = maker.get("xla_caches")
    path = keyed_for(maker.get("cache_path"), jaxlib, numbers_, portable=portable, xla_caches=caches)
    return None if path is None or path == directory or leads(path, directory) else path


def _sampled(listing: Listing, directory: str, sample: int) -> Elsewhere:
    from jcache.formats.inspection import inspect

    found: Counter[str] = Counter()
    caches: dict[str, str] = {}
    looked_at = 0
    columns = listing.columns
    small = (key for key, size in zip(columns.keys, columns.sizes, strict=True) if size <= _SMALL)
    for key in islice(small, sample):
        with suppress(DamagedEntry, OSError):
            inside = inspect(files.read(listing.directory / (key + ENTRY_SUFFIX)))
            options = f"{inside.xla_options or 0:x}"
            maker = {"cache_path": inside.cache_path, "xla_caches": inside.xla_caches, "xla_options": options}
            looked_at += 1
            path = _foreign(maker, directory)
            if path is not None:
                found[path] += 1
                caches |= _caches(path, maker)
    return Elsewhere(Frozen(dict(found.most_common())), looked_at, Frozen(caches))


def _caches(path: str, maker: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of XLA's caches in a directory that differ from JAX's defaults."""
    told = maker.get("xla_caches")
    return {} if told is None else {path: told}
