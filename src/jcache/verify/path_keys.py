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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.errors import DamagedEntry
from jcache.frozen import Frozen
from jcache.jax_internals.path_keys import in_keys
from jcache.layout import ENTRY_SUFFIX, Kind
from jcache.store import files

if TYPE_CHECKING:
    from jcache.store.listing import Listing
    from jcache.store.store import Store

Version = tuple[int, ...]

PORTABLE_ORIGINS: Final = frozenset({"program", "copy"})  # of `jcache.enable()`: stored, or hit, under portable keys
_LAST_OPTION: Final = 512  # XLA's in jaxlib 0.10.2; later ones have higher numbers
_VERSION: Final = 4  # of what is remembered; goes up when inspections tell more
_SMALL: Final = 1 << 20  # bytes of an entry that is read for a sample
_NAMES: Final = 256  # entries of which the ledger is asked where their keys have come from
_LOOKED_AT: Final = 8  # entries that are read, of those
_SPELLINGS: Final = 4  # strings to try; each costs a key for every program that is not stored


def numbers(version: str) -> Version:
    """A version's numbers, to compare: ``0.4.31+cuda12`` gives ``(0, 4, 31)``."""
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
    """The directory that the key of an executable depends on, None for none.

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
    """Whether a path leads to a directory, by links, a relative one from here; the directory need not exist yet."""
    try:
        return os.path.realpath(path) == os.path.realpath(directory)
    except (OSError, ValueError):  # there is nowhere to begin, or it is no path at all
        return False


def choice(directory: str | os.PathLike[str]) -> str:
    """A sentence on a directory whose entries have keys with and without its path, for whoever runs a program."""
    return (
        f"JAX by itself has stored programs in {directory} under keys that depend on this path: they are hit as they "
        "are, what is new gets keys without it, and JAX by itself hits those where "
        "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES=none is set."
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
    """What is keyed for another directory, as far as the ledger knows it, or a few of the smaller entries tell.

    Args:
        store: of the root.
        listing: of its executables.
        sample: how many entries to read, of those that the ledger does not know, if it knows none.
    """
    if not len(listing):
        return NOTHING
    directory = str(listing.directory)
    told = {number: told_by(text) for number, text in (store.softly(store.ledger.makers) or {}).items()}
    makers = {number: maker for number, maker in told.items() if maker is not None}
    if not makers:
        return _sampled(listing, directory, sample)
    foreign = [number for number, maker in makers.items() if _foreign(maker, directory) is not None]
    rows = (store.softly(lambda: store.ledger.made_by(foreign)) or []) if foreign else []
    present = set(listing.columns.keys) if rows else set()
    found: Counter[str] = Counter()
    caches: dict[str, str] = {}
    for key, jaxlib, origin, number in rows:
        path = _foreign(makers[number], directory, jaxlib, portable=origin in PORTABLE_ORIGINS)
        if key in present and path is not None:
            found[path] += 1
            caches |= _caches(path, makers[number])
    looked_at = len(present & (store.softly(store.ledger.looked_into) or set())) if found else 0
    return Elsewhere(Frozen(dict(found.most_common())), looked_at, Frozen(caches))


def path_keys(store: Store, spellings: Iterable[str] = ()) -> tuple[str, ...]:
    """The strings that stand for a root's directory of executables in the keys of its entries.

    A few entries are looked at that jcache has not stored itself. If none of them has such a key, none of the others is
    taken to have one.

    Args:
        store: of the root.
        spellings: of the directory, as whoever runs the program has given it; each is one more string to try.
    """
    directory = str(store.root.directory(Kind.EXECUTABLES))
    found = [path for path in _paths_in_some(store, directory) if leads(path, directory)]
    if not found:
        return ()
    given = (text for text in spellings if text and leads(text, directory))
    several = dict.fromkeys(str(PurePath(text)) for text in (*found, *given, directory))
    return tuple(text for text in several if "\n" not in text)[:_SPELLINGS]


def _paths_in_some(store: Store, directory: str) -> Iterator[str]:
    """The directories that keys of a few entries depend on."""
    sizes: dict[str, int] = {}
    with suppress(OSError), os.scandir(directory) as listing:
        items = (item for item in listing if item.name.endswith(ENTRY_SUFFIX))
        sizes = {item.name.removesuffix(ENTRY_SUFFIX): item.stat().st_size for item in islice(items, _NAMES)}
    if not sizes:
        return
    known = store.softly(lambda: store.ledger.known(Kind.EXECUTABLES, list(sizes))) or {}
    ours = {key for key, record in known.items() if record.origin in (*PORTABLE_ORIGINS, "run")}
    theirs = sorted(sizes.keys() - ours, key=lambda key: (sizes[key], key))
    if not theirs:
        return
    from jcache.formats.inspection import inspect

    for key in theirs[:_LOOKED_AT]:
        with suppress(DamagedEntry, OSError):
            inside = inspect(files.read(os.path.join(directory, key + ENTRY_SUFFIX)))
            if inside.cache_path is not None and inside.xla_caches is None:
                yield inside.cache_path


def remembered(maker: Mapping[str, Any]) -> str:
    """The text by which the ledger remembers what an executable tells of its maker."""
    told = {name: value for name, value in maker.items() if value is not None}
    return json.dumps({"version": _VERSION} | told, sort_keys=True)


def told_by(text: str) -> dict[str, Any] | None:
    """What such a text says; None for that of another version."""
    try:
        maker: dict[str, Any] = json.loads(text)
        return maker if maker.pop("version") == _VERSION else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _foreign(maker: Any, directory: str, jaxlib: str | None = None, *, portable: bool = False) -> str | None:  # noqa: ANN401
    """The other directory that executables of a maker are keyed for."""
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
    """What JAX was told of XLA's caches in a directory, where that is not its default."""
    told = maker.get("xla_caches")
    return {} if told is None else {path: told}
