"""Which builds of graphs and traces this process is in the middle of."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jcache.runtime.build_context import Build


class _Mine(threading.local):
    """The builds of this thread, the outermost first."""

    def __init__(self) -> None:
        self.builds: list[Build] = []


_mine = _Mine()
_everyones: Final[list[Build]] = []


def begin(build: Build) -> None:
    """Begins a build in this thread."""
    _mine.builds.append(build)
    _everyones.append(build)


def end(build: Build) -> None:
    """Ends the build that this thread began last."""
    _mine.builds.pop()
    _everyones.remove(build)


def is_nested() -> bool:
    """Whether this thread is building a graph."""
    return bool(_mine.builds)


def is_being_built_here(root: Path, key: str) -> bool:
    """Whether this thread is building that very graph."""
    return any((build.root, build.key) == (root, key) for build in _mine.builds)


def depended_on(key: str, found: Mapping[str, str]) -> None:
    """Says that a graph was asked for; those that are being built then depend on what it was found to depend on.

    A thread that builds nothing may work for any of those who do.
    """
    mine = _mine.builds
    if mine:
        mine[-1].parents[key] = None
    for build in mine or list(_everyones):
        build.found.update(found)


def _after_fork() -> None:
    """In a forked child only the builds of this thread go on."""
    _everyones[:] = _mine.builds


os.register_at_fork(after_in_child=_after_fork)
