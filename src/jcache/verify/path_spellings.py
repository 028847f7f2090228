"""Find the spellings of a directory's path in the keys of the executables in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from jcache.errors import DamagedEntry
from jcache.jax_internals.path_keys import SPELLINGS
from jcache.layout import ENTRY_SUFFIX, Kind
from jcache.store import files
from jcache.store.roots import VARIABLES
from jcache.verify.path_keys import JCACHE_ORIGINS, MAX_SAMPLED_BYTES, directory_in_key, leads_to

if TYPE_CHECKING:
    from jcache.store.store import Store

_MAX_CANDIDATES: Final = 256  # entries whose origin is looked up in the ledger
_SAMPLE_ENTRIES: Final = 8  # entries to read of these
_MAX_ENTRIES_READ: Final = 512  # entries to read for a definite answer
_MAX_SPELLINGS: Final = 4  # each costs 0.2 ms, for one more key, for every program that is not stored


class Spellings(NamedTuple):
    """Strings by which keys of a root's executables may name its directory.

    Attributes:
        texts: values of ``jax_compilation_cache_dir`` that JAX may have hashed; a key is tried with each.
        seen: whether a key with one of them was found. Only a few entries are read, so others may have one.
    """

    texts: tuple[str, ...]
    seen: bool


def named_directories(environment: Mapping[str, str], *more: str | os.PathLike[str] | None) -> list[str]:
    """Return the paths of cache directories that the user has named.

    Args:
        environment: environment of the process, with the paths that `jcache run` was given.
        more: other paths; None and empty ones are left out.
    """
    texts = [*map(environment.get, VARIABLES), *environment.get(SPELLINGS, "").split("\n")]
    return [str(text) for text in (*more, *texts) if text]


def find_spellings(store: Store, named: Iterable[str] = ()) -> Spellings:
    """Return the strings that may stand for a root's directory of executables in the keys of its entries.

    These are its path, those of the named paths that lead to it, and paths that some of its entries contain.

    Args:
        store: store of the root.
        named: paths that the user has named.
    """
    directory = str(store.root.directory(Kind.EXECUTABLES))
    known = [directory, *(text for text in named if leads_to(text, directory))]
    found = list(
        filter(None, _spellings_in_keys(directory, _entries_of_jax(store, directory, _MAX_CANDIDATES), _SAMPLE_ENTRIES))
    )
    several = dict.fromkeys(str(PurePath(text)) for text in (*known, *found))
    return Spellings(tuple(text for text in several if "\n" not in text)[:_MAX_SPELLINGS], bool(found))


def path_in_keys(store: Store) -> tuple[str | None, bool]:
    """Return the path of a root's directory in the keys that JAX alone has stored there by default.

    Returns:
        The path as the keys spell it: the root's own, if any key has it; None if no key with a path was found. And
        whether enough entries were read to be sure.
    """
    directory = str(store.root.directory(Kind.EXECUTABLES))
    theirs = _entries_of_jax(store, directory, None)
    named = list(_spellings_in_keys(directory, theirs, _MAX_ENTRIES_READ))
    paths = dict.fromkeys(text for text in named if text is not None)
    path = directory if directory in paths else next(iter(paths), None)
    return path, path == directory or len(named) == len(theirs)


def _entries_of_jax(store: Store, directory: str, most: int | None) -> list[tuple[int, str]]:
    """Return sizes and keys of entries that jcache has not stored according to the ledger, the smallest first.

    Args:
        store: store of the root.
        directory: directory of the entries.
        most: number of entries to look up; None for all.
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
    ours = {key for key, record in known.items() if record.origin in JCACHE_ORIGINS}
    return sorted((size, key) for key, size in sizes.items() if key not in ours)


def _spellings_in_keys(directory: str, entries: Sequence[tuple[int, str]], most: int) -> Iterator[str | None]:
    """Yield for each entry of a sample the string in its key that leads to the directory, or None.

    Args:
        directory: directory of the entries.
        entries: sizes and keys, the smallest first; entries of more than 1 MiB are skipped.
        most: number of entries to read, of all sizes.
    """
    small = [key for size, key in entries if size <= MAX_SAMPLED_BYTES]
    if not small:
        return
    from jcache.formats.inspection import inspect

    for key in small[:: -(-len(small) // most)]:
        named = None
        with suppress(DamagedEntry, OSError):
            inside = inspect(files.read(os.path.join(directory, key + ENTRY_SUFFIX)))
            path = directory_in_key(
                inside.cache_path, None, inside.xla_options, portable=False, xla_caches=inside.xla_caches
            )
            named = path if path is not None and leads_to(path, directory) else None
        yield named
