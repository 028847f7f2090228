"""The files of the modules that are loaded: the user's by their content, installed ones only where they were edited."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jcache import clock, input_files
from jcache.fingerprint.origins import STDLIB, of_path
from jcache.package import OWN_FILES
from jcache.runtime.worlds.digests import Digests, Row, short, variables_in
from jcache.runtime.worlds.distributions import Distributions

_INSTALLED: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_TICK_NS: Final = 20_000_000  # the kernel tells when a process began to 10 ms, and Python needs longer to begin


class Sources:
    """The files of this process's modules."""

    def __init__(self) -> None:
        self._modules: dict[str, object] = {}
        self._files: dict[str, str] = {}  # by path, what is said of the user's files
        self._installed: dict[str, str | None] = {}  # by path, the digest of what was edited
        self._edited: dict[str, str] = {}  # the same by label
        self._first: dict[str, tuple[tuple[int, ...], Row]] = {}
        self._executed = 0  # how many of the executed files were looked at
        self.packages: set[str] = set()  # the names of the loaded packages

    def take(
        self, distributions: Distributions, digests: Digests, top: str
    ) -> tuple[dict[str, str], set[str], str | None]:
        """Return the components, the names of variables in the sources, and why the sources are not known, or None.

        Args:
            distributions: the installed distributions, which have been looked up.
            digests: the remembered digests.
            top: the directory of the program.
        """
        for name, module in sys.modules.copy().items():
            if self._modules.get(name) is not module:
                self._modules[name] = module
                self.add(name, file_of(module), distributions, digests, top)
        executed = input_files.executed()
        for path in executed[self._executed :]:
            self.add(path, path, distributions, digests, top)
        self._executed = len(executed)
        found = dict(self._edited)
        variables: set[str] = set()
        reason = None
        for path, label in self._files.items():
            row, is_sure = self._row(path, digests)
            if not is_sure:
                reason = f"{label.partition(' ')[2]} was changed while the program ran"
            if row:
                found[label] = row[0]
                variables.update(row[1:])
        return found, variables, reason

    def add(self, name: str, path: str | None, distributions: Distributions, digests: Digests, top: str) -> None:
        """Add the file of a module, loaded or not, or any file that was executed, under its path as its name."""
        if path != name:
            self.packages.add(name.partition(".")[0])
        if path is None or path in self._installed or path in self._files or path.startswith(OWN_FILES):
            return
        installed_ns = distributions.installed_ns(path)
        if installed_ns is not None:
            digest = self._installed[path] = _if_edited(path, installed_ns, digests)
            if digest is not None:
                self._edited[f"edited {distributions.inner(path)}"] = digest
            return
        if not _INSTALLED.search(path) and of_path(path) == STDLIB:
            return
        is_below = path.startswith(os.path.join(top, ""))
        self._files[path] = f"source {os.path.relpath(path, top) if is_below else name}"

    def has(self, path: str) -> bool:
        """Return whether a file was added: it is the user's or a distribution's."""
        return path in self._files or path in self._installed

    def digest(self, path: str, digests: Digests) -> str | None:
        """Return the digest of a file that was added; None if it is a distribution's, unedited."""
        if path in self._installed:
            return self._installed[path]
        return self._row(path, digests)[0][0] if path in self._files else None

    def _row(self, path: str, digests: Digests) -> tuple[Row, bool]:
        """Return what is known of a file of the user's, and whether it is what was loaded."""
        path = _existing(path)
        try:
            status = os.stat(path)
            row = digests.of(path, status, _of_source)
        except OSError:
            return (self._first[path][1] if path in self._first else []), path in self._first
        ids = status.st_ino, status.st_size, status.st_mtime_ns
        first = self._first.setdefault(path, (ids, row))
        return row, first[0] == ids and status.st_mtime_ns <= clock.began_ns() + _TICK_NS


def _if_edited(path: str, installed_ns: int, digests: Digests) -> str | None:
    """Return the digest of a distribution's file that was changed after it was installed, None for others."""
    try:
        status = os.stat(path)
        return digests.of(path, status, _of_source)[0] if status.st_mtime_ns > installed_ns else None
    except OSError:
        return None


def file_of(module: object) -> str | None:
    """Return the absolute path of a module's file, or None; a module that loads lazily is left as it is."""
    try:
        namespace: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
        file = namespace.get("__file__")
    except Exception:  # noqa: BLE001  programs put anything among the modules
        return None
    if not isinstance(file, str) or not file:
        return None
    return file if file[0] == os.sep else os.path.abspath(file)


def imported_since(names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Return name and file of each module that was imported since there were only some."""
    for name, module in sys.modules.copy().items():
        if name not in names and (path := file_of(module)) is not None:
            yield name, path


def _existing(path: str) -> str:
    """Return the path, or of a file within an archive the path of the archive."""
    while path and not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _of_source(path: str) -> Row:
    """Return the digest of a file, without a first line that names the interpreter, and the variables it names."""
    if os.path.isdir(path):
        raise IsADirectoryError(path)
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"#!":
        data = data.partition(b"\n")[2]
    return [short(data), *(sorted(variables_in(data)) if path.endswith(".py") else ())]
