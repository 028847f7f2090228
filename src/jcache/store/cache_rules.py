"""The rules in which a cache of jcache and one that takes the place of JAX's own differ."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from jcache.entry import Entry
from jcache.layout import ENTRY_SUFFIX, NAME_LIMIT, SIDECAR_SUFFIX, Kind, Root, check_key, is_key, storable
from jcache.store.directories import opened
from jcache.store.sidecar import read_recency


class CacheRules(NamedTuple):
    """The rules of a cache.

    Attributes:
        check: returns a key that may be put, or raises `InvalidValue`.
        stored_as: returns the key under which the entry of a program's key is stored.
        others: returns the entries of a kind whose names are not jcache's keys.
        always_recency: whether entries get sidecars without a bound, too, so that `jcache prune` knows of their use.
        least_size: the least ``max_size`` that the cache in JAX takes; None for any.
    """

    check: Callable[[str], str]
    stored_as: Callable[[str], str]
    others: Callable[[Root, Kind], Iterable[Entry]]
    always_recency: bool
    least_size: int | None


def _none(_root: Root, _kind: Kind) -> Iterable[Entry]:
    return ()


def _unchecked(key: str) -> str:
    return key


def _file_name(key: str) -> str:
    fits = len(os.fsencode(key + ENTRY_SUFFIX)) <= NAME_LIMIT
    return key if fits and "/" not in key and "\0" not in key else storable(key)


def _under_other_names(root: Root, kind: Kind) -> Iterator[Entry]:
    if kind is not Kind.EXECUTABLES:
        return
    with opened(root, root.directory(kind)) as directory:
        for name in sorted(os.listdir(directory)):
            key = name.removesuffix(ENTRY_SUFFIX)
            if key == name or is_key(key):
                continue
            with suppress(FileNotFoundError):
                status = os.lstat(name, dir_fd=directory)
                if stat.S_ISREG(status.st_mode):
                    used = read_recency(key + SIDECAR_SUFFIX, directory=directory)
                    written = status.st_mtime_ns
                    recency = written if used is None else used
                    yield Entry(kind, key, status.st_size, written, recency, sidecar=used is not None)


JCACHE_RULES: Final = CacheRules(check_key, storable, _none, always_recency=True, least_size=-1)
JAX_RULES: Final = CacheRules(_unchecked, _file_name, _under_other_names, always_recency=False, least_size=None)
