"""The manifest of an archive as values: its entries, what each entry was made by and for, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from jcache.layout import Kind
from jcache.shipping.archive.manifest_schema import Malformed, json_excerpt
from jcache.store import foreign

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

MAX_ENTRIES: Final = 400_000  # items and neighbours: twenty times the largest cache seen


class Maker(NamedTuple):
    """By and for what executables were made; many share one. None where it is not known.

    Attributes:
        platform: ``cpu``, ``cuda``, ``rocm``, ….
        jaxlib: version that made them.
        cpu_name: LLVM's name of the CPU (with a GPU: the host's).
        cpu_features: LLVM's features of the CPU: ``+avx512f``, ``-sha512``, ….
        compute_capability: of the GPU, such as ``9.0`` or ``gfx942``.
        abi_version: pairs such as ``("toolkit", "13.0.0")``, sorted.
        cache_path: the cache directory that the compile options name; None if they name none.
        xla_caches: those of XLA that JAX was told to have there besides, ``all`` or one by its name; None for none.
        xla_options: numbers of XLA's options in them, as a bit set in hexadecimal: every release of XLA has its own.
        compression: the word that JAX hashed for those in zstd: ``zstandard``, or ``zlib`` with Python's own zstd.
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
        kind, key: which entry.
        bytes: how many stored bytes it has.
        digest: of the stored bytes (`jcache.formats.digest`).
        created_ns: modification time of its file, nanoseconds since 1970.
        recency_ns: when it was last used.
        sidecar: whether it had a sidecar.
        pinned: whether prune had to keep it.
        seconds: what building it took, where known.
        origin: how it came into the root, as the ledger has it.
        parents: keys of what it was made from (a trace's graph, an executable's trace).
        codec: of an executable: ``zstd`` or ``zlib``.
        portable: whether its key is known not to depend on the directory: it was stored with portable keys.
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


class Neighbour(NamedTuple):
    """One file of XLA's own sub-caches, which lies beside the executables.

    Attributes:
        path: relative to the executables' directory, such as ``xla_gpu_per_fusion_autotune_cache_dir/x.pb``.
        bytes, digest: as of an entry.
    """

    path: str
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine that an archive was made on.

    Attributes:
        cpu: its model, as the system names it; None where it does not.
        gpus: models of its GPUs.
    """

    cpu: str | None = None
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What stands first in an archive.

    Attributes:
        jcache: version that made the archive.
        root: path of the root.
        directory: path of its executables, as ``jax_compilation_cache_dir`` has it.
        jax, jaxlib: versions installed where it was made (from the metadata), None if not there.
        host: where it was made.
        solid: whether the entries were recompressed together.
        recompressors: of a solid archive, names and versions of the libraries that must compress alike, sorted.
        makers: what the items' ``maker`` points into.
        items: the entries, sorted by kind and key.
        neighbours: files of XLA's sub-caches, sorted by path.
        layout: name of the adapter whose directory it is of; None for JAX's and jcache's own.
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
    makers: tuple[Maker, ...] = ()
    items: tuple[Item, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


def adapter_of(manifest: Manifest) -> Adapter | None:
    """Who knows the files of the manifest's items, if they are another program's.

    Raises:
        Malformed: nobody does.
    """
    adapter = None if manifest.layout is None else foreign.named(manifest.layout)
    if adapter is None and manifest.layout is not None:
        raise Malformed(f"it is of {json_excerpt(manifest.layout)}, whose cache this jcache does not know")
    return adapter
