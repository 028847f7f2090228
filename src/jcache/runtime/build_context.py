"""The builds of graphs and traces that are in progress in this process, and what each depends on."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jcache import clock
from jcache.fingerprint import places
from jcache.fingerprint.io.digests import is_path
from jcache.fingerprint.io.reads import Reads, record_files
from jcache.formats.envelope import Codec, seal
from jcache.layout import Kind, Root, name_of
from jcache.runtime import process_state
from jcache.runtime.worlds import surroundings, world
from jcache.runtime.worlds.digests import digests_of
from jcache.store.economics import Economics

if TYPE_CHECKING:
    from jcache.fingerprint import Fingerprint
    from jcache.formats.pytrees import Dumped

T = TypeVar("T")
_LIBRARIES: Final = ("numpy", "jax", "jaxlib")


class Build:
    """One build of a graph or trace; also stands for a graph that the program built without jcache.

    Args:
        root: the root that the result is for.
        key: key of the result.
        strict: as in `jcache.fingerprint.io.reads.Reads`.

    Attributes:
        seconds: the build time; 0 if it is not known.
        parents: keys of the graphs that were requested during the build.
        found: the dependencies that the fingerprint does not cover: files that were read and modules that were
            imported during the build, and the dependencies of the graphs that were loaded.
        reason: why the result must not be stored; None if it may be stored.
        refused: the part of `reason` that is about what was read or done; a verb phrase.
        is_temporary: whether `reason` says nothing about the same build in another process.
        chance: what the build asked for that is another thing in each process.
    """

    def __init__(self, root: Root, key: str, *, strict: bool = False) -> None:
        self.root = root
        self.key = key
        self.strict = strict
        self.seconds = 0.0
        self.parents: dict[str, None] = {}
        self.found: dict[str, str] = {}
        self.reason: str | None = None
        self.refused: str | None = None
        self.is_temporary = False
        self.chance: frozenset[str] = frozenset()

    def run(self, call: Callable[[], T]) -> T:
        """Call the function that builds, and record its dependencies; its exceptions propagate."""
        _thread_builds.stack.append(self)
        _all_builds.append(self)
        loaded, state = world.loaded(), process_state.taken()
        try:
            with Reads(strict=self.strict) as read:
                started = clock.monotonic()
                value = call()
                self.seconds = clock.monotonic() - started
        finally:
            _thread_builds.stack.pop()
            _all_builds.remove(self)
        imported = world.imported(loaded, read.sought, read.executed, digests_of(self.root))
        self.found.update({**read.parts, **imported})
        if not self.strict:
            record_files(imported)
        if any(map(is_path, self.found)):
            directories = places.directories(surroundings.program_directory()) | places.packages()
            self.found.update(places.bases_of(self.found, directories))
        self.chance = frozenset(read.chance)
        self.is_temporary, self.refused = read.is_temporary, read.reason
        changed = [f"changed {each}" for each in process_state.changes_since(state)]
        reason = read.reason or next(iter(changed), None)
        self.reason = None if reason is None else f"it {reason}."
        return value

    @property
    def economics(self) -> Economics:
        """The cost of this build, for the ledger."""
        return Economics(builds=1, build_seconds=self.seconds)

    def seal(self, dumped: Dumped, of: Fingerprint) -> bytes:
        """Return the bytes of the graph's entry.

        Args:
            dumped: the serialized value.
            of: the fingerprint of the function and its arguments.
        """
        return seal(
            dumped.pieces,
            kind=Kind.GRAPHS,
            name=name_of(self.key),
            key=self.key,
            build_seconds=self.seconds,
            created_ns=clock.now_ns(),
            key_parts={**self.found, **of.parts},
            producers=producers() | {"codec": dumped.codec},
            parents=tuple(self.parents),
            codec=Codec.NONE,
        )


def producers() -> dict[str, str]:
    """Return the versions of the libraries that make an entry, by name."""
    from jcache import __version__

    libraries: dict[str, Any] = {name: sys.modules.get(name) for name in _LIBRARIES}
    versions = {name: str(getattr(module, "__version__", "")) for name, module in libraries.items() if module}
    return {"jcache": __version__, "python": platform.python_version()} | versions


class _ThreadBuilds(threading.local):
    """The builds in progress in this thread, the outermost first."""

    def __init__(self) -> None:
        self.stack: list[Build] = []


_thread_builds = _ThreadBuilds()
_all_builds: Final[list[Build]] = []


def is_nested() -> bool:
    """Return whether this thread is in the middle of a build."""
    return bool(_thread_builds.stack)


def is_building(root: Root, key: str) -> bool:
    """Return whether this thread is building the graph of this root and key."""
    return any((build.root, build.key) == (root, key) for build in _thread_builds.stack)


def add_dependency(key: str, found: Mapping[str, str]) -> None:
    """Add a requested graph, and what that graph depends on, to the builds in progress.

    These are the builds of this thread. A thread without a build may work for a build of any other thread, so there all
    builds of the process get the dependencies.

    Args:
        key: key of the graph.
        found: the dependencies that its own build found.
    """
    stack = _thread_builds.stack
    if stack:
        stack[-1].parents[key] = None
    for build in stack or list(_all_builds):
        build.found.update(found)


def _after_fork() -> None:
    """Drop the builds of other threads: in a forked child only those of this thread continue."""
    _all_builds[:] = _thread_builds.stack


os.register_at_fork(after_in_child=_after_fork)
