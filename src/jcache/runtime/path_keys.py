"""Make JAX hit entries that JAX alone has stored, under keys that depend on the path of its cache directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from jcache.jax_internals import cache_hook, cache_keys, config
from jcache.jax_internals.path_keys import KERNELS, NO_PATH, can_be_in_keys, in_keys, is_file, xla_caches
from jcache.layout import Kind, Root, storable
from jcache.runs import observers
from jcache.store.store import Store
from jcache.verify.path_key_sentences import describe_mixed_keys
from jcache.verify.path_keys import find_spellings, named_directories


def try_path_keys(
    roots: Sequence[Root], paths: Iterable[str | Path | None], note: Callable[[str], None]
) -> dict[str, str]:
    """Make JAX look under these keys, too: in roots, and in a directory that the program sets later.

    `jcache.jax_internals.cache_keys.try_no_path_keys` undoes it.

    Args:
        roots: the root that is written, then the read-only ones.
        paths: the paths by which the program has named them.
        note: receives a sentence for each directory with such keys: at once if one was seen, else at the first hit.

    Returns:
        The keys with a path that were found, each with the key that it replaces; later finds are added.
    """
    tries = _Tries(roots, note)
    if can_be_in_keys(cache_hook.versions()[0]):
        tries.find_spellings(named_directories(os.environ, *paths))
        cache_keys.try_path_keys(tries.to_try, tries.is_stored, tries.is_found)
    return tries.found


class _Tries:
    """The keys to try, and the keys that were found."""

    def __init__(self, roots: Sequence[Root], note: Callable[[str], None]) -> None:
        self.found: dict[str, str] = {}
        self._roots = roots
        self._directories = [str(root.directory(Kind.EXECUTABLES)) for root in roots]
        self._texts: list[str] = []
        # From jax 0.11 on there is no choice to report: only the user can put the path into keys, and it stays there.
        self._by_default = in_keys(cache_hook.versions()[0])
        self._note = note if self._by_default else lambda _: None

    def find_spellings(self, paths: Sequence[str]) -> None:
        for root, directory in zip(self._roots, self._directories, strict=True):
            with Store(root) as store:
                texts, seen = find_spellings(store, paths)
            self._texts += texts
            if seen:
                self._note(describe_mixed_keys(directory))

    def to_try(self) -> list[str]:
        places = self._places()
        if "://" in places[0]:  # JAX's own key has a path there with these caches alone
            return places if xla_caches() and (self._by_default or KERNELS in xla_caches()) else []
        own_has_path = not self._by_default and KERNELS in xla_caches()
        return [*(self._texts if places is self._directories else places), *([NO_PATH] if own_has_path else [])]

    def is_stored(self, key: str) -> bool:
        return any(is_file(place, storable(key)) for place in self._places())

    def is_found(self, path_key: str, key: str) -> None:
        self.found[path_key] = key
        observers.tell_path_key(path_key, key)
        for place in self._places():
            if is_file(place, storable(path_key)):
                self._note(describe_mixed_keys(place))

    def _places(self) -> list[str]:
        """Return the roots' directories, or only the directory that the program has set instead."""
        configured = str(config.directory() or "")
        return self._directories if configured == self._directories[0] else [configured]
