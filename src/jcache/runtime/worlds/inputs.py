"""Components of a world for the files that the program has read before the call, such as its configuration.

A text counts item by item: a JSON object by the paths of its values, another text by its lines, each under the name
before its first ``:`` or ``=``. So what is learnt about one setting, which is another one at each start, says nothing
of the others. Files that are no text, or too large for `jcache.input_files`, do not count.

    inputs                          the names of the files
    input FILE                      the names of its items, or the digest of a file with many
    input FILE: ITEM                the digest of an item
"""

# ruff: noqa: ANN401 - JSON has values of any type

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, Final

from jcache import input_files
from jcache.fingerprint import origins
from jcache.input_files import InputFile
from jcache.runtime.worlds.digests import Digests, Row, short

ALL: Final = "inputs"
INPUT: Final = "input "
_MOST_ITEMS: Final = 200  # of a file; one with more counts as a whole
_MOST_IN_ALL: Final = 1_000
_NAMED: Final = re.compile(r"""\s*["']?([\w.\-/]{1,80})["']?\s*[:=](?!//)""")
_VARYING: Final = re.compile(r"\d+|[0-9a-f]{8,}")  # in the names of files: numbers, dates, identifiers
_CHANGED: Final = ["", "changed since it was read"]
_IS_NO_TEXT: Final[Row] = []


class Inputs:
    """The input files of this process."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[InputFile, Row]] = {}

    def take(self, digests: Digests, top: str) -> dict[str, str]:
        """Return the components.

        Args:
            digests: the remembered digests.
            top: the directory of the program.
        """
        found: dict[str, str] = {}
        names = set()
        for path, file in input_files.files().items():
            name = _shown(path, file, top)
            row = self._row(path, file, digests) if name is not None else _IS_NO_TEXT
            if not row:
                continue
            names.add(_VARYING.sub("#", str(name)))
            whole, structure, *items = row
            is_apart = bool(items) and len(found) + len(items) // 2 <= _MOST_IN_ALL
            found[f"{INPUT}{name}"] = structure if is_apart else whole or structure
            if is_apart:
                found |= {
                    f"{INPUT}{name}: {item}": digest for item, digest in zip(items[::2], items[1::2], strict=True)
                }
        return found | {ALL: short("\n".join(sorted(names)).encode())} if names else found

    def _row(self, path: str, file: InputFile, digests: Digests) -> Row:
        """Return what is known of a file as it was read: digest, digest of its items' names, each with its digest."""
        known = self._rows.get(path)
        if known is None or known[0] != file:
            known = self._rows[path] = file, _row_of(path, file, digests)
        return known[1]


def _row_of(path: str, file: InputFile, digests: Digests) -> Row:
    try:
        status = os.stat(path)
        if (status.st_ino, status.st_size, status.st_mtime_ns) == file.identity:
            return digests.of(path, status, _of_text)
    except OSError:
        pass
    return _CHANGED


def _shown(path: str, file: InputFile, top: str) -> str | None:
    """Return the name of a file in a world; None if it is installed, or a setting of the user's on this host."""
    if origins.of_path(path):
        return None
    if path.startswith(os.path.join(top, "")):
        return os.path.relpath(path, top)
    if not os.path.isabs(file.name):
        return file.name
    home = os.path.join(os.path.expanduser("~"), "")
    shown = f"~/{path.removeprefix(home)}" if path.startswith(home) else path
    return None if f"{os.sep}." in shown else shown


def _of_text(path: str) -> Row:
    with open(path, "rb") as file:
        data = file.read(input_files.LARGEST + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _IS_NO_TEXT
    if "\0" in text:
        return _IS_NO_TEXT
    items = list(_items(text))
    if len(items) > _MOST_ITEMS:
        return [short(data), ""]
    names = "\n".join(name for name, _ in items)
    digests = [each for name, value in items for each in (name, short(value.encode()))]
    return [short(data), short(names.encode()), *digests]


def _items(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the items of a text; no name occurs twice."""
    if text.lstrip()[:1] == "{":
        try:
            yield from _leaves(json.loads(text), "")
            return
        except (ValueError, RecursionError):
            pass
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        named = _NAMED.match(line)
        name = named[1] if named else f"line {number}"
        count = counts[name] = counts.get(name, 0) + 1
        yield name if count == 1 else f"{name}#{count}", line


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}" if path else name)
    else:
        yield path, repr(value)
