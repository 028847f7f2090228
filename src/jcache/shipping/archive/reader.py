"""Reader of an archive: one pass, constant memory, safe for untrusted input."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import BinaryIO, Final

from jcache.errors import BadArchive
from jcache.formats.digest import digest
from jcache.layout import DIRECTORY_NAMES
from jcache.shipping.archive.decompress import FREE_CONTENT_BYTES, DecompressedStream
from jcache.shipping.archive.manifest import Item, Manifest, XlaFile, adapter_of
from jcache.shipping.archive.manifest_codec import MAX_MANIFEST_BYTES, decode
from jcache.shipping.archive.manifest_schema import dumps
from jcache.shipping.archive.members import (
    DIGEST_NAME,
    MANIFEST_NAME,
    PIECE_BYTES,
    SIGNATURE_NAME,
    TRAILER_END,
    TRAILER_NAME,
    TRAILER_START,
    XLA_KIND,
    ArchiveMember,
    Head,
    item_name,
    neighbour_name,
)
from jcache.shipping.archive.plain_tar import PlainTarReader, quote_name
from jcache.shipping.archive.recompression import (
    MAX_CONTENT_BYTES,
    SUFFIXES,
    max_content_bytes,
    recompress_entry,
    recompressors,
)
from jcache.shipping.archive.tar_headers import DIRECTORY, REGULAR, parse_header
from jcache.shipping.archive.tar_reader import TarMember, TarReader

MAX_RATIO: Final = 1000  # a solid archive of a hundred similar models reaches a few hundred; zeros reach 30,000
_MAX_SIGNATURE: Final = 64 << 10
_MAX_DIGEST: Final = 256
_DIRECTORIES: Final = frozenset({XLA_KIND, *DIRECTORY_NAMES.values()})

ManifestCheck = Callable[[bytes, bytes | None], object]


class ArchiveReader:
    """Reads an archive: `head`, then `members` to the end, then `omitted` is known.

    Attributes:
        name: name of the archive, for messages.
        omitted: kind (``"xla"`` for a neighbour) and key (its path) of the entries that the trailer lists as omitted;
            complete once `members` has come to its end.
    """

    def __init__(
        self, stream: BinaryIO, *, name: str = "the archive", unpacked: DecompressedStream | None = None
    ) -> None:
        """Read from a stream.

        Args:
            stream: the archive.
            name: name of the archive, for messages.
            unpacked: the stream's decompressed bytes, where `open_archive` has peeked into them.
        """
        self.name = name
        self.omitted: frozenset[tuple[str, str]] = frozenset()
        self._unpacked = unpacked or DecompressedStream(stream, name=name, ratio=MAX_RATIO)
        self._size = _file_size(stream)
        self._tar = TarReader(self._unpacked)
        self._head: Head | None = None
        self._pending: TarMember | None = None

    @property
    def received(self) -> int:
        """Bytes taken from the stream so far, for a progress bar."""
        return self._unpacked.received

    def head(self, check: ManifestCheck | None = None) -> Head:
        """Return the manifest and its signature, at every call.

        Args:
            check: called with the manifest's bytes and the signature before they are decoded; it may raise.

        Raises:
            BadArchive: the manifest is missing or wrong.
        """
        if self._head is None:
            first = self._tar.next()
            if first is None or first.header.name != MANIFEST_NAME:
                raise self._tar.refusal(f"its first member is not {MANIFEST_NAME}")
            data = self._whole(first, MAX_MANIFEST_BYTES)
            signature = None
            self._pending = self._tar.next()
            if self._pending and self._pending.header.name == DIGEST_NAME:
                if self._whole(self._pending, _MAX_DIGEST) != digest(data).encode():
                    raise self._tar.refusal(f"its {MANIFEST_NAME} has changed since it was written: copy it again")
                self._pending = self._tar.next()
            if self._pending and self._pending.header.name == SIGNATURE_NAME:
                signature = self._whole(self._pending, _MAX_SIGNATURE)
                self._pending = self._tar.next()
            if check:
                check(data, signature)
            manifest = decode(data, name=self.name)
            self._check_promises(manifest)
            self._head = Head(manifest=manifest, manifest_size=len(data), signature=signature)
        return self._head

    def members(self) -> Iterator[ArchiveMember]:
        """Yield the members in the manifest's order, without omitted ones that are absent.

        The last member comes before the trailer and the end of the stream are read, so iterate to the end.

        Raises:
            BadArchive: the archive does not follow its grammar or its manifest, or ends too early.
        """
        manifest = self.head().manifest
        absent: set[tuple[str, str]] = set()
        listed = _expected_members(manifest)
        member, self._pending = self._pending, None
        while member and member.header.name != TRAILER_NAME:
            if _is_directory(member):
                member = self._tar.next()
                continue
            self._check_regular(member)
            for entry, name in listed:
                suffix = _suffix(member.header.name, name, entry) if manifest.solid else ""
                if member.header.name == name + suffix:
                    yield self._member(entry, name, suffix, member)
                    break
                absent.add(_entry_id(entry))
            else:
                raise self._stranger(member.header.name)
            member = self._tar.next()
        if member is None:
            raise self._tar.refusal(f"it has no {TRAILER_NAME}, so it is truncated: copy or export it again")
        absent.update(_entry_id(entry) for entry, _ in listed)
        self._finish(member, absent)

    def _member(self, entry: Item | XlaFile, name: str, suffix: str, member: TarMember) -> ArchiveMember:
        size = member.header.size
        if suffix:
            if size > (limit := max_content_bytes(entry.bytes)):
                raise self._tar.refusal(f"{quote_name(name)} has {size} bytes where at most {limit} are allowed")
            return ArchiveMember(entry, name, _RecompressedMember(member, partial(recompress_entry, suffix)).readinto)
        if size != entry.bytes:
            raise self._tar.refusal(f"{quote_name(name)} has {size} bytes where its manifest has {entry.bytes}")
        return ArchiveMember(entry, name, member.readinto)

    def _finish(self, trailer: TarMember, absent: set[tuple[str, str]]) -> None:
        """Read the trailer, which must list everything that is absent, and the end."""
        head = self.head()
        omitted = _parse_trailer(self._whole(trailer, 64 + head.manifest_size), head.manifest)
        if omitted is None:
            raise self._tar.refusal(f"its {TRAILER_NAME} does not follow its manifest")
        if not absent <= omitted:
            kind, key = min(absent - omitted)
            raise self._tar.refusal(f"it lacks {kind} {quote_name(key)}, which its manifest lists")
        if self._tar.next() is not None or self._unpacked.is_skipping:
            raise self._tar.refusal(f"other data follows its {TRAILER_NAME}")
        self.omitted = omitted

    def _whole(self, member: TarMember, limit: int) -> bytes:
        """Return all bytes of a small member."""
        self._check_regular(member)
        if member.header.size > limit:
            raise self._tar.refusal(f"its {member.header.name} has {member.header.size} bytes, over {limit}")
        data = BytesIO()
        while piece := member.read(PIECE_BYTES):
            data.write(piece)
        return data.getvalue()

    def _check_regular(self, member: TarMember) -> None:
        if member.header.type not in REGULAR:
            raise self._tar.refusal(f"its member {quote_name(member.header.name)} is {member.header.type_name}")

    def _stranger(self, name: str) -> BadArchive:
        return self._tar.refusal(
            f"its member {quote_name(name)} is not in its manifest, is a duplicate, or out of order"
        )

    def _check_promises(self, manifest: Manifest) -> None:
        """Raise BadArchive for what the manifest alone shows: impossible sizes, or libraries that differ here."""
        total = sum(entry.bytes for entry, _ in _expected_members(manifest))
        if self._size is not None and total > FREE_CONTENT_BYTES + MAX_RATIO * self._size:
            raise self._tar.refusal(f"its {self._size} bytes claim to hold {total}, over {MAX_RATIO} times as much")
        here, used = dict(recompressors()), {item.codec for item in manifest.items}
        for library, version in manifest.recompressors:
            if manifest.solid and library in used and here.get(library) != version:
                raise self._tar.refusal(
                    f"it is solid and made with {library} {version}, and {here.get(library)} here may not give back "
                    "the same bytes: export it again without --solid, or import it with that version"
                )


def _parse_trailer(data: bytes, manifest: Manifest) -> frozenset[tuple[str, str]] | None:
    """Return the entries that a trailer lists; None if it is no trailer for this manifest.

    The trailer is compared with the manifest and not parsed: half a gigabyte of JSON can be made to need thirty times
    as much memory.
    """
    if not data.startswith(TRAILER_START):
        return None
    omitted = set()
    at, separator = len(TRAILER_START), b""
    for entry, _ in _expected_members(manifest) if data[at:] != TRAILER_END else ():
        pair = separator + dumps(_entry_id(entry)).encode()
        if data.startswith(pair, at):
            omitted.add(_entry_id(entry))
            at, separator = at + len(pair), b","
    return frozenset(omitted) if data[at:] == TRAILER_END else None


class _RecompressedMember:
    """The stored bytes of an entry that the archive holds decompressed."""

    def __init__(self, member: TarMember, restore: Callable[[bytes], bytes]) -> None:
        self._member = member
        self._restore = restore
        self._stored: BytesIO | None = None

    def readinto(self, memory: memoryview, /) -> int:
        if self._stored is None:
            self._stored = BytesIO(self._restore(self._member.read(MAX_CONTENT_BYTES)))
        return self._stored.readinto(memory)


def _expected_members(manifest: Manifest) -> Iterator[tuple[Item | XlaFile, str]]:
    """Yield the items and neighbours with their members' names, in order."""
    adapter = adapter_of(manifest)
    for item in manifest.items:
        yield item, item_name(item, adapter)
    for neighbour in manifest.neighbours:
        yield neighbour, neighbour_name(neighbour)


def _entry_id(entry: Item | XlaFile) -> tuple[str, str]:
    return (entry.kind.value, entry.key) if isinstance(entry, Item) else (XLA_KIND, entry.path)


def _is_directory(member: TarMember) -> bool:
    """Return whether a member is one of the directories that a tar of an unpacked archive has; they are ignored."""
    if member.header.type != DIRECTORY:
        return False
    parts = member.header.name.removesuffix("/").split("/")
    is_path = parts[0] in _DIRECTORIES and not {"", ".", ".."}.intersection(parts)
    return is_path and (len(parts) == 1 or parts[0] == XLA_KIND)


def _suffix(found: str, name: str, entry: Item | XlaFile) -> str:
    suffix = found[len(name) :]
    return suffix if isinstance(entry, Item) and suffix in SUFFIXES.values() else ""


def _file_size(stream: BinaryIO) -> int | None:
    """Return the size of a stream's file in bytes; None if it is no regular file."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, AttributeError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def open_archive(stream: BinaryIO, *, name: str = "the archive") -> ArchiveReader | PlainTarReader:
    """Return a reader for an archive or a plain tar, whichever the stream is.

    Raises:
        BadArchive: the stream is neither.
    """
    unpacked = DecompressedStream(stream, name=name, ratio=MAX_RATIO)
    try:
        is_ours = parse_header(unpacked.peek(512)).name == MANIFEST_NAME
    except (ValueError, IndexError):
        is_ours = False
    if is_ours:
        return ArchiveReader(stream, name=name, unpacked=unpacked)
    return PlainTarReader(stream, name=name, unpacked=unpacked)
