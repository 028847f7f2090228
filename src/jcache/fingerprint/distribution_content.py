"""The content of an installed distribution, as a digest.

A distribution is the content of its files, not its version: after an edit `pip install .` puts other files under the
same one. Its ``RECORD`` has a digest for each file
(https://packaging.python.org/en/latest/specifications/recording-installed-packages/). Scripts, whose first line holds
the environment's path, bytecode and the metadata are left out, so that two hosts agree. A file that is newer than the
record, or of another size, is read. Where no record has the digests (Debian's packages, editable installations), all
files are read.
"""

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import util
from typing import Final

from jcache.fingerprint.encoding import sha256

_SCRIPTS: Final = re.compile(rb"(?:\.\./)+(?:bin|Scripts)/")
_SOURCES: Final = (".py", ".so", ".pyd", ".dylib")
_NO_CONTENT: Final = (".pyc", ".egg-info")
_LARGE: Final = 32 << 20  # bytes of a file that is told by its size and time instead
_LARGE_DATA: Final = 1 << 20  # the same, for data of a distribution without a record


def content(directory: str, metadata: str) -> bytes:
    """A digest of the files of a distribution.

    Args:
        directory: in which it is installed.
        metadata: the path of its metadata.
    """
    rows = record(metadata)
    if not is_recorded(metadata):
        return sha256(b"\n".join(_rows_of(places(directory, metadata))))
    own = os.fsencode(os.path.basename(metadata)) + b"/"
    told = [row for row in rows.split(b"\n") if b",sha256=" in row and not row.startswith(own)]
    told = [row for row in told if b".pyc," not in row and not (row[:3] == b"../" and _SCRIPTS.match(row))]
    return sha256(b"\n".join(sorted(_as_they_are(told, directory, metadata))))


@lru_cache(maxsize=4096)
def is_recorded(metadata: str) -> bool:
    """Whether a record has the digests of the files of a distribution: it has one, and is not editable."""
    return os.path.exists(os.path.join(metadata, "RECORD")) and not _is_editable(metadata)


@lru_cache(maxsize=4096)
def is_local(metadata: str) -> bool:
    """Whether a distribution was installed from a directory or a file of this host, as one's own packages are.

    See https://packaging.python.org/en/latest/specifications/direct-url/; conda builds all of its packages so.
    """
    try:
        with open(os.path.join(metadata, "INSTALLER"), encoding="utf-8") as file:
            by_conda = file.read().strip() == "conda"
    except (OSError, ValueError):
        by_conda = False
    return not by_conda and str(_direct_url(metadata).get("url", "")).startswith("file:")


def places(directory: str, metadata: str) -> Iterator[str]:
    """The files and directories of a distribution whose files no record tells.

    Args:
        directory: in which it is installed.
        metadata: the path of its metadata.
    """
    rows = [os.fsdecode(row.partition(b",")[0]) for row in sorted(record(metadata).split(b"\n")) if row]
    if _is_editable(metadata):
        yield from _places_of_editable(directory, metadata, rows)
        return
    for row in rows:
        path = os.path.join(directory, row)
        yield from (each for each in (path, f"{path}.py") if os.path.exists(each))


def _as_they_are(rows: Iterable[bytes], directory: str, metadata: str) -> Iterator[bytes]:
    """The rows of a record; of files that were changed later, as they are now."""
    recorded_ns = os.stat(os.path.join(metadata, "RECORD")).st_mtime_ns
    base = os.fsencode(os.path.join(directory, ""))
    stat = os.stat
    for row in rows:
        path, _, told = row.partition(b",sha256=")
        if path[:1] == b'"':
            path = path[1:-1].replace(b'""', b'"')
        try:
            status = stat(base + path)
        except OSError:
            yield path
            continue
        if status.st_mtime_ns <= recorded_ns and told.endswith(b",%d" % status.st_size):
            yield row
        else:
            yield _row(os.fsdecode(base + path), row.partition(b",sha256=")[0])


def _direct_url(metadata: str) -> dict[str, object]:
    try:
        with open(os.path.join(metadata, "direct_url.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@lru_cache(maxsize=4096)
def _is_editable(metadata: str) -> bool:
    about = _direct_url(metadata).get("dir_info")
    return isinstance(about, dict) and bool(about.get("editable"))


def _places_of_editable(directory: str, metadata: str, rows: list[str]) -> Iterator[str]:
    """Where its packages are: those that it names, else those in the directories that it adds to `sys.path`."""
    tops: set[str] = set()
    with suppress(OSError), open(os.path.join(metadata, "top_level.txt"), encoding="utf-8") as file:
        tops.update(file.read().split())
    added = [] if tops else [each for row in rows if row.endswith(".pth") for each in _added_by(directory, row)]
    for place in added:
        yield from _packages_in(place)
    if not added:
        tops = tops or {os.path.basename(metadata).partition("-")[0]}
    for top in sorted(tops):
        try:
            spec = util.find_spec(top)
        except (ImportError, ValueError, AttributeError):
            continue
        if spec is not None:
            yield from spec.submodule_search_locations or ([spec.origin] if spec.origin else [])


def _added_by(directory: str, row: str) -> list[str]:
    """The directories that a ``.pth`` file adds to `sys.path`."""
    try:
        with open(os.path.join(directory, row), encoding="utf-8") as file:
            lines = [os.path.join(directory, line.strip()) for line in file if line.strip()]
    except (OSError, ValueError):
        return []
    return [line for line in lines if os.path.isdir(line)]


def _packages_in(directory: str) -> Iterator[str]:
    """The modules and packages in a directory, and what holds packages."""
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if name.endswith(_SOURCES):
            yield path
        elif name.isidentifier() and os.path.isdir(path):
            inner = ["", *os.listdir(path)]
            if any(os.path.exists(os.path.join(path, each, "__init__.py")) for each in inner):
                yield path


def _rows_of(found: Iterable[str]) -> Iterator[bytes]:
    """A row for each file below some places."""
    for place in found:
        if os.path.isfile(place):
            yield _row(place, os.fsencode(os.path.basename(place)))
        for directory, below, names in os.walk(place):
            below[:] = sorted(name for name in below if name[0] != "." and name != "__pycache__")
            below[:] = [name for name in below if not name.endswith(_NO_CONTENT)]
            for name in sorted(names):
                if name[0] != "." and not name.endswith(_NO_CONTENT):
                    path = os.path.join(directory, name)
                    large = _LARGE if name.endswith(_SOURCES) else _LARGE_DATA
                    yield _row(path, os.fsencode(os.path.relpath(path, place)), large)


def _row(path: str, name: bytes, large: int = _LARGE) -> bytes:
    """A file as a record has it."""
    try:
        status = os.stat(path)
        if status.st_size > large:
            return b"%s,mtime=%d,%d" % (name, status.st_mtime_ns, status.st_size)
        with open(path, "rb") as file:
            digest = base64.urlsafe_b64encode(hashlib.file_digest(file, "sha256").digest()).rstrip(b"=")
    except OSError:
        return name
    return b"%s,sha256=%s,%d" % (name, digest, status.st_size)


def normalised(name: str) -> str:
    """A distribution's name as all write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@lru_cache(maxsize=64)
def metadata_in(directory: str) -> dict[str, str]:
    """The metadata directories in a directory, by the names of the distributions."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return {}
    return {normalised(name.partition("-")[0]): name for name in names if name.endswith((".dist-info", ".egg-info"))}


@lru_cache(maxsize=512)
def record(metadata: str) -> bytes:
    """A line for each file that a distribution has installed."""
    for name in ("RECORD", "installed-files.txt", "top_level.txt"):
        try:
            with open(os.path.join(metadata, name), "rb") as file:
                return b"\n" + file.read().replace(b"\r\n", b"\n") + b"\n"
        except OSError:
            continue
    return b""
