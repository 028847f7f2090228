"""Names on disk: every suffix and directory name that jcache knows, keys, and the layout of a root.

This table owns the disk; no suffix or directory name is spelled anywhere else::

    ROOT/                                a root made by jcache
      CACHEDIR.TAG                         backup programs pass the tree over (bford.info/cachedir)
      executables/                         jax_compilation_cache_dir; JAX's rules hold, nothing of ours inside
        <key>-cache                          an entry (jax >= 0.4.31)
        <key>-atime                          its recency: 8 bytes, little-endian nanoseconds since 1970
        .lockfile                            JAX's lock (filelock)
        <name>-<64 hex>, <64 hex>            legacy entries (jax <= 0.4.30), never hit by a later JAX
        xla_gpu_per_fusion_autotune_cache_dir/   xla_gpu_kernel_cache_file      XLA's own sub-caches
      traces-v1/  graphs-v1/               the same names; the bytes are sealed envelopes
      .jcache/                             ledger.sqlite3, quarantine/, runs/, building/, handed/, verdicts/

    JAXDIR/                              a plain JAX directory is a root too: its executables lie in it directly,
                                         traces-v1/, graphs-v1/ and .jcache/ are sub-directories JAX does not look at

    OTHERS/                              another program's directory; an adapter (``jcache.store.foreign``) knows the
                                         names in it; of jcache only pins are inside, see `Root.state`

    key  = name "-" 64 lower-case hexadecimal digits          (name: printable, not empty, no "/")
    file = key "-cache"                                       (at most 255 bytes in all)
"""

import os
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from jcache.errors import InvalidValue
from jcache.units import parse_choice


class Kind(StrEnum):
    """The contents of an entry."""

    EXECUTABLES = "executables"
    TRACES = "traces"
    GRAPHS = "graphs"


class Member(StrEnum):
    """The meaning of a file name in a directory of entries."""

    ENTRY = "entry"
    SIDECAR = "sidecar"
    LEGACY = "legacy"
    TEMPORARY = "temporary"
    AUTOTUNE = "autotune"
    KERNELS = "kernels"
    OURS = "ours"
    UNKNOWN = "unknown"


ENTRY_SUFFIX: Final = "-cache"
SIDECAR_SUFFIX: Final = "-atime"
LOCK_NAME: Final = ".lockfile"
TAG_NAME: Final = "CACHEDIR.TAG"
TAG_TEXT: Final = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file marks a cache directory made by jcache.\n"
    "# For information about cache directory tags see https://bford.info/cachedir/\n"
)
STATE_NAME: Final = ".jcache"
PINS_NAME: Final = "pins"  # in it
AUTOTUNE_NAME: Final = "xla_gpu_per_fusion_autotune_cache_dir"
KERNELS_NAME: Final = "xla_gpu_kernel_cache_file"
XLA_NAMES: Final = (AUTOTUNE_NAME, KERNELS_NAME)
TEMPORARY_PREFIX: Final = ".jcache-tmp-"
ASIDE_PREFIX: Final = f"{TEMPORARY_PREFIX}xla-"  # XLA's sub-caches on their way out
_JAX_TEMPORARY_PREFIX: Final = "_temp_"  # jax <= 0.4.29 wrote here, then renamed
NAME_LIMIT: Final = 255
HASH_LENGTH: Final = 64
_SHORT_HASH: Final = 8  # digits that tables print

DIRECTORY_NAMES: Final = {Kind.EXECUTABLES: "executables", Kind.TRACES: "traces-v1", Kind.GRAPHS: "graphs-v1"}
_OURS: Final = frozenset({LOCK_NAME, TAG_NAME, STATE_NAME, *DIRECTORY_NAMES.values()})
_HEX: Final = "0123456789abcdef"
_LEGACY = re.compile(r"(?:[^/]+-)?[0-9a-f]{64}")


def is_key(text: str) -> bool:
    """Return whether the text is ``<name>-<64 hex>`` with a printable name."""
    return text[-65:-64] == "-" and len(text) > 65 and not text[-64:].strip(_HEX) and text.isprintable()


def name_of(key: str) -> str:
    """Return the function's name in a key; a legacy ``<64 hex>`` has none and gives ``""``."""
    return key.rpartition("-")[0]  # another program's hashes have other lengths


def hash_of(key: str) -> str:
    """Return the hash in a key: what follows the name."""
    return key.rpartition("-")[2]


def short_key(key: str) -> str:
    """Return a prefix of a key that fits a table and, in most roots, belongs to only one key."""
    name, dash, digits = key.rpartition("-")
    return f"{name}{dash}{digits[:_SHORT_HASH]}" if dash else key


def answers(key: str, prefix: str) -> bool:
    """Return whether a prefix, which is not empty, begins a key or its hash."""
    return key.startswith(prefix) or hash_of(key).startswith(prefix)


def member(file_name: str) -> tuple[Member, str]:
    """Return what a file name stands for, and its entry's key (``""`` for a file that belongs to no entry)."""
    stem = file_name[:-6]
    if file_name.endswith(ENTRY_SUFFIX) and is_key(stem):
        return Member.ENTRY, stem
    if file_name.endswith(SIDECAR_SUFFIX) and is_key(stem):
        return Member.SIDECAR, stem
    if file_name.startswith((TEMPORARY_PREFIX, _JAX_TEMPORARY_PREFIX)):
        return Member.TEMPORARY, ""
    if _LEGACY.fullmatch(file_name) and file_name.isprintable():
        return Member.LEGACY, file_name
    if file_name in _OURS:
        return Member.OURS, ""
    return {AUTOTUNE_NAME: Member.AUTOTUNE, KERNELS_NAME: Member.KERNELS}.get(file_name, Member.UNKNOWN), ""


def are_files_of_keys(names: Sequence[str]) -> bool:
    """Return whether every name is a key and a suffix of six characters: what `is_key` says of each, all at once."""
    hashes = "".join([name[-70:-6] for name in names])
    dashes = "".join([name[-71:-70] for name in names])
    return (
        min(map(len, names), default=72) > 71
        and len(hashes) == HASH_LENGTH * len(names)
        and not hashes.strip(_HEX)
        and not dashes.strip("-")
        and "".join(names).isprintable()
    )


def check_key(key: str) -> str:
    """Return the key if it is valid.

    Raises:
        InvalidValue: it is not ``<name>-<64 hex>``, or its file name would be longer than 255 bytes.
    """
    if not is_key(key) or "/" in key:
        raise InvalidValue(f"'{key}' is not a key: a key is a name, a dash and 64 hexadecimal digits.")
    if len(os.fsencode(key + ENTRY_SUFFIX)) > NAME_LIMIT:
        raise InvalidValue(f"'{key}' is too long for a file name of {NAME_LIMIT} bytes.")
    return key


def parse_kind(text: str) -> Kind:
    """Return the kind that the text names.

    Raises:
        InvalidValue: there is no such kind.
    """
    return parse_choice(Kind, text, "is not a kind")


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

    def member(self, file_name: str) -> tuple[Member, str]:
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
        return path if self.plain and kind is Kind.EXECUTABLES else path / DIRECTORY_NAMES[kind]

    def file_name(self, kind: Kind, key: str) -> str:
        return key + ENTRY_SUFFIX

    def member(self, file_name: str) -> tuple[Member, str]:
        return member(file_name)

    def key_of(self, text: str) -> str:
        stem = text.removesuffix(ENTRY_SUFFIX)
        return stem if is_key(stem) else text

    def is_file_of(self, kind: Kind, key: str, file_name: str) -> bool:
        if "/" in key or "\0" in key:  # in a plain JAX directory any other text is a key
            return False
        names = (key + ENTRY_SUFFIX, key + SIDECAR_SUFFIX)
        return file_name in names or (file_name == key and member(file_name)[0] is Member.LEGACY)


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


class _RootFields(NamedTuple):
    path: Path
    layout: Layout
    state_path: Path | None


class Root(_RootFields):
    """A directory that jcache administers.

    Args:
        path: absolute, symbolic links in it kept as given (JAX hashes the string of a directory's path).
        plain: whether it is a plain JAX directory, whose executables lie in it directly.
        adapter: the layout of another program's directory; None for JAX's and jcache's own.
        state_path: the directory for jcache's own files, if it is not in the root itself.

    Attributes:
        layout: the names and places of the entries.
    """

    __slots__ = ()

    def __new__(
        cls,
        path: Path,
        plain: bool,  # noqa: FBT001  the constructor is public
        adapter: Layout | None = None,
        state_path: Path | None = None,
    ) -> "Root":
        return super().__new__(cls, path, adapter or (JAX if plain else JCACHE), state_path)

    def __getnewargs__(self) -> tuple[Any, ...]:  # the arguments of `__new__`, for pickle
        return self.path, self.plain, self.adapter, self.state_path

    @property
    def plain(self) -> bool:
        """Whether the executables lie in the directory itself."""
        return self.layout.plain

    @property
    def adapter(self) -> Any:  # noqa: ANN401  an `Adapter | None` of a room that this module may not import
        """The adapter of another program's directory; None for JAX's and jcache's own."""
        return None if self.layout.follows_jax else self.layout

    @property
    def title(self) -> str:
        """Name of the root in sentences."""
        return self.layout.title

    def directory(self, kind: Kind) -> Path:
        """Return the directory of a kind; it need not exist. Names of files are relative to it."""
        return self.layout.directory(self.path, kind)

    def file_name(self, kind: Kind, key: str, *, legacy: bool = False) -> str:
        """Return the name of an entry's file, relative to the directory of its kind.

        Raises:
            InvalidValue: no entry of this root can have the key.
        """
        return file_name_of(kind, key, legacy=legacy, adapter=self.layout)

    def place(self, kind: Kind, key: str, *, legacy: bool = False) -> Path:
        """Return the path of an entry's file, which need not exist; raise as `file_name`."""
        return self.directory(kind) / self.file_name(kind, key, legacy=legacy)

    def locks(self, kind: Kind) -> Path:
        """Return the directory of the lock that guards the entries of a kind."""
        return self.directory(kind) if self.layout.follows_jax else self.state

    @property
    def state(self) -> Path:
        """Directory of jcache itself; deleting it loses history and digests, never an entry."""
        return self.state_path or self.path / STATE_NAME

    @property
    def ledger(self) -> Path:
        return self.state / "ledger.sqlite3"

    @property
    def settings(self) -> Path:
        """The path of the settings that are stored with the root."""
        return self.state / "jcache.toml"

    @property
    def runs(self) -> Path:
        return self.state / "runs"

    @property
    def building(self) -> Path:
        """Lock files of those who are building something, see `jcache.store.build_lock`."""
        return self.state / "building"

    @property
    def handed(self) -> Path:
        """Payloads of graphs that other code reads as files, each by its key, see `jcache.graphs.file_codec`."""
        return self.state / "handed"

    @property
    def verdicts(self) -> Path:
        """Hints about calls: faster traced than looked up, or the files that they need; see `jcache.traces.hints`."""
        return self.state / "verdicts"

    @property
    def pins(self) -> Path:
        """Empty files that say what is pinned, see `jcache.store.pins`; they go where the entries go."""
        return self.path / STATE_NAME / PINS_NAME

    @property
    def unbounded_mark(self) -> Path:
        """Says that the executables' lock file is only jcache's: no JAX has put entries there under a bound."""
        return self.state / "unbounded"

    @property
    def moved_mark(self) -> Path:
        """Written when jcache had to move access times, see `jcache.store.access_times`."""
        return self.state / "moved"

    @property
    def quarantine(self) -> Path:
        """Directory of damaged entries."""
        return self.state / "quarantine"


_TAG_MARK: Final = "~"
_TAG_LENGTH: Final = 16
_ROOM: Final = NAME_LIMIT - len(ENTRY_SUFFIX) - len("-") - HASH_LENGTH - len(_TAG_MARK) - _TAG_LENGTH


def storable(key: str) -> str:
    """Return the key under which an entry is stored: the key itself, or a shortened one if no file can have its name.

    A key of JAX is ``<module>-<64 hex>``. Generated programs have module names so long that the key is longer than a
    file name may be, and JAX never caches them. Here the name is cut and the hash kept::

        a key that fits       itself
        <name>-<64 hex>       <beginning of the name>~<16 hex of the SHA-256 of the name>-<64 hex>
        any other text        <beginning of the text>~<16 hex of its SHA-256>-<64 hex of its SHA-256>

    The digits behind ``~`` keep two long names apart that begin alike and have the same hash.
    """
    try:
        return check_key(key)
    except ValueError:
        pass
    digits = key[-HASH_LENGTH:]
    if is_key(f"x-{digits}") and key[-HASH_LENGTH - 1 : -HASH_LENGTH] == "-":
        return f"{shortened(name_of(key))}-{digits}"
    return f"{shortened(key)}-{_sha256(key)}"


def shortened(name: str) -> str:
    """Return a name as `storable` cuts it, with what tells it from others that begin alike."""
    clean = "".join(c if c.isprintable() and c != "/" else "_" for c in name)
    return f"{clean.encode()[:_ROOM].decode(errors='ignore')}{_TAG_MARK}{_sha256(name)[:_TAG_LENGTH]}"


def kept_of(key: str) -> str | None:
    """Return the beginning of the module's name that a stored key has kept, None for a key whose name was not cut."""
    name = name_of(key)
    tag = name[-_TAG_LENGTH:]
    cut = name[-_TAG_LENGTH - 1 : -_TAG_LENGTH] == _TAG_MARK and not tag.strip("0123456789abcdef")
    return name[: -_TAG_LENGTH - 1] if cut else None


def _sha256(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
