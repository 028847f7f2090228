"""Installed distributions: their versions, and what their files hold.

A distribution is the content of its files, not its version: after an edit `pip install .` puts other files under the
same one. Its ``RECORD`` has a digest for each file
(https://packaging.python.org/en/latest/specifications/recording-installed-packages/). Scripts, whose first line holds
the environment's path, bytecode and the metadata are left out, so that two hosts agree.
"""

import base64
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

from jcache.fingerprint.encoding import sha256
from jcache.fingerprint.origins import Origin, metadata_in, normalised, record

_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9][\w.-]*)(.*)")
_FIELDS: Final = ("Version:", "Requires-Dist:")
_SCRIPTS: Final = re.compile(rb"(?:\.\./)+(?:bin|Scripts)/")
_SOURCES: Final = (".py", ".so", ".pyd", ".dylib")
_LARGE: Final = 32 << 20  # bytes of a file that is told by its size and time instead


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


def versions(origin: Origin) -> Mapping[str, str]:
    """The versions of distributions, and of all that they require and that is installed."""
    return {name: distribution.version for name, distribution in _needed(origin).items()}


@lru_cache(maxsize=4096)
def contents(name: str) -> bytes:
    """A digest of the files of an installed distribution; as they are now, where its record does not tell."""
    found = _distribution(name)
    if found is None:
        return b""
    rows = record(found.metadata)
    if _is_editable(found.metadata) or not os.path.exists(os.path.join(found.metadata, "RECORD")):
        return sha256(b"\n".join(_rows_of(_places(found, rows))))
    metadata = os.fsencode(os.path.basename(found.metadata)) + b"/"
    told = [row for row in rows.split(b"\n") if b",sha256=" in row and not row.startswith(metadata)]
    told = [row for row in told if b".pyc," not in row and not (row[:3] == b"../" and _SCRIPTS.match(row))]
    if newer := _newer(found, rows):
        now = {path: _row(os.path.join(found.directory, os.fsdecode(path)), path) for path in newer}
        told = [*(row for row in told if row.partition(b",")[0] not in now), *now.values()]
    return sha256(b"\n".join(sorted(told)))


@lru_cache(maxsize=4096)
def _needed(origin: Origin) -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    waiting = origin.split()
    while waiting:
        name = waiting.pop()
        if name not in found and (distribution := _distribution(name)) is not None:
            found[name] = distribution
            waiting.extend(distribution.requires)
    return dict(sorted(found.items()))


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
    version, required = "unknown", []
    head = data.partition(b"\n\n")[0].decode(errors="replace")  # a line of blanks belongs to a licence
    for field, _, value in (line.partition(":") for line in head.split("\n") if line.startswith(_FIELDS)):
        if field == "Version":
            version = value.strip()
        else:
            match = _REQUIREMENT.match(value.strip())
            if match and "extra" not in match[2].partition(";")[2]:
                required.append(normalised(match[1]))
    return version, required


# -- where the record does not tell


@lru_cache(maxsize=64)
def _loaded(directory: str) -> Mapping[bytes, list[tuple[bytes, int]]]:
    """The files below a directory that are loaded as modules, and when each was written last, by the first name."""
    prefix = os.path.join(directory, "")
    files: dict[bytes, list[tuple[bytes, int]]] = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.startswith(prefix):
            name = os.fsencode(path[len(prefix) :].replace(os.sep, "/"))
            with suppress(OSError):
                files.setdefault(name.partition(b"/")[0], []).append((name, os.stat(path).st_mtime_ns))
    return files


def _newer(of: Distribution, rows: bytes) -> list[bytes]:
    """The files of a distribution that are loaded, and newer than its record."""
    recorded_ns = os.stat(os.path.join(of.metadata, "RECORD")).st_mtime_ns
    tops = {row.partition(b"/")[0].partition(b",")[0] for row in rows.split(b"\n")}
    likely = [each for top, files in _loaded(of.directory).items() if top in tops for each in files]
    return [path for path, ns in likely if ns > recorded_ns and b"\n%s," % path in rows]


def _is_editable(metadata: str) -> bool:
    try:
        with open(os.path.join(metadata, "direct_url.json"), encoding="utf-8") as file:
            return bool(json.load(file).get("dir_info", {}).get("editable"))
    except (OSError, ValueError, AttributeError):
        return False


def _places(of: Distribution, rows: bytes) -> Iterator[str]:
    """The files and directories of a distribution that has no digests, or has those of another place."""
    if _is_editable(of.metadata):
        from importlib import util

        tops = {os.path.basename(of.metadata).partition("-")[0]}
        with suppress(OSError), open(os.path.join(of.metadata, "top_level.txt"), encoding="utf-8") as file:
            tops = set(file.read().split()) or tops
        for top in sorted(tops):
            try:
                spec = util.find_spec(top)
            except (ImportError, ValueError, AttributeError):
                continue
            if spec is not None:
                yield from spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
        return
    for row in sorted(rows.split(b"\n")):
        path = os.path.join(of.directory, os.fsdecode(row.partition(b",")[0]))
        if row:
            yield from (each for each in (path, f"{path}.py") if os.path.exists(each))


def _rows_of(places: Iterator[str]) -> Iterator[bytes]:
    """A row for each module below some places."""
    for place in places:
        if os.path.isfile(place):
            yield _row(place, os.fsencode(os.path.basename(place)))
        for directory, below, names in os.walk(place):
            below[:] = sorted(name for name in below if name != "__pycache__")
            for name in sorted(names):
                if name.endswith(_SOURCES):
                    path = os.path.join(directory, name)
                    yield _row(path, os.fsencode(os.path.relpath(path, place)))


def _row(path: str, name: bytes) -> bytes:
    """A file as a record has it."""
    try:
        status = os.stat(path)
        if status.st_size > _LARGE:
            return b"%s,mtime=%d,%d" % (name, status.st_mtime_ns, status.st_size)
        with open(path, "rb") as file:
            digest = base64.urlsafe_b64encode(hashlib.file_digest(file, "sha256").digest()).rstrip(b"=")
    except OSError:
        return name
    return b"%s,sha256=%s,%d" % (name, digest, status.st_size)
