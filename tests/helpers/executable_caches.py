"""Caches of executables that keep what they warn of and what they tell."""

import os
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.runtime.events import CacheEvent, EventKind
from jcache.runtime.executable_cache import ExecutableCache
from jcache.store.ledger import Known, Ledger
from tests.helpers.entries import SECOND, executable
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture

DATA = executable(3)
OTHER = executable(7)
HOUR = 3600 * SECOND


class Caches:
    """Makes caches that record their warnings and events, and closes them."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.made: dict[ExecutableCache, list[CacheEvent]] = {}

    def __call__(self, root: Root, **more: object) -> ExecutableCache:
        told: list[CacheEvent] = []
        cache = ExecutableCache(root, warn=self.said.append, on_event=told.append, **more)  # type: ignore[arg-type]
        self.made[cache] = told
        return cache

    def told(self, cache: ExecutableCache, *kinds: EventKind) -> list[CacheEvent]:
        """Return a cache's events of some kinds."""
        return [event for event in self.made[cache] if event.kind in kinds]

    def count(self, cache: ExecutableCache, *kinds: EventKind) -> int:
        """Return the number of events of some sorts that a cache has told."""
        return len(self.told(cache, *kinds))

    def refused(self, cache: ExecutableCache) -> Counter[str | None]:
        """How often a cache has refused to store, by reason."""
        return Counter(event.detail for event in self.told(cache, EventKind.REFUSED))


def entry_of(root: Root, a_key: str) -> Path:
    """Return the path of an executable."""
    return root.directory(Kind.EXECUTABLES) / (a_key + ENTRY_SUFFIX)


def on_record(root: Root) -> dict[str, Known]:
    """Return the ledger's records of the executables."""
    with closing(Ledger(root.ledger)) as ledger:
        return ledger.known(Kind.EXECUTABLES)


def age(path: Path) -> None:
    """Makes a file look as if it had been written an hour ago."""
    then = time.time_ns() - HOUR
    os.utime(path, ns=(then, then))


def change(path: Path, position: int = -5) -> None:
    """Flips a bit in place."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
