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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from jcache.layout import LOCK_NAME, Root
from jcache.runtime.executable_cache import ExecutableCache
from jcache.store.cache_rules import JAX_RULES
from jcache.store.locking import DEFAULT_TIMEOUT

_LOCAL_SCHEME = "file://"


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
            rules=JAX_RULES,
            platforms=platforms,
            raises=raises,
        )
        self.lock_path = self.path / LOCK_NAME


def _local_directory(path: str) -> Path:
    if "://" in path and not path.startswith(_LOCAL_SCHEME):
        raise RuntimeError(f"{path} is not a directory of this machine: jcache keeps executables in local ones only.")
    return Path(os.path.abspath(path.removeprefix(_LOCAL_SCHEME)))
