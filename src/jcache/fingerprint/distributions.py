"""The installed distributions that a result depends on.

Those that the code names, and all that they require, are known before it runs, and are parts of the key. They may use
others: a package may import one that it does not require, or that it requires for an extra, or find it by an entry
point. So the content of every distribution that is loaded when the result is there is stored with the result, and
compared before it is served. The key has none of that: a process that is served need not load them.
"""

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from jcache.fingerprint.describe import shortened
from jcache.fingerprint.distribution_content import (
    content,
    is_local,
    is_recorded,
    metadata_in,
    normalised,
    places,
    record,
)
from jcache.fingerprint.encoding import sha256, text
from jcache.fingerprint.origins import Origin
from jcache.package import OWN_FILES

LOADED: Final = "loaded distribution "
"""How the labels of those begin that were loaded when a result was there."""
_REQUIRED: Final = "distribution "
_ABSENT: Final = "absent"
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(.*)")
_FIELDS: Final = ("Version:", "Requires-Dist:")
_TOP: Final = re.compile(rb'\n"?([^/,\n]+)')


class Distribution(NamedTuple):
    """An installed distribution.

    Attributes:
        version: as its metadata say.
        requires: the names of those that it requires without being asked for an extra.
        directory: of `sys.path` in which its metadata lie.
        metadata: their directory.
    """

    version: str
    requires: list[str]
    directory: str
    metadata: str


class Installed(NamedTuple):
    """The distributions that are installed in a directory.

    Attributes:
        by_top: their names, by the names of the modules and packages that they have there.
        by_places: the places of those whose files no record tells, by their names.
        local: the names of those that were installed from a directory or a file of this host.
    """

    by_top: Mapping[str, list[str]]
    by_places: Mapping[str, tuple[str, ...]]
    local: frozenset[str]


@lru_cache(maxsize=4096)
def in_words(name: str) -> str:
    """The version of a distribution and a digest of it and of its content."""
    found = _distribution(name)
    return _ABSENT if found is None else f"{found.version} {shortened(sha256(_encoded(name)))}"


def loaded(parts: Collection[str], read: Iterable[Origin] = ()) -> dict[str, str]:
    """The distributions that a result may depend on besides those in its key, in words by their labels.

    Args:
        parts: the labels of the parts of its key.
        read: where files come from that were read while it was made.
    """
    tops = set(read)
    known = [_installed(directory).by_top for directory in dict.fromkeys(sys.path)]
    names = {name for each in known for top in tops for name in each.get(top, ())} | _names_loaded()
    return {LOADED + name: in_words(name) for name in sorted(names) if _REQUIRED + name not in parts}


def loaded_now(then: Iterable[str]) -> dict[str, str]:
    """Those of some labels that are of loaded distributions, with what is installed now; nothing is imported for it."""
    return {label: in_words(label.removeprefix(LOADED)) for label in then if label.startswith(LOADED)}


def is_loaded_since(origin: Origin, then: Collection[str]) -> bool:
    """Whether a library is loaded now and was not when a result with these labels was there, which is then known."""
    names = set(origin.split())
    labels = {prefix + name for prefix in (LOADED, _REQUIRED) for name in names}
    return bool(names) and names <= _names_loaded() and labels.isdisjoint(then)


@lru_cache(maxsize=4096)
def _encoded(name: str) -> bytes:
    found = _distribution(name)
    return b"" if found is None else text(found.version) + content(found.directory, found.metadata)


@lru_cache(maxsize=4096)
def _distribution(name: str) -> Distribution | None:
    for directory in sys.path:
        folder = metadata_in(directory).get(name)
        if folder is None:
            continue
        metadata = os.path.join(directory, folder)
        for file in ("METADATA", "PKG-INFO", ""):  # or a file by itself, as Debian has them
            try:
                with open(os.path.join(metadata, file) if file else metadata, "rb") as lines:
                    return Distribution(*_headers(lines.read().replace(b"\r\n", b"\n")), directory, metadata)
            except OSError:
                continue
    return None


def _headers(data: bytes) -> tuple[str, list[str]]:
    version, requires = "unknown", []
    head = data.partition(b"\n\n")[0].decode(errors="replace")  # a line of blanks belongs to a licence
    for field, _, value in (line.partition(":") for line in head.split("\n") if line.startswith(_FIELDS)):
        if field == "Version":
            version = value.strip()
        else:
            match = _REQUIREMENT.match(value.strip())
            if match and "extra" not in match[2].partition(";")[2]:
                requires.append(normalised(match[1]))
    return version, requires


# -- what is loaded


def _names_loaded() -> frozenset[str]:
    """The names of the distributions of all modules that are loaded, but for jcache's own."""
    return _names_of_modules(len(sys.modules), next(reversed(sys.modules), ""))


@lru_cache(maxsize=1)
def _names_of_modules(count: int, last: str) -> frozenset[str]:
    files = [file for module in list(sys.modules.values()) for file in _files_of(module)]
    tops: dict[str, set[str]] = {}
    others = set()
    for file in files:
        above, packages, inner = file.rpartition(f"-packages{os.sep}")
        if packages:
            tops.setdefault(f"{above}-packages", set()).add(inner.partition(os.sep)[0])
        else:
            others.add(file)
    found = {
        name for directory, names in tops.items() for top in names for name in _installed(directory).by_top.get(top, ())
    }
    here = [_installed(directory) for directory in dict.fromkeys(sys.path)]
    if any(found & each.local for each in here):  # one's own, which may use what is being worked on beside it
        found.update(_having(here, [*others, *files]))
    return frozenset(found)


def _having(here: Iterable[Installed], files: Collection[str]) -> Iterator[str]:
    """The distributions without a record that have any of some files."""
    for each in here:
        for name, of in each.by_places.items():
            if any(file == place or file.startswith(os.path.join(place, "")) for place in of for file in files):
                yield name


def _files_of(module: object) -> list[str]:
    """The file of a module, or the directories of a package that has none; one that loads lazily is left as it is."""
    try:
        namespace = object.__getattribute__(module, "__dict__")
        file = namespace.get("__file__")
        if file is None:
            return [os.path.join(str(place), "") for place in namespace.get("__path__") or ()]
    except Exception:  # noqa: BLE001  programs put anything among the modules
        return []
    return [file] if isinstance(file, str) and not file.startswith(OWN_FILES) else []


@lru_cache(maxsize=64)
def _installed(directory: str) -> Installed:
    by_top: dict[str, list[str]] = {}
    by_places: dict[str, tuple[str, ...]] = {}
    local = set()
    for name, folder in metadata_in(directory).items():
        metadata = os.path.join(directory, folder)
        if not is_recorded(metadata):
            by_places[name] = tuple(places(directory, metadata))
            continue
        for top in set(_TOP.findall(record(metadata))):
            by_top.setdefault(os.fsdecode(top), []).append(name)
        if is_local(metadata):
            local.add(name)
    return Installed(by_top, by_places, frozenset(local))
