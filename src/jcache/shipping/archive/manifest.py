"""The manifest of an archive as values: its entries, their makers, and the machine that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from jcache.layout import Kind
from jcache.shipping.archive.manifest_schema import Malformed, json_excerpt
from jcache.store import foreign

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

MAX_ENTRIES: Final = 400_000  # items and neighbours; twenty times the largest cache seen


class Maker(NamedTuple):
    """Software that compiled executables, and the hardware that it compiled them for. None stands for unknown values.

    Many executables share a maker.

    Attributes:
        platform: ``cpu``, ``cuda``, ``rocm``, ….
        jaxlib: the version that made them.
        cpu_name: LLVM's name of the CPU (with a GPU: the host's).
        cpu_features: LLVM's features of the CPU: ``+avx512f``, ``-sha512``, ….
        compute_capability: compute capability of the GPU, such as ``9.0`` or ``gfx942``.
        abi_version: pairs such as ``("toolkit", "13.0.0")``, sorted.
        cache_path: the cache directory that their compile options name; None if they name none.
        xla_caches: the caches of XLA that JAX kept there besides, ``all`` or the name of one; None for none.
        xla_options: numbers of XLA's options in them, as a bit set in hexadecimal; they differ between releases.
        compression: the word that JAX hashed for executables in zstd: ``zstandard``, or ``zlib`` with Python's zstd.
    """

    platform: str | None = None
    jaxlib: str | None = None
    cpu_name: str | None = None
    cpu_features: tuple[str, ...] | None = None
    compute_capability: str | None = None
    abi_version: tuple[tuple[str, str], ...] | None = None
    cache_path: str | None = None
    xla_caches: str | None = None
    xla_options: str | None = None
    compression: str | None = None


class Item(NamedTuple):
    """One entry of an archive.

    Attributes:
        kind, key: kind and key of the entry.
        bytes: number of stored bytes.
        digest: digest of the stored bytes (`jcache.formats.digest`).
        created_ns: modification time of its file, nanoseconds since 1970.
        recency_ns: time of its last use, nanoseconds since 1970.
        sidecar: whether it had a sidecar.
        pinned: whether it was pinned.
        seconds: build time in seconds, where known.
        origin: origin of the entry, as the ledger records it.
        parents: keys of the entries that it was made from (a trace's graph, an executable's trace).
        codec: codec of an executable, ``zstd`` or ``zlib``; None for others.
        portable: whether its key is known not to contain the directory, since it was stored with portable keys.
        maker: position in the manifest's table of makers; None for none.
    """

    kind: Kind
    key: str
    bytes: int
    digest: str
    created_ns: int
    recency_ns: int
    sidecar: bool = False
    pinned: bool = False
    seconds: float | None = None
    origin: str | None = None
    parents: tuple[str, ...] = ()
    codec: str | None = None
    portable: bool = False
    maker: int | None = None


class WorldLine(NamedTuple):
    """A line about the worlds in which traces and graphs were compared, see `jcache.shipping.archive.worlds`.

    Attributes:
        line: the line.
    """

    line: str


class XlaFile(NamedTuple):
    """One file of XLA's own sub-caches beside the executables.

    Attributes:
        path: relative to the executables' directory, such as ``xla_gpu_per_fusion_autotune_cache_dir/x.pb``.
        bytes, digest: as in `Item`.
    """

    path: str
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine that an archive was made on.

    Attributes:
        cpu: model of the CPU, as the system names it; None if it is unknown.
        gpus: models of its GPUs.
    """

    cpu: str | None = None
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of an archive, and where it comes from.

    Attributes:
        jcache: version that made the archive.
        root: path of the root.
        directory: path of its executables, as ``jax_compilation_cache_dir`` had it.
        layout: name of the adapter for another program's cache; None for a cache of JAX or jcache.
        jax, jaxlib: versions that were installed there, from the packages' metadata; None for none.
        host: the machine.
        solid: whether the entries were recompressed together.
        recompressors: names and versions of the libraries that must restore a solid archive's bytes, sorted.
        settings: settings that `jcache config` has stored in the root, as names and texts, sorted; by default none.
        makers: the table that the items' ``maker`` points into.
        items: the entries, sorted by kind and key.
        neighbours: files of XLA's sub-caches, sorted by path.
        worlds: in which worlds the traces and graphs were compared, sorted lines.
    """

    jcache: str
    root: str
    directory: str
    layout: str | None = None
    jax: str | None = None
    jaxlib: str | None = None
    host: Host = Host()
    solid: bool = False
    recompressors: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    makers: tuple[Maker, ...] = ()
    items: tuple[Item, ...] = ()
    neighbours: tuple[XlaFile, ...] = ()
    worlds: tuple[WorldLine, ...] = ()


def adapter_of(manifest: Manifest) -> Adapter | None:
    """Return the adapter for the manifest's items, if they are another program's; None if they are JAX's or jcache's.

    Raises:
        Malformed: there is no such adapter.
    """
    adapter = None if manifest.layout is None else foreign.named(manifest.layout)
    if adapter is None and manifest.layout is not None:
        raise Malformed(f"it is of {json_excerpt(manifest.layout)}, whose cache this jcache does not know")
    return adapter
