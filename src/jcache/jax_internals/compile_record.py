"""What compiling one program tells, and what stands in for it."""

# ruff: noqa: ANN401 - what is JAX's own has no types that last

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jcache.jax_internals.meshes import Mesh
    from jcache.jax_internals.preload import Preload


class CannotReplay(Exception):
    """What was to be replayed is not there, or does not fit here."""


class Compilation:
    """What compiling a program told, to be filled while JAX does so in this thread.

    Attributes:
        module: the program; None for whichever comes next.
        kept: which flat arguments the executable takes.
        signature: of the program.
        device_key: of all that an executable depends on, besides the trace.
        executable_key: under which JAX's cache has the executable, None where it was not used.
        artifact: the program as a portable artifact of StableHLO.
        text: SHA-256 of the program as text.
        recipe: how it was compiled.
        targets: of the custom calls in it.
        mesh: the one that it asks for itself, whatever its arguments lie on.
        load_context: what its executable is loaded for, see `preload`.
        reason: why the program cannot be replayed; None if it can, or has not been compiled.
        done: whether it was compiled, or JAX has begun to: other programs may run before it returns.
    """

    kept: tuple[int, ...] = ()
    signature: str = ""
    device_key: str = ""
    executable_key: str | None = None
    artifact: bytes = b""
    text: str = ""
    recipe: str = ""
    targets: frozenset[str] = frozenset()
    mesh: Mesh | None = None
    load_context: str = ""
    reason: str | None = None

    def __init__(self, module: Any = None, *, done: bool = False) -> None:
        self.module, self.done = module, done


class Replay:
    """What stands in for compiling, in this thread.

    Attributes:
        trace: of the marker.
        executables: gives the keys in JAX's cache for a signature and a device key.
        artifact: gives the StableHLO that was compiled for a signature, None if there is none.
        targets: of the custom calls in the program.
        ahead: what is being loaded already; None if nothing is.
        load_context: what the executable is loaded for, once it has been asked for.
        signature, device_key: what was asked for, once it has been.
        compiled: the key in JAX's cache of what had to be compiled, once it has been.
        loaded: the key in JAX's cache of the executable that was read from there, once one has been.
    """

    load_context: str = ""
    signature: str = ""
    device_key: str = ""
    compiled: str | None = None
    loaded: str | None = None

    def __init__(
        self,
        trace: str,
        executables: Callable[[str, str], Iterable[str]],
        artifact: Callable[[str], bytes | None],
        targets: frozenset[str],
        ahead: Preload | None = None,
    ) -> None:
        self.trace, self.executables, self.artifact, self.targets = trace, executables, artifact, targets
        self.ahead = ahead
