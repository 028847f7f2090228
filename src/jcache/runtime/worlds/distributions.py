"""The installed distributions by their content, and the files of theirs that were edited after they were installed.

The ``RECORD`` of a distribution has a digest for each of its files
(https://packaging.python.org/en/latest/specifications/recording-installed-packages/). Rows of bytecode, of the
metadata and of scripts, whose first line has the environment's path, are left out, so that two hosts agree.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from jcache.runtime.worlds.digests import Digests, Row, short

_SCRIPTS: Final = re.compile(rb"(?:\.\./)+(?:bin|Scripts)/")
_METADATA: Final = (".dist-info", ".egg-info")
_FILES: Final = ("RECORD", "METADATA", "PKG-INFO", "")  # or the metadata are a file, as Debian has them
_DASHES: Final = re.compile(r"[-_.]+")
_OURS: Final = "jcache-jax"


class _Directory(NamedTuple):
    """A directory of `sys.path` with distributions.

    Attributes:
        changed_ns: when it was changed.
        contents: version and digest of each distribution, by name.
        newest_ns: when the latest of the distributions with a file or package was installed, by its name.
    """

    changed_ns: int
    contents: dict[str, str]
    newest_ns: dict[str, int]


class Distributions:
    """The distributions on `sys.path`."""

    def __init__(self) -> None:
        self._directories: dict[str, _Directory | None] = {}
        self._installed_ns: dict[str, int] = {}  # by the directory of files of one distribution

    def contents(self, path: list[str], digests: Digests) -> dict[str, str]:
        """Return version and digest of each distribution by its name; the first on the path counts.

        Args:
            path: `sys.path`.
            digests: the remembered digests.
        """
        found: dict[str, str] = {}
        for place in dict.fromkeys(os.path.abspath(each or ".") for each in path):
            directory = self._look(place, digests)
            if directory is not None:
                found = {**directory.contents, **found}
        found.pop(_OURS, None)
        return found

    def installed_ns(self, path: str) -> int | None:
        """Return when the distribution of a file was installed; None for a file of no distribution."""
        parent = path.rpartition(os.sep)[0]
        if (known_ns := self._installed_ns.get(parent)) is not None:
            return known_ns
        for place, directory in self._directories.items():
            if directory is not None and path.startswith(place + os.sep):
                top, below, _ = path[len(place) + 1 :].partition(os.sep)
                if (newest_ns := directory.newest_ns.get(top)) is not None:
                    if below:
                        self._installed_ns[parent] = newest_ns
                    return newest_ns
        return None

    def inner(self, path: str) -> str:
        """Return the path of a file of a distribution from the directory where it is installed."""
        places = [place for place, directory in self._directories.items() if directory is not None]
        return next((path[len(place) + 1 :] for place in places if path.startswith(place + os.sep)), path)

    def _look(self, place: str, digests: Digests) -> _Directory | None:
        try:
            changed_ns = os.stat(place).st_mtime_ns
            known = self._directories.get(place)
            if known is None or known.changed_ns != changed_ns:
                self._installed_ns.clear()
                names = sorted(name for name in os.listdir(place) if name.endswith(_METADATA))
                self._directories[place] = _read(place, names, changed_ns, digests) if names else None
        except OSError:
            self._installed_ns.clear()
            self._directories[place] = None
        return self._directories[place]


def _read(place: str, names: list[str], changed_ns: int, digests: Digests) -> _Directory:
    newest_ns: dict[str, int] = {}
    found = _Directory(changed_ns, {}, newest_ns)
    for name in names:
        for file in _FILES:
            path = f"{place}{os.sep}{name}{os.sep}{file}" if file else f"{place}{os.sep}{name}"
            try:
                status = os.stat(path)
                digest, *tops = digests.of(path, status, _of_record if file == "RECORD" else _of_metadata)
            except OSError:
                continue
            project, _, version = name.rpartition(".")[0].partition("-")
            found.contents.setdefault(_DASHES.sub("-", project).lower(), f"{version} {digest}")
            installed_ns = status.st_mtime_ns
            for top in tops:
                if newest_ns.setdefault(top, installed_ns) < installed_ns:
                    newest_ns[top] = installed_ns
            break
    return found


def _of_record(path: str) -> Row:
    with open(path, "rb") as file:
        rows = file.read().replace(b"\r\n", b"\n").split(b"\n")
    own = os.fsencode(os.path.basename(os.path.dirname(path))) + b"/"
    told = [row for row in rows if b",sha256=" in row and b".pyc," not in row and not row.startswith(own)]
    told = [row for row in told if not (row[:3] == b"../" and _SCRIPTS.match(row))]
    tops = {row.partition(b",")[0].strip(b'"').partition(b"/")[0] for row in rows if row and row[:3] != b"../"}
    return [short(b"\n".join(sorted(told))), *sorted(map(os.fsdecode, tops))]


def _of_metadata(path: str) -> Row:
    """Of metadata without a record: only the names of the packages are known."""
    with open(path, "rb") as file:
        digest = short(file.read())
    name = os.path.basename(path if path.endswith(_METADATA) else os.path.dirname(path)).partition("-")[0]
    try:
        with open(os.path.join(os.path.dirname(path), "top_level.txt"), encoding="utf-8") as lines:
            tops = lines.read().split()
    except (OSError, ValueError):
        tops = [name]
    return [digest, *sorted({each for top in tops for each in (top, f"{top}.py")})]
