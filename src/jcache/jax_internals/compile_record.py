"""The record of one compilation, and the replay that takes the place of another one."""

# ruff: noqa: ANN401 - JAX's internals have no stable types

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jcache.jax_internals.meshes import Mesh
    from jcache.jax_internals.preload import Preload
    from jcache.jax_internals.rank_votes import Vote


class CannotReplay(Exception):
    """A stored program is missing, or does not fit here."""


class Compilation:
    """The record of a compilation, filled while JAX compiles the program in this thread.

    Attributes:
        module: the program; None for the next one.
        kept: numbers of the flat arguments that the executable takes.
        signature: digest of the program's signature.
        device_key: digest of everything but the trace that an executable depends on.
        executable_key: the executable's key in JAX's cache, None where the cache was not used.
        artifact: the program as a portable artifact of StableHLO.
        text: SHA-256 of the program as text.
        recipe: the recipe of its compilation, see `compile_recipe`.
        targets: targets of the custom calls in it.
        callbacks: the recipes of its callbacks on the host, None if it has none.
        effects: the names of its effects.
        mesh: the mesh that the program names itself, wherever its arguments lie.
        load_context: the surroundings for which its executable is loaded, see `preload`.
        reason: why the program cannot be replayed; None if it can, or has not been compiled.
        done: whether JAX has begun to compile it, since JAX may compile other programs before it returns.
    """

    kept: tuple[int, ...] = ()
    signature: str = ""
    device_key: str = ""
    executable_key: str | None = None
    artifact: bytes = b""
    text: str = ""
    recipe: str = ""
    targets: frozenset[str] = frozenset()
    callbacks: Any = None
    effects: tuple[str, ...] = ()
    mesh: Mesh | None = None
    load_context: str = ""
    reason: str | None = None

    def __init__(
        self, module: Any = None, *, done: bool = False, keep: Callable[[Sequence[Any]], Any] | None = None
    ) -> None:
        """Record the compilation of a module; `keep` returns the recipes of callbacks."""
        self.module, self.done, self.keep = module, done, keep


class Replay:
    """A stored program that takes the place of a compilation in this thread.

    Attributes:
        trace: the trace in the marker.
        executables: returns the keys in JAX's cache for a signature and a device key.
        artifact: returns the StableHLO that was compiled for a signature, None if there is none.
        targets: targets of the custom calls in the program.
        ahead: the executable that is being loaded ahead; None if there is none.
        vote: the votes of the processes whose call it is; None for a call of one process.
        load_context: the surroundings for which the executable is loaded, once JAX has asked for it.
        signature, device_key: signature and device key of the program, once JAX has asked for its executable.
        compiled: the key in JAX's cache of the executable that was compiled, if one was.
        loaded: the key in JAX's cache of the executable that was read from there, if one was.
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
        vote: Vote | None = None,
    ) -> None:
        self.trace, self.executables, self.artifact, self.targets = trace, executables, artifact, targets
        self.ahead, self.vote = ahead, vote
