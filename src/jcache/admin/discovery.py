"""Every cache on the machine: the places where one may be, and what is there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from jcache.admin.census import Census, take_census
from jcache.errors import JcacheError, NoCacheHere
from jcache.store.file_tree import tree_size
from jcache.store.foreign import adapters
from jcache.store.locking import timeout_in
from jcache.store.roots import VARIABLES, choose_path, open_root
from jcache.store.store import Store
from jcache.text import quoted

_USUAL: Final = ("~/.jax_cache",)
_TRITON: Final = "Triton's cache"


class Cache(NamedTuple):
    """A cache that was found.

    Attributes:
        path: where.
        layout: by which name programs know how it is laid out; ``unknown`` of one that cannot be looked into.
        title: what it is, for people.
        bytes: of all files in it.
        census: what it holds; None of one whose size alone is known.
        problem: why it could not be counted, as a sentence.
    """

    path: Path
    layout: str
    title: str
    bytes: int = 0
    census: Census | None = None
    problem: str | None = None

    @property
    def command(self) -> str:
        """The command that looks into it."""
        return f"{'du -sh' if self.census is None else 'jcache info --root'} {_spelled(self.path)}"


def find(environment: Mapping[str, str], *, root: str | None = None) -> list[Cache]:
    """Return the caches that there are: a named root, jcache's, those that JAX and other programs use.

    Args:
        environment: of the process.
        root: one that was asked for, wherever it is.

    Raises:
        InvalidValue: ``$JCACHE_LOCK_TIMEOUT`` cannot be read.
        NoCacheHere: the one that was asked for is no cache.
    """
    timeout = timeout_in(environment)
    found = {}
    if root is not None:
        path = choose_path(root, environment)
        open_root(path)
        found[os.path.realpath(path)] = _count(path, environment, timeout)
    for path in _places(environment):
        if (real := os.path.realpath(path)) not in found and path.is_dir():
            try:
                found[real] = _count(path, environment, timeout)
            except NoCacheHere as error:
                if not os.access(path, os.R_OK | os.X_OK):  # nobody knows whether there is one
                    found[real] = Cache(path, "unknown", "a directory", problem=str(error))
    triton = _triton(environment)
    if (real := os.path.realpath(triton)) not in found and triton.is_dir():
        path = Path(real) if triton.is_symlink() else triton  # du does not follow a link either
        found[real] = Cache(path, "triton", _TRITON, tree_size(path)[1])
    return list(found.values())


def has_others(environment: Mapping[str, str]) -> bool:
    """Return whether there may be a cache beside the one in the user's cache directory: a look at a few names."""
    return any(map(os.path.isdir, [*_others(environment), str(_triton(environment))]))


def _places(environment: Mapping[str, str]) -> Iterator[Path]:
    yield choose_path(None, {})
    for text in (*(environment.get(name) for name in VARIABLES), *_others(environment)):
        if text:
            try:
                yield choose_path(text, environment)
            except JcacheError:
                continue


def _others(environment: Mapping[str, str]) -> list[str]:
    places = [place for adapter in adapters() for place in adapter.places(environment)]
    return [os.path.expanduser(place) for place in (*_USUAL, *places)]


def _triton(environment: Mapping[str, str]) -> Path:
    home = environment.get("TRITON_HOME") or "~"
    return Path(os.path.expanduser(environment.get("TRITON_CACHE_DIR") or f"{home}/.triton/cache"))


def _count(path: Path, environment: Mapping[str, str], timeout: float) -> Cache:
    root = open_root(path)
    try:
        with Store(root, lock_timeout=timeout) as store:
            census = take_census(store, environment)
    except JcacheError as error:
        return Cache(path, root.layout.name, root.title, problem=str(error))
    return Cache(path, root.layout.name, root.title, census.total_bytes, census)


def _spelled(path: Path) -> str:
    """Return a path for a shell, by ``~`` where it is at home."""
    home = os.path.expanduser("~")
    inside = str(path).startswith(home + "/") and len(home) > 1
    return f"~/{quoted(str(path)[len(home) + 1 :])}" if inside else quoted(str(path))
