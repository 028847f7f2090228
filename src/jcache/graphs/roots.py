"""The roots that a program reads and writes graphs in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

from jcache.errors import CannotWrite, JcacheError, NotInEffect
from jcache.layout import Kind, Root
from jcache.runtime.sealed_store import SealedStore, store_of
from jcache.runtime.warn import warn_once
from jcache.store import roots
from jcache.store.locking import timeout_in
from jcache.store.roots import choose_path, create_root, open_own, open_root, wants_plain

GRAPHS: Final = Kind.GRAPHS


class Places:
    """Where graphs are read and written now.

    Args:
        root: path of the root; None for the one that is in use at each call.
        max_bytes: bound of its graphs; None for none.
        read_only: paths of more roots to read.
    """

    def __init__(self, root: str | None, max_bytes: int | None, read_only: Sequence[str]) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._read_only = read_only
        self._found: tuple[tuple[object, ...], SealedStore | None, tuple[Root, ...]] | None = None

    def now(self) -> tuple[SealedStore | None, tuple[Root, ...]]:
        """Return the store of the root, or None with a warning if there is none, and the read-only roots."""
        asked = self._asked()
        found = self._found
        if found is None or found[0] != asked:
            found = self._found = (asked, self._find_store(), tuple(self._find_shared()))
        return found[1], found[2]

    def _asked(self) -> tuple[object, ...]:
        """Return all that the choice of the roots depends on."""
        if self._root is not None:
            return ()
        return roots.in_use(), os.environ.get("JCACHE_DIR"), os.environ.get("JAX_COMPILATION_CACHE_DIR")

    def _find_store(self) -> SealedStore | None:
        try:
            root = self._in_use() or self._made()
            return store_of(root, GRAPHS, max_bytes=self._max_bytes, lock_timeout=timeout_in(os.environ))
        except JcacheError as error:
            warn_once(("root", self._root, str(error)), f"{error} Graphs are built, and none is stored.")
            return None

    def _in_use(self) -> Root | None:
        ours = roots.in_use()
        if self._root is not None or ours is None:
            return None
        if ours.root is None:
            raise NotInEffect("The root that jcache.enable() was given is not in use: name the one that is meant.")
        return ours.root

    def _made(self) -> Root:
        path = choose_path(self._root, os.environ, source="root")
        try:
            return create_root(path, plain=wants_plain(self._root, os.environ))
        except CannotWrite:
            if path.is_dir():
                return open_root(path)
            raise

    def _find_shared(self) -> Iterator[Root]:
        for text in self._read_only:
            try:
                yield open_own(choose_path(text, os.environ, source="read_only"))
            except JcacheError as error:
                warn_once(("read_only", text), f"{error} It is not read.")
