"""Directories of other programs as roots: an `Adapter` knows their file names and reads their entries.

A root with an adapter is listed, shown, checked, pruned, cleared, exported and imported by the same code as JAX's and
jcache's own, and no command knows which one it has. What holds for every such directory:

- **Names.** What an adapter names an entry is one, and nothing else is: other files are listed and never touched.
- **Of ours only pins lie inside**, in ``.jcache/pins``, so that they hold wherever the directory is moved or copied to,
  and for every user. Ledger, quarantine and lock are in the user's state directory, see `state_of`.
- **Unlink and rename only.** Whoever has a file open or mapped keeps it, and whoever opens its name sees all of it.
- **Nothing is executed.** What an adapter says of a file comes from its bytes, with bounds on what they can ask for.

A further adapter is a module with an ``ADAPTER``, and a line in `MODULES`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from jcache.layout import TEMPORARY_PREFIX, FileKind, Kind, Layout

if TYPE_CHECKING:
    from jcache.findings import Fault

MODULES: Final = ["jcache.store.foreign.phasic"]


class Adapter(Layout, Protocol):
    """The layout of another program's directory, and a reader of the entries in it.

    An adapter is a subclass, so that it inherits the answers of `Layout` that hold for every such directory. File names
    are relative to the directory, with ``/``; keys are ``<name>-<hexadecimal digits>``.

    Attributes:
        name: the name of the adapter in JSON, in manifests and in the table of layouts.
        title: the name of the cache in sentences, such as ``phasic's cache``.
        directories: its sub-directories in which entries lie; no others are looked into. The program itself must
            pass over a directory ``.jcache`` beside them.
    """

    __slots__ = ()
    contents: str = "what is"
    plain: bool = True
    follows_jax: bool = False
    has_sidecars: bool = False
    entry_pattern: str = "*/*"

    def directory(self, path: Path, kind: Kind) -> Path:
        return path

    def member(self, file_name: str) -> tuple[FileKind, str]:
        known = self.entry(file_name)
        if known is not None:
            return FileKind.ENTRY, known[1]
        ours = file_name.rpartition("/")[2].startswith(TEMPORARY_PREFIX)
        return FileKind.TEMPORARY if ours or self.is_temporary(file_name) else FileKind.UNKNOWN, ""

    def key_of(self, text: str) -> str:
        names = (text, *(f"{directory}/{text}" for directory in self.directories))
        return next((known[1] for name in names if (known := self.entry(name)) is not None), text)

    def is_file_of(self, kind: Kind, key: str, file_name: str) -> bool:
        return self.file_name(kind, key) == file_name

    def places(self, environment: Mapping[str, str]) -> list[str]:
        """Return the usual paths of such a directory, for `jcache info`."""

    def recognises(self, path: Path) -> bool:
        """Return whether a directory is laid out like this."""

    def entry(self, file_name: str) -> tuple[Kind, str] | None:
        """Return the kind and key of the entry that has a file name; None for what is none."""

    def is_temporary(self, file_name: str) -> bool:
        """Return whether the program itself writes files of that name on the way to an entry."""

    def fault(self, kind: Kind, key: str, data: bytes, *, quick: bool) -> Fault | None:
        """Return the fault of an entry's bytes by themselves; with ``quick`` check only their frame."""

    def facts(self, kind: Kind, key: str, data: bytes) -> dict[str, object]:
        """Return the facts that an entry holds about itself, by names for people.

        Raises:
            DamagedEntry: it cannot be read.
        """

    def written_ns(self, kind: Kind, key: str, data: bytes) -> int | None:
        """Return when the program wrote these bytes, as they say themselves; None if they do not.

        Other bytes than those on record, written since, are no damage. 0 says that a key has the same bytes always.
        """

    def is_code(self, kind: Kind, key: str) -> bool:
        """Return whether the program executes what such an entry says, so that none is taken from elsewhere unasked."""


def adapters() -> Iterator[Adapter]:
    """Yield all adapters."""
    for module in MODULES:
        yield import_module(module).ADAPTER


def named(name: str) -> Adapter | None:
    """Return the adapter with a name."""
    return next((adapter for adapter in adapters() if adapter.name == name), None)


def adapter_of(path: Path) -> Adapter | None:
    """Return the adapter that recognises a directory; None if none does, or it cannot be read."""
    try:
        return next((adapter for adapter in adapters() if adapter.recognises(path)), None)
    except OSError:
        return None


def meant_by(path: Path) -> Adapter | None:
    """Return the adapter of a directory that is not there yet, by the name that such a directory has."""
    return next((adapter for adapter in adapters() if path.name in {Path(p).name for p in adapter.places({})}), None)


def entry_at(adapter: Adapter, path: str) -> tuple[Kind, str] | None:
    """Return the entry that a file is, wherever the directory lies of which a tar was made."""
    parts = path.split("/")
    tails = ("/".join(parts[at:]) for at in range(len(parts)))
    return next((known for tail in tails if (known := adapter.entry(tail)) is not None), None)


def is_key(text: str) -> bool:
    """Return whether a text is a key in the directory of some other program."""
    return any(adapter.file_name(kind, text) is not None for adapter in adapters() for kind in Kind)


def state_of(path: Path) -> Path:
    """Return jcache's directory for its own files about another program's directory, below the user's state directory.

    The name is for people; what tells two directories apart is the hash of the path, links in it followed.
    """
    from hashlib import sha256

    from platformdirs import user_state_path

    real = os.path.realpath(path)
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in real).strip("-")
    return user_state_path("jcache") / "roots" / f"{name[-64:]}-{sha256(os.fsencode(real)).hexdigest()[:16]}"
