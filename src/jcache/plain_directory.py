"""A plain JAX directory as JAX's own ``LRUCache`` treats it, where jcache's `ExecutableCache` is used in its place.

Three things differ from a root that jcache administers, all as in JAX:

- any text is a key, and every regular file ``*-cache`` is an entry, that counts against the bound and is evicted;
- without a bound no recency is written at all;
- contents of other names than ``<name>-<64 hex>`` need not be executables.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from jcache import files
from jcache.desk import ProgramStore
from jcache.executables import ExecutableCache
from jcache.layout import ENTRY_SUFFIX, NAME_LIMIT, SIDECAR_SUFFIX, Kind, Root, is_key
from jcache.locking import DEFAULT_TIMEOUT
from jcache.names import storable
from jcache.occupancy import Occupancy


class _AnyKeyOccupancy(Occupancy):
    """Counts every regular file ``*-cache``."""

    def refresh(self) -> None:
        if self.undisturbed:
            return
        super().refresh()
        for name in os.listdir(self._directory):
            key = name.removesuffix(ENTRY_SUFFIX)
            if key != name and not is_key(key):
                with suppress(OSError):  # gone meanwhile, or its sidecar cannot be written
                    self._add(key)

    def _add(self, key: str) -> None:
        status = os.lstat(self._path(key, ENTRY_SUFFIX))
        if not stat.S_ISREG(status.st_mode):
            return
        sidecar = self._path(key, SIDECAR_SUFFIX)
        recency = files.read_recency(sidecar)
        self.added(key, status.st_size, status.st_mtime_ns if recency is None else recency)
        if recency is None:
            files.write_recency(sidecar, status.st_mtime_ns)


class _AnyKeyStore(ProgramStore):
    """A store whose keys are any text that is a file name."""

    def _checked(self, key: str) -> str:
        return key

    def _occupancy_of(self, kind: Kind) -> Occupancy:
        if kind not in self._occupancy:
            self._occupancy[kind] = _AnyKeyOccupancy(kind, self.root.directory(kind), self._quick)
        return self._occupancy[kind]


class PlainDirectoryCache(ExecutableCache):
    """JAX's ``LRUCache``, of the same parameters and behaviour, over jcache's store.

    Args:
        path: of the directory, which is made if it is not there.
        max_size: bound of the bytes of its entries; -1 for none.
        lock_timeout_secs: seconds to wait for the lock; None for as long as it takes.
    """

    _store = _AnyKeyStore

    def __init__(self, path: str, *, max_size: int = -1, lock_timeout_secs: float | None = DEFAULT_TIMEOUT) -> None:
        self.lock_timeout_secs = lock_timeout_secs
        timeout = -1 if lock_timeout_secs is None else lock_timeout_secs
        directory = Path(os.path.abspath(path))
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(Root(directory, plain=True), max_size=max_size, lock_timeout=timeout, always_recency=False)

    def _name(self, key: str) -> str:
        fits = len(os.fsencode(key + ENTRY_SUFFIX)) <= NAME_LIMIT
        return key if fits and "/" not in key and "\0" not in key else storable(key)
