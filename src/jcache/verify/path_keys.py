"""Find executables whose keys depend on the path of another directory than the one that they lie in.

JAX 0.4.36 to 0.10.2 hashes the value of ``jax_compilation_cache_dir`` into keys, unless
``JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES`` is ``none``. Later versions do so if that variable is ``all`` or includes
XLA's kernel cache. Such an entry is never hit after a copy to another path. The compile options in an entry name the
directory; later versions write it there, too, but do not hash it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.errors import DamagedEntry
from jcache.frozen import Frozen
from jcache.jax_internals.path_keys import SPELLINGS, in_keys
from jcache.layout import ENTRY_SUFFIX, Kind
from jcache.store import files, ledger_contents
from jcache.store.roots import VARIABLES

if TYPE_CHECKING:
    from jcache.store.listing import Listing
    from jcache.store.store import Store

Version = tuple[int, ...]

PORTABLE_ORIGINS: Final = frozenset({"program", "copy"})  # `jcache.enable()` stored or hit them under portable keys
JCACHE_ORIGINS: Final = PORTABLE_ORIGINS | {"run"}
_LAST_HASHED_OPTION: Final = 512  # XLA's last option in jaxlib 0.10.2; later versions have higher numbers
XLA_CACHES: Final = "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES"
_MAKER_VERSION: Final = 4  # incremented when inspections yield more facts
MAX_SAMPLED_BYTES: Final = 1 << 20  # larger entries are not read for a sample
_MAX_CANDIDATES: Final = 256  # entries whose origin is looked up in the ledger
SAMPLE_ENTRIES: Final = 8  # entries to read of these
_MAX_ENTRIES_READ: Final = 512  # entries to read for a definite answer
_MAX_SPELLINGS: Final = 4  # each costs 0.2 ms, for one more key, for every program that is not stored


def directory_in_key(
    cache_path: str | None,
    jaxlib: str | None,
    xla_options: int | None,
    *,
    portable: bool,
    xla_caches: str | None = None,
) -> str | None:
    """Return the directory that the key of an executable depends on; None if there is none.

    Args:
        cache_path: directory that the executable's options name.
        jaxlib: recorded version that compiled it; None if there is no record.
        xla_options: bits of the numbers of XLA's options (see `Inspection`), which show the version without a record.
        portable: whether it was stored with portable keys.
        xla_caches: setting of XLA's caches other than the default; with one, every version hashes their path.
    """
    if cache_path is None or portable:
        return None
    hashed = (xla_options or 0).bit_length() - 1 <= _LAST_HASHED_OPTION if jaxlib is None else in_keys(jaxlib)
    return cache_path if hashed or xla_caches is not None else None


def leads_to(path: str, directory: str | os.PathLike[str]) -> bool:
    """Return whether a path, relative or through links, leads to a directory; the directory need not exist."""
    try:
        return os.path.realpath(path) == os.path.realpath(directory)
    except (OSError, ValueError):  # the working directory is gone, or the text is no path
        return False


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


class PathInKeys(NamedTuple):
    """Path of a root's directory in the keys that JAX alone has stored there.

    Attributes:
        path: the path as the keys spell it: the root's own, if any key has it; None if no key with a path was found.
        xla_caches: settings of XLA's caches for these keys: several if entries differ, JAX's default "" first.
        is_known: whether enough entries were read to be sure.
    """

    path: str | None
    xla_caches: tuple[str, ...]
    is_known: bool


class Spellings(NamedTuple):
    """Strings by which keys of a root's executables may name its directory.

    Attributes:
        texts: values of ``jax_compilation_cache_dir`` that JAX may have hashed; a key is tried with each.
        seen: whether a key with one of them was found. Only a few entries are read, so others may have one.
    """

    texts: tuple[str, ...]
    seen: bool


def named_directories(environment: Mapping[str, str], *more: str | os.PathLike[str] | None) -> list[str]:
    """Return the paths of cache directories that the user has named.

    Args:
        environment: environment of the process, with the paths that `jcache run` was given.
        more: other paths; None and empty ones are left out.
    """
    texts = [*map(environment.get, VARIABLES), *environment.get(SPELLINGS, "").split("\n")]
    return [str(text) for text in (*more, *texts) if text]


def find_spellings(store: Store, named: Iterable[str] = ()) -> Spellings:
    """Return the strings that may stand for a root's directory of executables in the keys of its entries.

    These are its path, those of the named paths that lead to it, and paths that some of its entries contain.

    Args:
        store: store of the root.
        named: paths that the user has named.
    """
    directory = str(store.root.directory(Kind.EXECUTABLES))
    known = [directory, *(text for text in named if leads_to(text, directory))]
    entries = _entries_of_jax(store, directory, _MAX_CANDIDATES)
    found = [named[0] for named in _spellings_in_keys(directory, entries, SAMPLE_ENTRIES) if named is not None]
    several = dict.fromkeys(str(PurePath(text)) for text in (*known, *found))
    return Spellings(tuple(text for text in several if "\n" not in text)[:_MAX_SPELLINGS], bool(found))


def path_in_keys(store: Store) -> PathInKeys:
    """Return the path of a root's directory in the keys that JAX alone has stored there."""
    directory = str(store.root.directory(Kind.EXECUTABLES))
    theirs = _entries_of_jax(store, directory, None)
    named = list(_spellings_in_keys(directory, theirs, _MAX_ENTRIES_READ))
    found = [each for each in named if each is not None]
    path = directory if any(text == directory for text, _ in found) else next((text for text, _ in found), None)
    caches = sorted({used for text, used in found if text == path})
    return PathInKeys(path, tuple(caches), path == directory or len(named) == len(theirs))


def _entries_of_jax(store: Store, directory: str, most: int | None) -> list[tuple[int, str]]:
    """Return sizes and keys of entries that jcache has not stored according to the ledger, the smallest first."""
    sizes: dict[str, int] = {}
    with suppress(OSError), os.scandir(directory) as listing:
        items = (item for item in listing if item.name.endswith(ENTRY_SUFFIX))
        some = islice(items, most)
        sizes = {item.name.removesuffix(ENTRY_SUFFIX): item.stat(follow_symlinks=False).st_size for item in some}
    if not sizes:
        return []
    keys = None if most is None else list(sizes)
    known = store.queue.attempt(lambda: store.ledger.known(Kind.EXECUTABLES, keys)) or {}
    ours = {key for key, record in known.items() if record.origin in JCACHE_ORIGINS}
    return sorted((size, key) for key, size in sizes.items() if key not in ours)


def _spellings_in_keys(
    directory: str, entries: Sequence[tuple[int, str]], most: int
) -> Iterator[tuple[str, str] | None]:
    """Yield for each entry of a sample the string in its key that leads to the directory, and XLA's caches; or None.

    The sizes and keys begin with the smallest entry. At most `most` entries are read, none of more than 1 MiB.
    """
    small = [key for size, key in entries if size <= MAX_SAMPLED_BYTES]
    if not small:
        return
    from jcache.formats.inspection import inspect

    for key in small[:: -(-len(small) // most)]:
        named = None
        with suppress(DamagedEntry, OSError):
            inside = inspect(files.read(os.path.join(directory, key + ENTRY_SUFFIX)))
            path = directory_in_key(
                inside.cache_path, None, inside.xla_options, portable=False, xla_caches=inside.xla_caches
            )
            named = (path, inside.xla_caches or "") if path is not None and leads_to(path, directory) else None
        yield named


def maker_text(maker: Mapping[str, Any]) -> str:
    """Return the text by which the ledger records an executable's maker."""
    known = {name: value for name, value in maker.items() if value is not None}
    return json.dumps({"version": _MAKER_VERSION} | known, sort_keys=True)


def parse_maker(text: str) -> dict[str, Any] | None:
    """Return the maker that a text of `maker_text` stands for; None for a text of another version."""
    try:
        maker: dict[str, Any] = json.loads(text)
        return maker if maker.pop("version") == _MAKER_VERSION else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


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
