"""The bytes of traces: two kinds of entries, in sealed envelopes.

A **trace** describes what a function returns for arguments of certain types. Its key parts are what it was made from,
with ``content``, the digest by which traces are compared, and ``side effects``, the names of what tracing it has
counted or filled, if it has, see `jcache.fingerprint.side_effects`.
Its payload is canonical JSON::

    {"kept":[int],                  the numbers of the flat arguments that its executables take
     "results":[[[int],str,bool]],  the shape, dtype and weakness of each flat result; if the type names a mesh, also
                                    [[[str],[int],[str]],[null|str|[str]]]: the names, sizes and kinds of the mesh's
                                    axes, and for each dimension the axes along which it is divided
     "structure":[…],               the structure of the result, see `jcache.traces.structures`
     "targets":[str],               the targets of the custom calls in its programs
     "mesh":[[str],[int],[int]],    the mesh that its program names itself, see `jcache.jax_internals.meshes`, or null
     "callbacks":{…},               the recipes of its callbacks, if it has any, see `jcache.traces.callbacks`
     "objects":{…},                 the recipes of objects in the structure, if it has any, likewise
     "effects":[str],               JAX's names of its effects, if it has any
     "settings":[[str,int,…]]}      the attributes and variables that tracing sets, with their values, if it sets any,
                                    see `jcache.fingerprint.settings`

A **program** is the StableHLO of a trace for one placement and donation of the arguments; its parent is the trace. Its
payload is a portable artifact. Its key parts are:

    trace       when the trace was made, since another trace may have had the same key before
    text        the SHA-256 of the StableHLO as text, which a later trace is compared with
    signature   the digest of the program's signature
    device      the digest of everything besides the trace that an executable depends on
    executable  the executable's key in JAX's cache
    recipe      the recipe of its compilation, see `jcache.jax_internals.compile_recipe`

For each further device of a signature there is an entry without a payload, which names the executable only.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jcache import clock
from jcache.errors import DamagedEntry
from jcache.fingerprint import settings
from jcache.formats.envelope import Codec, EnvelopeHeader, seal
from jcache.jax_internals.avals import Axes, Place, Result, named
from jcache.jax_internals.meshes import Mesh
from jcache.layout import Kind, Root, name_of, storable
from jcache.runtime.build_context import producers
from jcache.store.lineage import version_of

TRACES: Final = Kind.TRACES
_MAY_LACK: Final = frozenset({"callbacks", "effects", "objects", "settings"})
_PROGRAM: Final = ".stablehlo"


class Trace(NamedTuple):
    """A trace; the fields are those of its payload.

    Attributes:
        kept: the numbers of the flat arguments that its executables take.
        results: the types of the flat results.
        structure: the structure of the result as JSON.
        targets: the targets of the custom calls in its programs.
        mesh: the mesh that its program names itself; None if it names none.
        callbacks: the recipes of its callbacks on the host; None if it has none.
        effects: the names of its effects.
        objects: the recipes of objects in the structure; None if it has none.
        settings: the names and values of what tracing sets.
    """

    kept: tuple[int, ...]
    results: tuple[Result, ...]
    structure: list[Any]
    targets: tuple[str, ...]
    mesh: Mesh | None = None
    callbacks: Any = None
    effects: tuple[str, ...] = ()
    objects: Any = None
    settings: Any = None

    def payload(self) -> bytes:
        """Return the payload of its entry."""
        results = [result[:3] if result.place is None else result for result in self.results]
        fields = self._asdict() | {"results": results}
        fields = {name: value for name, value in fields.items() if value or name not in _MAY_LACK}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def of(cls, payload: memoryview) -> Trace:
        """Return the trace of a payload.

        Raises:
            DamagedEntry: the payload does not follow the grammar.
        """
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
                objects=read.get("objects"),
                settings=settings.checked(read.get("settings")),
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
    """Return whether a root has the executable with a key of JAX's cache."""
    return os.path.lexists(root.place(Kind.EXECUTABLES, storable(executable)))


def program_key(trace: EnvelopeHeader, of: str) -> str:
    """Return the key of a program, which differs for every trace that has had the same key.

    Args:
        trace: the header of the trace.
        of: the signature of the program; for the entry of a further device, its device digest.
    """
    digest = hashlib.sha256(f"{trace.key}\n{version_of(trace)}\n{of}".encode()).hexdigest()
    return storable(f"{name_of(trace.key)}{_PROGRAM}-{digest}")


def content_of(trace: Trace, program: str, signature: str) -> str:
    """Return the digest by which the traces of a call are compared.

    Args:
        trace: the trace.
        program: the SHA-256 of its program's text.
        signature: the signature of its program.
    """
    return hashlib.sha256(b"\n".join([trace.payload(), program.encode(), signature.encode()])).hexdigest()[:32]


def seal_entry(
    payload: bytes,
    key: str,
    *,
    parts: Mapping[str, str],
    parents: tuple[str, ...],
    seconds: float = 0.0,
) -> bytes:
    """Return the bytes of an entry, in a sealed envelope.

    Args:
        payload: the payload of a trace or a program.
        key: the key.
        parts: the key parts.
        parents: the keys of the entries that it depends on.
        seconds: the build time.
    """
    return seal(
        payload,
        kind=TRACES,
        name=name_of(key),
        key=key,
        key_parts=dict(parts),
        producers=producers(),
        build_seconds=seconds,
        created_ns=clock.now_ns(),
        parents=parents,
        codec=Codec.ZSTD,
    )
