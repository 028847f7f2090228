"""What executables were made by and for, and whether their keys depend on a directory: for manifests.

An executable must be decompressed for that, 1 GB/s on a core. So it is remembered in the ledger by the digest of the
stored bytes, and a second look at known bytes costs their digest alone.
"""

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from jcache.errors import LedgerUnavailable
from jcache.formats.digest import digest
from jcache.formats.inspection import inspect
from jcache.shipping.archive.manifest import Host, Maker, Manifest
from jcache.store.ledger import Content, Known
from jcache.store.store import Store
from jcache.verify import path_keys

_CACHED_MAKERS: Final = 64  # makers that are remembered at once; a cache has a handful
_NVIDIA_DRIVER: Final = Path("/proc/driver/nvidia/gpus")


class Provenance(NamedTuple):
    """What an executable was made by and for.

    Attributes:
        maker: by and for what.
        codec: ``zstd`` or ``zlib``.
        portable: whether its key is known not to depend on the directory.
    """

    maker: Maker
    codec: str
    portable: bool


def of_bytes(data: bytes, known: Known | None = None) -> Provenance:
    """What an executable was made by and for.

    Args:
        data: the stored bytes.
        known: what the ledger knows of the entry.

    Raises:
        DamagedEntry: they cannot be decompressed.
    """
    return of_content(inspect_bytes(data), known)


def of_content(content: Content, known: Known | None) -> Provenance:
    """The same of what was read, or remembered, before."""
    return _provenance(content.maker, _recorded_jaxlib(known), content.codec, is_portable(known))


@lru_cache(maxsize=_CACHED_MAKERS)
def _provenance(maker: str, jaxlib: str | None, codec: str, portable: bool) -> Provenance:  # noqa: FBT001
    return Provenance((_parse_maker(maker) or Maker())._replace(jaxlib=jaxlib), codec, portable)


def is_portable(known: Known | None) -> bool:
    """Whether an entry was stored with portable keys.

    Those of `jcache run` name no cache directory at all where its own settings were in effect, so nothing need be
    known of them.
    """
    return known is not None and known.origin in path_keys.PORTABLE_ORIGINS


def key_directory(maker: Maker, *, portable: bool) -> str | None:
    """The directory that the keys of a maker's executables depend on, None for none."""
    options = None if maker.xla_options is None else int(maker.xla_options, 16)
    return path_keys.keyed_for(maker.cache_path, maker.jaxlib, options, portable=portable, xla_caches=maker.xla_caches)


def _recorded_jaxlib(known: Known | None) -> str | None:
    """The one version that is on record: a run of several environments records all of theirs."""
    return known.jaxlib if known is not None and known.jaxlib and "," not in known.jaxlib else None


def inspect_bytes(data: bytes, digest_: str | None = None) -> Content:
    """What the stored bytes of an executable tell of themselves.

    Args:
        data: the bytes.
        digest_: theirs, where it is known.

    Raises:
        DamagedEntry: they cannot be decompressed.
    """
    found = inspect(data)
    maker = Maker(
        platform=found.platform,
        cpu_name=found.cpu_name,
        cpu_features=found.cpu_features,
        compute_capability=found.compute_capability,
        abi_version=None if found.abi_version is None else tuple(sorted(found.abi_version.items())),
        cache_path=found.cache_path,
        xla_caches=found.xla_caches,
        xla_options=None if found.xla_options is None else f"{found.xla_options:x}",
    )
    return Content(digest_ or digest(data), found.codec.value, found.seconds, _maker_text(maker))


# -- remembering


def load_contents(store: Store) -> dict[str, Content]:
    """What is remembered of executables, by the digest of their bytes."""
    try:
        contents = store.ledger.contents()
    except LedgerUnavailable:  # whoever needs the ledger for more will say so
        return {}
    readable = {text: _parse_maker(text) is not None for text in {content.maker for content in contents.values()}}
    return {key: content for key, content in contents.items() if readable[content.maker]}


def save_contents(store: Store, news: Iterable[Content]) -> None:
    """Remembers what was read, or does not: it only saves time."""
    with suppress(LedgerUnavailable):
        store.ledger.record_contents(news)


def save_imported(store: Store, manifest: Manifest) -> None:
    """Remembers of executables that are there now what their manifest says."""
    texts = [_maker_text(maker) for maker in manifest.makers]
    news = [
        Content(item.digest, item.codec, int(item.seconds), texts[item.maker])
        for item in manifest.items
        if item.maker is not None and item.codec is not None and item.seconds is not None
    ]
    if news:
        store.flush()  # the ledger keeps this of entries alone that it knows
        save_contents(store, news)


def _maker_text(maker: Maker) -> str:
    """What is remembered of a maker: what the executable itself tells."""
    return path_keys.remembered(maker._replace(jaxlib=None, compression=None)._asdict())


@lru_cache(maxsize=_CACHED_MAKERS)
def _parse_maker(text: str) -> Maker | None:
    """The maker that a text of `inspect_bytes` means, None for that of another version."""
    told = path_keys.told_by(text)
    if told is None or not told.keys() <= set(Maker._fields):
        return None
    maker = Maker(**told)
    features, abi = maker.cpu_features, maker.abi_version
    return maker._replace(
        cpu_features=None if features is None else tuple(map(str, features)),
        abi_version=None if abi is None else tuple((str(name), str(value)) for name, value in abi),
    )


# -- the machine


def describe_host() -> Host:
    """The machine that we are on, as far as the system tells."""
    return Host(cpu=_cpu_model(), gpus=tuple(sorted(_gpu_models())))


def _cpu_model() -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, colon, value = line.partition(":")
            if colon and name.strip() == "model name":
                return value.strip() or None
    return platform.processor() or platform.machine() or None


def _gpu_models() -> list[str]:
    """Models of NVIDIA's GPUs, as the driver names them; one line each."""
    found = []
    with suppress(OSError, UnicodeDecodeError):
        for name in os.listdir(_NVIDIA_DRIVER):
            for line in (_NVIDIA_DRIVER / name / "information").read_text().splitlines():
                title, colon, value = line.partition(":")
                if colon and title.strip() == "Model":
                    found.append(value.strip())
    return found
