"""How entries lie in a root: the protocol of all layouts, and the two of jcache and JAX."""

import re
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

from jcache.errors import InvalidValue
from jcache.layout.keys import is_key
from jcache.layout.names import (
    AUTOTUNE_NAME,
    DIRECTORY_NAMES,
    ENTRY_SUFFIX,
    KERNELS_NAME,
    LOCK_NAME,
    SIDECAR_SUFFIX,
    STATE_NAME,
    TAG_NAME,
    TEMPORARY_PREFIX,
    Kind,
)

_JAX_TEMPORARY_PREFIX: Final = "_temp_"  # jax <= 0.4.29 wrote here, then renamed
_OURS: Final = frozenset({LOCK_NAME, TAG_NAME, STATE_NAME, *DIRECTORY_NAMES.values()})
_LEGACY = re.compile(r"(?:[^/]+-)?[0-9a-f]{64}")


class FileKind(StrEnum):
    """The meaning of a file name in a directory of entries."""

    ENTRY = "entry"
    SIDECAR = "sidecar"
    LEGACY = "legacy"
    TEMPORARY = "temporary"
    AUTOTUNE = "autotune"
    KERNELS = "kernels"
    OURS = "ours"
    UNKNOWN = "unknown"


def member(file_name: str) -> tuple[FileKind, str]:
    """Return what a file name stands for, and its entry's key (``""`` for a file that belongs to no entry)."""
    stem = file_name[:-6]
    if file_name.endswith(ENTRY_SUFFIX) and is_key(stem):
        return FileKind.ENTRY, stem
    if file_name.endswith(SIDECAR_SUFFIX) and is_key(stem):
        return FileKind.SIDECAR, stem
    if file_name.startswith((TEMPORARY_PREFIX, _JAX_TEMPORARY_PREFIX)):
        return FileKind.TEMPORARY, ""
    if _LEGACY.fullmatch(file_name) and file_name.isprintable():
        return FileKind.LEGACY, file_name
    if file_name in _OURS:
        return FileKind.OURS, ""
    return {AUTOTUNE_NAME: FileKind.AUTOTUNE, KERNELS_NAME: FileKind.KERNELS}.get(file_name, FileKind.UNKNOWN), ""


class Layout(Protocol):
    """How the entries of a root lie in its directory, and what else may lie there.

    There are three: jcache's own (`JCACHE`), a plain JAX directory (`JAX`), and another program's directory (an
    `Adapter` of `jcache.store.foreign`). File names are relative to the directory of a kind.

    Attributes:
        name: the name of the layout in JSON and manifests: ``jcache``, ``jax`` or the adapter's name.
        title: what such a root is called in sentences.
        contents: what its entries hold, as the object of a sentence.
        plain: whether executables lie in the root's directory itself.
        follows_jax: whether JAX's rules hold: its keys, its lock beside the entries, its bound, XLA's sub-caches.
        has_sidecars: whether a sidecar tells the last use of each entry.
        directories: names of the sub-directories below the directory of a kind in which entries lie.
        entry_pattern: a shell pattern of the entries' files.
    """

    __slots__ = ()

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def contents(self) -> str: ...
    @property
    def plain(self) -> bool: ...
    @property
    def follows_jax(self) -> bool: ...
    @property
    def has_sidecars(self) -> bool: ...
    @property
    def directories(self) -> tuple[str, ...]: ...
    @property
    def entry_pattern(self) -> str: ...

    def directory(self, path: Path, kind: Kind) -> Path:
        """Return the directory of a kind in a root at a path."""

    def file_name(self, kind: Kind, key: str) -> str | None:
        """Return the name of an entry's file; None if no entry of the kind can have the key."""

    def member(self, file_name: str) -> tuple[FileKind, str]:
        """Return what a file name stands for, and the entry's key (``""`` for a file that belongs to no entry)."""

    def key_of(self, text: str) -> str:
        """Return the key if the text is the name of an entry's file, else the text itself."""

    def is_file_of(self, kind: Kind, key: str, file_name: str) -> bool:
        """Return whether a file of an entry may have the name; key and name are untrusted input."""


class _JaxLayout:
    """The layout of a plain JAX directory."""

    __slots__ = ()
    name = "jax"
    title = "a JAX cache directory"
    contents = "the native code"
    plain = True
    follows_jax = True
    has_sidecars = True
    directories: tuple[str, ...] = ()
    entry_pattern = f"*{ENTRY_SUFFIX}"

    def __repr__(self) -> str:
        return self.name

    def directory(self, path: Path, kind: Kind) -> Path:
        return path if self.plain and kind is Kind.EXECUTABLES else below(path, DIRECTORY_NAMES[kind])

    def file_name(self, kind: Kind, key: str) -> str:
        return key + ENTRY_SUFFIX

    def member(self, file_name: str) -> tuple[FileKind, str]:
        return member(file_name)

    def key_of(self, text: str) -> str:
        stem = text.removesuffix(ENTRY_SUFFIX)
        return stem if is_key(stem) else text

    def is_file_of(self, kind: Kind, key: str, file_name: str) -> bool:
        if "/" in key or "\0" in key:  # in a plain JAX directory any other text is a key
            return False
        names = (key + ENTRY_SUFFIX, key + SIDECAR_SUFFIX)
        return file_name in names or (file_name == key and member(file_name)[0] is FileKind.LEGACY)


@lru_cache(256)
def below(directory: Path, name: str) -> Path:
    """Return the path of a name in a directory; making one takes longer than finding one that was made."""
    return directory / name


class _JcacheLayout(_JaxLayout):
    """The layout of a root that jcache made: the same files, with a sub-directory for executables as well."""

    __slots__ = ()
    name = "jcache"
    title = "a jcache root"
    plain = False


JAX: Final[Layout] = _JaxLayout()
JCACHE: Final[Layout] = _JcacheLayout()


def file_name_of(kind: Kind, key: str, *, legacy: bool = False, adapter: Layout | None = None) -> str:
    """Return the name of an entry's file, relative to the directory of its kind.

    Args:
        kind: the entry's kind.
        key: the entry's key.
        legacy: whether only jax <= 0.4.30 reads the entry.
        adapter: the layout of another program's directory; None for JAX's and jcache's own.

    Raises:
        InvalidValue: no entry of that layout can have the key.
    """
    layout = adapter or JAX
    name = key if legacy else layout.file_name(kind, key)
    if name is None:
        raise InvalidValue(f"'{key}' is none of {layout.title}'s {kind}.")
    return name
