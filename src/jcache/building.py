"""What is being built or traced in this process, and what it turns out to depend on."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from jcache import reads
from jcache.economics import Economics
from jcache.fingerprint import Discovery, Fingerprint, changes, discovered, discovered_now
from jcache.layout import Kind, name_of
from jcache.pytrees import Dumped
from jcache.reads import Reads
from jcache.serialization import Codec, EnvelopeHeader, seal

T = TypeVar("T")
_LIBRARIES: Final = ("numpy", "jax", "jaxlib")


class Build:
    """One build of a graph, or its absence, for a graph that the program has built by itself.

    Args:
        root: for which root.
        key: of the graph.
        strict: as `jcache.reads.Reads` has it.

    Attributes:
        seconds: that it took; 0 where nobody knows.
        parents: keys of the graphs that were asked for meanwhile.
        found: what ran and was read meanwhile that the fingerprint does not cover, and in the builds of graphs that
            were loaded.
        reason: why the graph must not be stored, None if it may.
        is_passing: whether that reason says nothing about the same build in another process.
        kept: as `jcache.reads.Reads` has it.
    """

    def __init__(self, root: Path, key: str, *, strict: bool = False) -> None:
        self.root = root
        self.key = key
        self.strict = strict
        self.seconds = 0.0
        self.parents: dict[str, None] = {}
        self.found: dict[str, str] = {}
        self.reason: str | None = None
        self.is_passing = False
        self.kept: list[tuple[Any, str]] = []

    def run(self, call: Callable[[], T], of: Fingerprint) -> T:
        """Calls a function, whose exceptions pass."""
        _mine.builds.append(self)
        _everyones.append(self)
        try:
            with Discovery(of) as ran, Reads(strict=self.strict) as read:
                self.is_passing = ran.reason is not None
                started = time.perf_counter()
                value = call()
                self.seconds = time.perf_counter() - started
        finally:
            _mine.builds.pop()
            _everyones.remove(self)
        self.kept = read.kept
        self.found.update({**read.parts, **ran.parts})
        self.is_passing = self.is_passing or (ran.reason is None and read.is_passing)
        self.reason = ran.reason or (None if read.reason is None else f"it {read.reason}.")
        return value

    @property
    def economics(self) -> Economics:
        return Economics(builds=1, build_seconds=self.seconds)

    def seal(self, dumped: Dumped, of: Fingerprint) -> bytes:
        """The entry of the graph that was built."""
        return seal(
            dumped.pieces,
            kind=Kind.GRAPHS,
            name=name_of(self.key),
            key=self.key,
            build_seconds=self.seconds,
            created_ns=time.time_ns(),
            key_parts={**self.found, **of.parts},
            producers=producers() | {"codec": dumped.codec},
            parents=tuple(self.parents),
            codec=Codec.NONE,
        )


def found_in(header: EnvelopeHeader, known: Mapping[str, str]) -> dict[str, str]:
    """What an entry was found to depend on while it was made, besides the parts of its key."""
    return {label: text for label, text in header.key_parts.items() if label not in known}


def staleness(header: EnvelopeHeader, known: Mapping[str, str]) -> list[str]:
    """What has changed of that which ran or was read while an entry was made.

    Args:
        header: of the entry.
        known: the parts of its key.
    """
    then = found_in(header, known)
    if not then:
        return []
    ran = discovered(then)
    now = {**reads.now(then.keys() - ran.keys()), **discovered_now(ran)}
    return [] if now == then else changes(then, now)


class _Mine(threading.local):
    """The builds of this thread, the outermost first."""

    def __init__(self) -> None:
        self.builds: list[Build] = []


_mine = _Mine()
_everyones: Final[list[Build]] = []


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


def producers() -> dict[str, str]:
    """What makes an entry, by name and version."""
    from jcache import __version__

    libraries: dict[str, Any] = {name: sys.modules.get(name) for name in _LIBRARIES}
    versions = {name: str(getattr(module, "__version__", "")) for name, module in libraries.items() if module}
    return {"jcache": __version__, "python": platform.python_version()} | versions


def _after_fork() -> None:
    """In a forked child only the builds of this thread go on."""
    _everyones[:] = _mine.builds


os.register_at_fork(after_in_child=_after_fork)
