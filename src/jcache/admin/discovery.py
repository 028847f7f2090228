"""Find every cache on the machine, in the places where JAX, jcache and other programs keep them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from glob import escape, glob
from pathlib import Path
from typing import Final, NamedTuple

from jcache.admin.census import Census, take_census
from jcache.configuration.files import for_program
from jcache.errors import JcacheError, NoCacheHere
from jcache.runs.stored_reports import read_reports
from jcache.store.file_tree import tree_size
from jcache.store.foreign import adapters
from jcache.store.locking import timeout_in
from jcache.store.roots import VARIABLES, choose_path, open_root
from jcache.store.store import Store
from jcache.text import quoted

_USUAL_PATHS: Final = ("~/.jax_cache", "~/jax_cache", "~/.cache/jax*", "$XDG_CACHE_HOME/jax*")  # patterns of `glob`
_TRITON_TITLE: Final = "Triton's cache"


class FoundCache(NamedTuple):
    """A cache that was found.

    Attributes:
        path: path of the cache.
        layout: name of the layout for programs; ``unknown`` for a directory that cannot be read.
        title: name of the layout for people.
        bytes: size of all files in it.
        census: entries and other files; None if only the size is known.
        problem: sentence on why it could not be counted; None if it was.
    """

    path: Path
    layout: str
    title: str
    bytes: int = 0
    census: Census | None = None
    problem: str | None = None

    @property
    def command(self) -> str:
        """The command that shows the cache."""
        return f"{'du -sh' if self.census is None else 'jcache info --root'} {_shell_path(self.path)}"


def find_caches(environment: Mapping[str, str], *, root: str | None = None) -> list[FoundCache]:
    """Return the existing caches: a named root, jcache's, and those of JAX and other programs.

    Args:
        environment: environment of the process.
        root: root that the user named; None if none was named.

    Raises:
        InvalidValue: ``$JCACHE_LOCK_TIMEOUT`` cannot be parsed.
        NoCacheHere: the named root is no cache.
    """
    timeout = timeout_in(environment)
    found = {}
    if root is not None:
        path = choose_path(root, environment)
        open_root(path)
        found[os.path.realpath(path)] = _examine(path, environment, timeout)
    for path in _paths(environment):
        _add(found, path, environment, timeout)
    for path in _chosen(
        (text for cache in list(found.values()) for text in _used_by_runs(cache, timeout)), environment
    ):
        _add(found, path, environment, timeout)
    triton = _triton_path(environment)
    if (real := os.path.realpath(triton)) not in found and triton.is_dir():
        path = Path(real) if triton.is_symlink() else triton  # du does not follow a link either
        found[real] = FoundCache(path, "triton", _TRITON_TITLE, tree_size(path)[1])
    return list(found.values())


def _add(found: dict[str, FoundCache], path: Path, environment: Mapping[str, str], timeout: float) -> None:
    """Add the cache at a path, unless there is none, or it is there already."""
    if (real := os.path.realpath(path)) not in found and path.is_dir():
        try:
            found[real] = _examine(path, environment, timeout)
        except NoCacheHere as error:
            if not os.access(path, os.R_OK | os.X_OK):  # it may hold a cache
                found[real] = FoundCache(path, "unknown", "a directory", problem=str(error))


def _used_by_runs(cache: FoundCache, timeout: float) -> list[str]:
    """Return the directories that the recorded runs of a root have used; one may be the root's own executables."""
    if cache.census is None:
        return []
    with Store(cache.census.root, lock_timeout=timeout) as store:
        reports = read_reports(store.queue.attempt(store.ledger.runs) or ())
    used = {program.get("directory") for report in reports for program in report.get("programs", [])}
    return sorted(path for path in used if isinstance(path, str) and os.path.isabs(path))


def may_have_others(environment: Mapping[str, str]) -> bool:
    """Return whether there may be other caches than jcache's in the user's cache directory, by a few names."""
    return any(map(os.path.isdir, [*_paths_of_others(environment), str(_triton_path(environment))]))


def _paths(environment: Mapping[str, str]) -> Iterator[Path]:
    yield choose_path(None, {})
    yield from _chosen((*filter(None, map(environment.get, VARIABLES)), *_paths_of_others(environment)), environment)


def _chosen(texts: Iterable[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the path of the root that each text means, which may be that of a root's executables; skip wrong texts."""
    for text in texts:
        with suppress(JcacheError):
            yield choose_path(text, environment)


def _paths_of_others(environment: Mapping[str, str]) -> list[str]:
    places = [place for adapter in adapters() for place in adapter.places(environment)]
    configured = for_program(None, environment)[0].value("places")
    usual = [path for pattern in _USUAL_PATHS for path in _matching(pattern, environment)]
    return [*usual, *(os.path.expanduser(place) for place in (*places, *configured))]


def _matching(pattern: str, environment: Mapping[str, str]) -> list[str]:
    """Return the paths of a pattern; none if it begins with a variable that is not set."""
    base, _, rest = pattern.partition("/")
    above = environment.get(base[1:]) if base.startswith("$") else os.path.expanduser(base)
    return sorted(glob(f"{escape(above)}/{rest}")) if above else []


def _triton_path(environment: Mapping[str, str]) -> Path:
    home = environment.get("TRITON_HOME") or "~"
    return Path(os.path.expanduser(environment.get("TRITON_CACHE_DIR") or f"{home}/.triton/cache"))


def _examine(path: Path, environment: Mapping[str, str], timeout: float) -> FoundCache:
    root = open_root(path)
    try:
        with Store(root, lock_timeout=timeout) as store:
            census = take_census(store, environment)
    except JcacheError as error:
        return FoundCache(path, root.layout.name, root.title, problem=str(error))
    return FoundCache(path, root.layout.name, root.title, census.total_bytes, census)


def _shell_path(path: Path) -> str:
    """Return a path for a shell, with ``~`` for the home directory."""
    home = os.path.expanduser("~")
    inside = str(path).startswith(home + "/") and len(home) > 1
    return f"~/{quoted(str(path)[len(home) + 1 :])}" if inside else quoted(str(path))
