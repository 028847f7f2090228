"""The provenance of executables for manifests: by and for what they were made, and whether keys contain a directory.

An executable must be decompressed to read it, at 1 GB/s on a core. So the ledger keeps it by the digest of the stored
bytes, and a second look at known bytes costs their digest alone.
"""

import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from jcache.errors import LedgerUnavailable
from jcache.formats.inspection import Inspection, inspect
from jcache.shipping.archive.manifest import Host, Maker, Manifest
from jcache.store import ledger_contents
from jcache.store.ledger import Known
from jcache.store.ledger_contents import Content
from jcache.store.store import Store
from jcache.verify import path_keys

_CACHED_MAKERS: Final = 64  # a cache has a handful of makers
_NVIDIA_DRIVER: Final = Path("/proc/driver/nvidia/gpus")


class Provenance(NamedTuple):
    """The provenance of an executable.

    Attributes:
        maker: maker of the executable.
        codec: ``zstd`` or ``zlib``.
        portable: whether its key is known not to depend on the directory.
    """

    maker: Maker
    codec: str
    portable: bool


def provenance_of_bytes(data: bytes, known: Known | None = None) -> Provenance:
    """Return the provenance of an executable.

    Args:
        data: the stored bytes.
        known: the entry's record in the ledger.

    Raises:
        DamagedEntry: the bytes cannot be decompressed.
    """
    return provenance_of_content(content_of(inspect(data), ""), known)


def provenance_of_content(content: Content, known: Known | None) -> Provenance:
    """Return the provenance of an executable whose content was read, now or before."""
    return _provenance(content.maker, _recorded_jaxlib(known), content.codec, is_portable(known))


@lru_cache(maxsize=_CACHED_MAKERS)
def _provenance(maker: str, jaxlib: str | None, codec: str, portable: bool) -> Provenance:  # noqa: FBT001
    return Provenance((_parse_maker(maker) or Maker())._replace(jaxlib=jaxlib), codec, portable)


def is_portable(known: Known | None) -> bool:
    """Return whether an entry is known to be stored with portable keys.

    Entries of `jcache run` name no cache directory at all where its own settings were in effect, so that no record of
    them is needed.
    """
    return known is not None and known.origin in path_keys.PORTABLE_ORIGINS


def key_directory(maker: Maker, *, portable: bool) -> str | None:
    """Return the directory that the keys of a maker's executables contain; None for none."""
    options = None if maker.xla_options is None else int(maker.xla_options, 16)
    return path_keys.directory_in_key(
        maker.cache_path, maker.jaxlib, options, portable=portable, xla_caches=maker.xla_caches
    )


def _recorded_jaxlib(known: Known | None) -> str | None:
    """Return the one version on record; a run of several environments records several, of which none counts."""
    return known.jaxlib if known is not None and known.jaxlib and "," not in known.jaxlib else None


def content_of(found: Inspection, digest: str) -> Content:
    """Return the ledger's record of the facts in an executable whose stored bytes have a digest."""
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
    return Content(digest, found.codec.value, found.seconds, _maker_text(maker))


# -- the ledger


def load_contents(store: Store) -> dict[str, Content]:
    """Return the contents of executables that the ledger knows, by the digest of their bytes."""
    try:
        contents = ledger_contents.contents(store.ledger)
    except LedgerUnavailable:  # callers that need the ledger for more report it
        return {}
    readable = {text: _parse_maker(text) is not None for text in {content.maker for content in contents.values()}}
    return {key: content for key, content in contents.items() if readable[content.maker]}


def save_contents(store: Store, news: Iterable[Content]) -> None:
    """Record the contents of executables in the ledger, if it can be written: they only save time."""
    with suppress(LedgerUnavailable):
        ledger_contents.record_contents(store.ledger, news)


def save_imported(store: Store, manifest: Manifest) -> None:
    """Record the contents that a manifest lists of executables that are in the root now."""
    texts = [_maker_text(maker) for maker in manifest.makers]
    news = [
        Content(item.digest, item.codec, int(item.seconds), texts[item.maker])
        for item in manifest.items
        if item.maker is not None and item.codec is not None and item.seconds is not None
    ]
    if news:
        store.queue.flush()  # the ledger keeps contents only of entries that it knows
        save_contents(store, news)


@lru_cache(maxsize=_CACHED_MAKERS)
def _maker_text(maker: Maker) -> str:
    """Return a maker as text for the ledger: only the fields that the executable itself contains."""
    return path_keys.maker_text(maker._replace(jaxlib=None, compression=None)._asdict())


@lru_cache(maxsize=_CACHED_MAKERS)
def _parse_maker(text: str) -> Maker | None:
    """Return the maker that a text of `_maker_text` stands for; None for a text of another version."""
    told = path_keys.parse_maker(text)
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
    """Return the machine of this process, as far as the system tells it."""
    return Host(cpu=_cpu_model(), gpus=tuple(sorted(_gpu_models())))


def _cpu_model() -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, colon, value = line.partition(":")
            if colon and name.strip() == "model name":
                return value.strip() or None
    return platform.processor() or platform.machine() or None


def _gpu_models() -> list[str]:
    """Return the models of NVIDIA's GPUs, as the driver names them."""
    found = []
    with suppress(OSError, UnicodeDecodeError):
        for name in os.listdir(_NVIDIA_DRIVER):
            for line in (_NVIDIA_DRIVER / name / "information").read_text().splitlines():
                title, colon, value = line.partition(":")
                if colon and title.strip() == "Model":
                    found.append(value.strip())
    return found
