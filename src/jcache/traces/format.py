"""The bytes of traces: two kinds of entries, in sealed envelopes.

A **trace** says what a function returns for arguments of certain types, and what it was made from (its key parts).
Payload, as canonical JSON::

    {"kept":[int],                  which flat arguments its executables take
     "results":[[[int],str,bool]],  shape, dtype and weakness of each flat result; where its type tells of a mesh, also
                                    [[[str],[int],[str]],[null|str|[str]]]: the names, sizes and kinds of the mesh's
                                    axes, and along which of them each dimension is divided
     "structure":[…],               of the result, see `jcache.traces.structures`
     "targets":[str],               of the custom calls in its programs
     "callbacks":{…},               of its callbacks on the host, if it has any, see `jcache.traces.callbacks`
     "effects":[str]}               of its effects, if it has any, the names by which JAX has them

A **program** of a trace is its StableHLO, for one way to place and donate its arguments; its parent is the trace.
Payload: a portable artifact. Key parts: ``trace``, which of the traces that have had its key, by when that was made;
``text``, the SHA-256 of the StableHLO as text, to compare a later trace with; ``signature``; ``device`` (all that an
executable depends on besides the trace); ``executable``, the key in JAX's cache; and ``recipe``, how it was compiled
(see `jcache.jax_internals.compile_recipe`). For each further device there is an entry without a payload.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jcache import clock
from jcache.errors import DamagedEntry
from jcache.formats.envelope import Codec, EnvelopeHeader, seal
from jcache.jax_internals.avals import Axes, Place, Result, named
from jcache.jax_internals.meshes import Mesh
from jcache.layout import Kind, Root, name_of, storable
from jcache.store.lineage import version_of

TRACES: Final = Kind.TRACES
_PROGRAM: Final = ".stablehlo"


class Trace(NamedTuple):
    """What is known of a trace; the fields are those of its payload."""

    kept: tuple[int, ...]  # which flat arguments its executable takes
    results: tuple[Result, ...]
    structure: list[Any]  # of the result
    targets: tuple[str, ...]  # of the custom calls in its program
    mesh: Mesh | None = None  # the one that the function itself asks for
    callbacks: Any = None  # recipes of what it calls back on the host
    effects: tuple[str, ...] = ()

    def payload(self) -> bytes:
        results = [result[:3] if result.place is None else result for result in self.results]
        fields = self._asdict() | {"results": results}
        fields = {name: value for name, value in fields.items() if value or name not in {"callbacks", "effects"}}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def of(cls, payload: memoryview) -> Trace:
        """Return the trace of a payload; raise `DamagedEntry` where it follows another grammar."""
        try:
            read = json.loads(bytes(payload))
            trace = cls(
                kept=tuple(read["kept"]),
                results=tuple(_result(*result) for result in read["results"]),
                structure=read["structure"],
                targets=tuple(read["targets"]),
                mesh=None if read.get("mesh") is None else Mesh(*map(tuple, read["mesh"])),
                callbacks=read.get("callbacks"),
                effects=tuple(read.get("effects", ())),
            )
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            msg = f"A trace whose payload cannot be read: {error!r}."
            raise DamagedEntry(msg) from error
        sizes = [*trace.kept, *(size for result in trace.results for size in result.shape)]
        texts = [*trace.targets, *trace.effects, *(result.dtype for result in trace.results)]
        for place in (result.place for result in trace.results if result.place is not None):
            sizes += place.axes.sizes
            texts += [*place.axes.names, *place.axes.kinds, *named(place.spec)]
        if trace.mesh is not None:
            sizes += [*trace.mesh.sizes, *trace.mesh.devices]
            texts += trace.mesh.names
        if not all(type(size) is int and size >= 0 for size in sizes) or not all(type(text) is str for text in texts):
            msg = "A trace whose payload has values of wrong types."
            raise DamagedEntry(msg)
        return trace


def _result(shape: list[int], dtype: str, is_weak: bool, place: list[Any] | None = None) -> Result:  # noqa: FBT001
    if place is None:
        return Result(tuple(shape), dtype, is_weak)
    axes, spec = place
    parts = (tuple(part) if isinstance(part, list) else part for part in spec)
    return Result(tuple(shape), dtype, is_weak, Place(Axes(*map(tuple, axes)), tuple(parts)))


def has_executable(root: Root, executable: str) -> bool:
    """Whether a root has what JAX's cache has under a key."""
    return os.path.lexists(root.place(Kind.EXECUTABLES, storable(executable)))


def program_key(trace: EnvelopeHeader, of: str) -> str:
    """The key of a trace's program of a signature, or of what says which executable there is for a device.

    A trace that takes the place of another one of its key has none of that one's programs.
    """
    digest = hashlib.sha256(f"{trace.key}\n{version_of(trace)}\n{of}".encode()).hexdigest()
    return storable(f"{name_of(trace.key)}{_PROGRAM}-{digest}")


def content_of(trace: Trace, program: str, signature: str) -> str:
    """Return the digest by which traces of a call are compared: of the result, and of a program and its signature."""
    return hashlib.sha256(b"\n".join([trace.payload(), program.encode(), signature.encode()])).hexdigest()[:32]


def seal_entry(
    payload: bytes,
    key: str,
    *,
    parts: Mapping[str, str],
    parents: tuple[str, ...],
    producers: Mapping[str, str],
    seconds: float = 0.0,
) -> bytes:
    """Return the entry of a trace, or of a program of one, that took some seconds to make."""
    return seal(
        payload,
        kind=TRACES,
        name=name_of(key),
        key=key,
        key_parts=dict(parts),
        producers=dict(producers),
        build_seconds=seconds,
        created_ns=clock.now_ns(),
        parents=parents,
        codec=Codec.ZSTD,
    )
