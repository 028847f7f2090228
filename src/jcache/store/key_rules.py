"""Which texts are keys of a store: jcache's own keys only, or any file name, as in JAX's cache."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from jcache.entry import Entry
from jcache.layout import ENTRY_SUFFIX, NAME_LIMIT, SIDECAR_SUFFIX, Kind, Root, check_key, is_key, storable
from jcache.store.directories import opened
from jcache.store.sidecar import read_recency


class KeyRules(NamedTuple):
    """The rules for keys.

    Attributes:
        check: returns a key that may be put, or raises `InvalidValue`.
        stored_as: returns the key under which the entry of a program's key is stored.
        others: returns the entries of a kind whose names are not jcache's keys.
    """

    check: Callable[[str], str]
    stored_as: Callable[[str], str]
    others: Callable[[Root, Kind], Iterable[Entry]]


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


HASHED_KEYS: Final = KeyRules(check_key, storable, _none)
ANY_KEYS: Final = KeyRules(_unchecked, _file_name, _under_other_names)
