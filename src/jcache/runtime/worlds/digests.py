"""Digests of files, remembered in the root by inode, size and modification time."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Final

from jcache.layout import Root
from jcache.store import files
from jcache.store.directories import opened

NAME: Final = "digests"
_MOST: Final = 5_000
_PLAIN: Final = re.compile(r"[-+]?\d{0,6}(\.\d+)?|true|false|yes|no|on|off|none|null", re.IGNORECASE)
_TOKEN: Final = re.compile(r"[\w.+/=-]{16,}")  # one that opens something; shorter ones are words of a vocabulary
_AROUND: Final = " \t\r\n:=\"',"  # a value in a line
_LARGEST: Final = 16 << 20
_VARIABLES: Final = re.compile(rb"""["']([A-Z][A-Z0-9_]+)["']|(?i:env)\w*\W[\s\S]{0,60}?["'](\w*[a-zA-Z]\w*)["']""")
_SECRET: Final = re.compile(
    r"passw(?:or[dt]|d)|passphrase|secret|credential|(?:api|access|private|auth)_?(?:key|token)|(?:^|[_.])(token)$",
    re.IGNORECASE,
)
Row = list[str]


def short(data: bytes) -> str:
    """Return the first 80 bits of the SHA-256 of some bytes, in 20 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:20]


def is_secret(name: str, value: str) -> bool:
    """Return whether the name of a variable or setting says that it holds a secret: no program depends on one.

    The digest of a secret is not kept, from which a password could be guessed, and which would tell users from one
    another. A small number, true or false is no secret, nor is a short text under a name that ends in ``token``:
    ``pad_token: 2`` is the number of a word, and ``mask_token: <mask>`` the word.

    Args:
        name: the name.
        value: the value, or the line that has the name and the value.
    """
    found = _SECRET.search(name)
    text = value.rpartition(name)[2].strip(_AROUND)
    if found is None or _PLAIN.fullmatch(text):
        return False
    return not found[1] or bool(_TOKEN.fullmatch(text))


def variables_in(source: bytes) -> set[str]:
    """Return the texts in a source that may name an environment variable."""
    return {(one or other).decode(errors="replace") for one, other in _VARIABLES.findall(source)}


class Digests:
    """The remembered digests of a root.

    Args:
        root: the root; None to remember them in this process only.
    """

    def __init__(self, root: Root | None) -> None:
        self._root = root
        self._rows: dict[str, Row] = {} if root is None else _read(root)
        self._used: dict[str, Row] = {}
        self._is_changed = False

    def of(self, path: str, status: os.stat_result, make: Callable[[str], Row]) -> Row:
        """Return what `make` returns for a file; the remembered result if the file is unchanged.

        Args:
            path: the path of the file.
            status: its status.
            make: reads the file and returns texts; raises OSError.
        """
        now = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        row = self._used.get(path) or self._rows.get(path)
        if row is None or row[0] != now:
            row = [now, *make(path)]
            self._is_changed = True
        self._used[path] = row
        return row[1:]

    def save(self) -> None:
        """Write the digests to the root if there are new ones; a failure is ignored."""
        if not self._is_changed or self._root is None:
            return
        self._is_changed = False
        rows = list({**self._rows, **self._used}.items())[-_MOST:]
        text = json.dumps(dict(rows), separators=(",", ":")).encode()
        with suppress(OSError), opened(self._root, self._root.worlds, make=True) as directory:
            files.publish(NAME, hashlib.sha256(text).hexdigest().encode() + b"\n" + text, directory=directory)


@lru_cache(maxsize=8)
def digests_of(root: Root) -> Digests:
    """Return the remembered digests of a root, one object for the process."""
    return Digests(root)


def _read(root: Root) -> dict[str, Row]:
    try:
        with open(root.worlds / NAME, "rb") as file:
            told, _, text = file.read(_LARGEST).partition(b"\n")
    except OSError:
        return {}
    if hashlib.sha256(text).hexdigest().encode() != told:
        return {}
    rows: dict[str, Row] = json.loads(text)
    return rows
