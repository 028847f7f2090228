"""What is being built or traced in this process, and what it turns out to depend on."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jcache import clock
from jcache.fingerprint import Fingerprint
from jcache.fingerprint.distributions import loaded
from jcache.fingerprint.flattening import flattened
from jcache.fingerprint.io.audit import Reads
from jcache.fingerprint.observed import Discovery
from jcache.formats.envelope import Codec, seal
from jcache.layout import Kind, name_of
from jcache.runtime import under_way
from jcache.store.economics import Economics

if TYPE_CHECKING:
    from jcache.formats.pytrees import Dumped

T = TypeVar("T")
_LIBRARIES: Final = ("numpy", "jax", "jaxlib")


class Build:
    """One build of a graph, or its absence, for a graph that the program has built by itself.

    Args:
        root: for which root.
        key: of the graph.
        strict: as `jcache.fingerprint.io.Reads` has it.

    Attributes:
        seconds: that it took; 0 where nobody knows.
        parents: keys of the graphs that were asked for meanwhile.
        found: what ran, was read and was loaded then that the fingerprint does not cover, and in the builds of graphs
            that were loaded.
        reason: why the graph must not be stored, None if it may.
        is_passing: whether that reason says nothing about the same build in another process.
        kept: as `jcache.fingerprint.io.Reads` has it.
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
        under_way.begin(self)
        try:
            with Discovery(of, strict=self.strict) as ran, Reads(strict=self.strict) as read:
                self.is_passing = ran.reason is not None
                started = clock.monotonic()
                value = call()
                self.seconds = clock.monotonic() - started
        finally:
            under_way.end(self)
        self.kept = read.kept
        self.found.update({**read.parts, **ran.parts, **flattened(), **loaded(of.parts, read.origins)})
        self.is_passing = self.is_passing or (ran.reason is None and read.is_passing)
        self.reason = ran.reason or (None if read.reason is None else f"it {read.reason}.")
        if self.reason is None and of.counts and ran.parts:
            self.reason = "code that was found while it ran may look at what it counts with"
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
            created_ns=clock.now_ns(),
            key_parts={**self.found, **of.parts},
            producers=producers() | {"codec": dumped.codec},
            parents=tuple(self.parents),
            codec=Codec.NONE,
        )


def producers() -> dict[str, str]:
    """What makes an entry, by name and version."""
    from jcache import __version__

    libraries: dict[str, Any] = {name: sys.modules.get(name) for name in _LIBRARIES}
    versions = {name: str(getattr(module, "__version__", "")) for name, module in libraries.items() if module}
    return {"jcache": __version__, "python": platform.python_version()} | versions
