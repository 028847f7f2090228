"""Which builds of graphs and traces this process is in the middle of."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jcache.runtime.build_context import Build


class _ThreadBuilds(threading.local):
    """The builds of this thread, the outermost first."""

    def __init__(self) -> None:
        self.builds: list[Build] = []


_thread_builds = _ThreadBuilds()
_all_builds: Final[list[Build]] = []


def begin(build: Build) -> None:
    """Begins a build in this thread."""
    _thread_builds.builds.append(build)
    _all_builds.append(build)


def end(build: Build) -> None:
    """Ends the build that this thread began last."""
    _thread_builds.builds.pop()
    _all_builds.remove(build)


def is_nested() -> bool:
    """Whether this thread is building a graph."""
    return bool(_thread_builds.builds)


def is_building(root: Path, key: str) -> bool:
    """Whether this thread is building that very graph."""
    return any((build.root, build.key) == (root, key) for build in _thread_builds.builds)


def add_dependency(key: str, found: Mapping[str, str]) -> None:
    """Says that a graph was asked for; those that are being built then depend on what it was found to depend on.

    A thread that builds nothing may work for any of those who do.
    """
    mine = _thread_builds.builds
    if mine:
        mine[-1].parents[key] = None
    for build in mine or list(_all_builds):
        build.found.update(found)


def _after_fork() -> None:
    """In a forked child only the builds of this thread go on."""
    _all_builds[:] = _thread_builds.builds


os.register_at_fork(after_in_child=_after_fork)
