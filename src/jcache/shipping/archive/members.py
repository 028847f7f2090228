"""Members of an archive: their names, and the objects that readers yield."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from jcache.layout import DIRECTORY_NAMES, ENTRY_SUFFIX, file_name_of
from jcache.shipping.archive.manifest import Item, Manifest, XlaFile

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

MANIFEST_NAME: Final = "manifest.json"
MANIFEST_START: Final = b'{"directory":'
SIGNATURE_NAME: Final = "manifest.json.sig"
DIGEST_NAME: Final = "manifest.json.digest"  # only without a signature, which also detects changes
TRAILER_NAME: Final = "trailer.json"
TRAILER_START: Final = b'{"omitted":['
TRAILER_END: Final = b"]}\n"
XLA_KIND: Final = "xla"  # of a neighbour, in the trailer
PIECE_BYTES: Final = 1 << 20

ReadInto: TypeAlias = Callable[[memoryview], int | None]
"""Puts the next bytes, at least one, into memory; returns how many, 0 only at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of an archive, before its entries.

    Attributes:
        manifest: the manifest.
        manifest_size: number of its bytes, which are signed.
        signature: armored SSHSIG; None if the archive is not signed.
    """

    manifest: Manifest
    manifest_size: int
    signature: bytes | None


class _MemberContent:
    """The bytes of a member, read in order."""

    __slots__ = ("readinto", "size")

    def __init__(self, size: int, readinto: ReadInto) -> None:
        self.size = size
        self.readinto = readinto

    def read(self, size: int = PIECE_BYTES) -> bytes:
        """Return the next bytes, at most so many; ``b""`` at the end.

        Raises:
            BadArchive: the archive ends too early or cannot be decompressed.
        """
        data = bytearray(size)
        return bytes(data[: self.readinto(memoryview(data))])

    def read_all(self) -> bytes:
        """Return all bytes that are left.

        Raises:
            BadArchive: as in `read`.
        """
        return b"".join(iter(self.read, b""))


class ArchiveMember(_MemberContent):
    """An entry or neighbour of an archive: its stored bytes, in whatever form the archive holds them.

    It can be read until the next member is requested. Its size is the manifest's. Its digest may differ, so the caller
    must compare it.

    Attributes:
        entry: the manifest's item or neighbour.
        name: name of the member.
        size: number of stored bytes.
    """

    __slots__ = ("entry", "name")

    def __init__(self, entry: Item | XlaFile, name: str, readinto: ReadInto) -> None:
        super().__init__(entry.bytes, readinto)
        self.entry = entry
        self.name = name


class PlainTarMember(_MemberContent):
    """A regular file of a tar without a manifest.

    Attributes:
        path: path in the tar, relative, without ``.`` and ``..``.
        name: last part of the path.
        modified_ns: modification time, nanoseconds since 1970, at least 0.
    """

    __slots__ = ("modified_ns", "path")

    def __init__(self, path: str, size: int, modified_ns: int, readinto: ReadInto) -> None:
        super().__init__(size, readinto)
        self.path = path
        self.modified_ns = modified_ns

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def item_name(item: Item, adapter: Adapter | None = None) -> str:
    """Return the name of an entry's member; another program's file keeps its name."""
    if adapter is not None:
        return file_name_of(item.kind, item.key, adapter=adapter)
    return f"{DIRECTORY_NAMES[item.kind]}/{item.key}{ENTRY_SUFFIX}"


def neighbour_name(neighbour: XlaFile) -> str:
    """Return the name of a neighbour's member."""
    return f"{XLA_KIND}/{neighbour.path}"
