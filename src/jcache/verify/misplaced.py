"""Find executables whose keys depend on another directory than the one that they lie in: JAX never hits them there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.errors import DamagedEntry
from jcache.frozen import Frozen
from jcache.layout import ENTRY_SUFFIX
from jcache.store import files, ledger_contents
from jcache.verify.path_keys import MAX_SAMPLED_BYTES, PORTABLE_ORIGINS, directory_in_key, leads_to, parse_maker

if TYPE_CHECKING:
    from jcache.store.listing import Listing
    from jcache.store.store import Store


class MisplacedExecutables(NamedTuple):
    """Executables whose keys depend on another directory than the one that they lie in.

    Attributes:
        directories: number of executables by the directory in their keys, the most frequent first.
        looked_at: number of executables whose directory is known.
        xla_caches: setting of XLA's caches by directory, where it is not JAX's default.
    """

    directories: Mapping[str, int]
    looked_at: int
    xla_caches: Mapping[str, str] = Frozen({})


NONE_MISPLACED: Final = MisplacedExecutables(Frozen({}), 0)


def find_misplaced(store: Store, listing: Listing, *, sample: int = 1) -> MisplacedExecutables:
    """Find executables whose keys depend on another directory, by the ledger or a sample of small entries.

    Args:
        store: store of the root.
        listing: listing of its executables.
        sample: number of entries to read if the ledger knows the directory of none.
    """
    if not len(listing):
        return NONE_MISPLACED
    directory = str(listing.directory)
    ledger, attempt = store.ledger, store.queue.attempt
    texts = attempt(lambda: ledger_contents.makers(ledger)) or {}
    parsed = {number: parse_maker(text) for number, text in texts.items()}
    makers = {number: maker for number, maker in parsed.items() if maker is not None}
    if not makers:
        return _find_in_sample(listing, directory, sample)
    foreign = [number for number, maker in makers.items() if _other_directory(maker, directory) is not None]
    rows = (attempt(lambda: ledger_contents.made_by(ledger, foreign)) or []) if foreign else []
    present = set(listing.columns.keys) if rows else set()
    found: Counter[str] = Counter()
    caches: dict[str, str] = {}
    for key, jaxlib, origin, number in rows:
        path = _other_directory(makers[number], directory, jaxlib, portable=origin in PORTABLE_ORIGINS)
        if key in present and path is not None:
            found[path] += 1
            caches |= _xla_caches_by_directory(path, makers[number])
    looked_into = (attempt(lambda: ledger_contents.looked_into(ledger)) or set()) if found else set()
    return MisplacedExecutables(Frozen(dict(found.most_common())), len(present & looked_into), Frozen(caches))


def _other_directory(maker: Any, directory: str, jaxlib: str | None = None, *, portable: bool = False) -> str | None:  # noqa: ANN401
    """Return the other directory that the keys of a maker's executables depend on; None if there is none."""
    options = maker.get("xla_options")
    numbers_ = None if options is None else int(options, 16)
    caches = maker.get("xla_caches")
    path = directory_in_key(maker.get("cache_path"), jaxlib, numbers_, portable=portable, xla_caches=caches)
    return None if path is None or path == directory or leads_to(path, directory) else path


def _find_in_sample(listing: Listing, directory: str, sample: int) -> MisplacedExecutables:
    from jcache.formats.inspection import inspect

    found: Counter[str] = Counter()
    caches: dict[str, str] = {}
    looked_at = 0
    columns = listing.columns
    small = (key for key, size in zip(columns.keys, columns.sizes, strict=True) if size <= MAX_SAMPLED_BYTES)
    for key in islice(small, sample):
        with suppress(DamagedEntry, OSError):
            inside = inspect(files.read(listing.directory / (key + ENTRY_SUFFIX)))
            options = f"{inside.xla_options or 0:x}"
            maker = {"cache_path": inside.cache_path, "xla_caches": inside.xla_caches, "xla_options": options}
            looked_at += 1
            path = _other_directory(maker, directory)
            if path is not None:
                found[path] += 1
                caches |= _xla_caches_by_directory(path, maker)
    return MisplacedExecutables(Frozen(dict(found.most_common())), looked_at, Frozen(caches))


def _xla_caches_by_directory(path: str, maker: Mapping[str, Any]) -> dict[str, str]:
    """Return the setting of XLA's caches by the directory, if it is not JAX's default."""
    setting = maker.get("xla_caches")
    return {} if setting is None else {path: setting}
