"""A replacement of JAX's ``LRUCache`` for a plain JAX directory, on top of `ExecutableCache`.

It differs from a root that jcache administers in three ways, all as in JAX:

- any text is a key, and every regular file ``*-cache`` an entry: it counts for the bound, and is evicted and cleared;
- without a bound no recency is written;
- an entry whose name is not ``<name>-<64 hex>`` need not hold an executable.

It differs from JAX in three ways. A directory that cannot be made raises no error: the cache has no hits, and its first
put warns. A relative path is resolved at once, so a later change of the working directory has no effect. There is no
``lock`` attribute: ``lock_path`` is the file that JAX's processes and jcache's lock.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jcache.entry import Entry
from jcache.layout import ENTRY_SUFFIX, LOCK_NAME, NAME_LIMIT, SIDECAR_SUFFIX, Kind, Root, is_key, storable
from jcache.runtime.executable_cache import ExecutableCache
from jcache.runtime.program_store import ProgramStore
from jcache.runtime.verified_read import EXECUTABLES
from jcache.store import files
from jcache.store.directories import opened
from jcache.store.locking import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from jcache.store.lru_index import Occupancy

_LOCAL_SCHEME = "file://"


class _AnyKeyStore(ProgramStore):
    """A store whose keys may be any file names."""

    def entries(self, kinds: Iterable[Kind] = tuple(Kind), *, legacy: bool = False, uses: bool = False) -> list[Entry]:
        """Return the entries of some kinds, including executables under any file name."""
        chosen = list(kinds)
        found = super().entries(chosen, legacy=legacy, uses=uses)
        if EXECUTABLES in chosen:
            found += self.enrich(EXECUTABLES, list(self._others()))
        return found

    def count(self, kind: Kind) -> int:
        return super().count(kind) + sum(1 for _ in self._others() if kind is EXECUTABLES)

    def _others(self) -> Iterator[Entry]:
        """Yield the entries whose names are not jcache's keys."""
        with opened(self.root, self.root.directory(EXECUTABLES)) as directory:
            for name in sorted(os.listdir(directory)):
                key = name.removesuffix(ENTRY_SUFFIX)
                if key == name or is_key(key):
                    continue
                with suppress(FileNotFoundError):
                    status = os.lstat(name, dir_fd=directory)
                    if stat.S_ISREG(status.st_mode):
                        used = files.read_recency(key + SIDECAR_SUFFIX, directory=directory)
                        written = status.st_mtime_ns
                        recency = written if used is None else used
                        yield Entry(EXECUTABLES, key, status.st_size, written, recency, sidecar=used is not None)

    def _checked(self, key: str) -> str:
        return key

    def _occupancy_of(self, kind: Kind) -> Occupancy:
        from jcache.store.lru_index import Occupancy

        if kind not in self._occupancy:
            self._occupancy[kind] = Occupancy(self.root, kind, self._quick, others=self._others)
        return self._occupancy[kind]


class PlainDirectoryCache(ExecutableCache):
    """JAX's ``LRUCache``, with the same parameters and behaviour, over jcache's store.

    Args:
        path: the directory; it is made if it does not exist.
        max_size: bound of the entries' total size, in bytes; -1 for no bound; 0 or below -1 to store nothing.
        lock_timeout_secs: seconds to wait for the lock; None to wait for ever.
        platforms: returns JAX's platforms in this process; None if they are not known.
        raises: as in `ExecutableCache`.

    Raises:
        RuntimeError: the path is a URL of another machine, where JAX's own cache needs another package.
    """

    _store = _AnyKeyStore
    _min_bound = None

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_size: int = -1,
        lock_timeout_secs: float | None = DEFAULT_TIMEOUT,
        platforms: Callable[[], frozenset[str] | None] = lambda: None,
        raises: Callable[[], bool] = lambda: False,
    ) -> None:
        self.lock_timeout_secs = lock_timeout_secs
        timeout = -1 if lock_timeout_secs is None else lock_timeout_secs
        directory = _local_directory(os.fspath(path))
        with suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
        super().__init__(
            Root(directory, plain=True),
            max_size=max_size,
            lock_timeout=timeout,
            always_recency=False,
            platforms=platforms,
            raises=raises,
        )
        self.lock_path = self.path / LOCK_NAME

    def _name(self, key: str) -> str:
        fits = len(os.fsencode(key + ENTRY_SUFFIX)) <= NAME_LIMIT
        return key if fits and "/" not in key and "\0" not in key else storable(key)


def _local_directory(path: str) -> Path:
    if "://" in path and not path.startswith(_LOCAL_SCHEME):
        raise RuntimeError(f"{path} is not a directory of this machine: jcache keeps executables in local ones only.")
    return Path(os.path.abspath(path.removeprefix(_LOCAL_SCHEME)))
