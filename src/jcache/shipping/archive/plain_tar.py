"""Reader of a tar, tar.gz or tar.zst of a cache directory, without a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from jcache import layout
from jcache.errors import BadArchive
from jcache.shipping.archive.decompress import DecompressedStream
from jcache.shipping.archive.members import PlainTarMember
from jcache.shipping.archive.tar_headers import DIRECTORY, REGULAR
from jcache.shipping.archive.tar_reader import TarMember, TarReader
from jcache.store.sidecar import LATEST_NS

_MAX_RATIO: Final = 200  # entries are compressed already, and a million sidecars shrink to a twentieth
_KINDS_BY_DIRECTORY: Final = {name: kind for kind, name in layout.DIRECTORY_NAMES.items()}
_REMEDIES: Final = {
    b"1": "make the tar again with --hard-dereference",
    b"2": "make the tar again with -h, which follows links",
    b"S": "make the tar again without -S",
    b"V": "make the tar again without -V",
    b"D": "make the tar again without -g",
    b"M": "make the tar again without -M",
}


class PlainTarReader:
    """Reads the regular files of a tar without a manifest; directories are passed over, anything else is refused.

    Attributes:
        name: name of the archive, for messages.
    """

    def __init__(
        self, stream: BinaryIO, *, name: str = "the archive", unpacked: DecompressedStream | None = None
    ) -> None:
        """Read from a stream.

        Args:
            stream: the tar.
            name: name of the archive, for messages.
            unpacked: the stream's decompressed bytes, where `open_archive` has peeked into them.
        """
        self.name = name
        self._unpacked = unpacked or DecompressedStream(stream, name=name, ratio=_MAX_RATIO)
        self._unpacked.ratio = _MAX_RATIO
        self._tar = TarReader(self._unpacked)
        self._seen: set[int] = set()

    @property
    def received(self) -> int:
        """Bytes taken from the stream so far, for a progress bar."""
        return self._unpacked.received

    def members(self) -> Iterator[PlainTarMember]:
        """Yield all regular files in their order, entries or not.

        Raises:
            BadArchive: the stream is no tar, is torn or hostile, has a name twice, or holds links, devices or sparse
                files.
        """
        while member := self._tar.next():
            path = self._path(member)
            if member.header.type == DIRECTORY:
                continue
            if member.header.type not in REGULAR:
                raise self._not_regular(member)
            self._check_first(path)
            modified_ns = min(member.header.modified * 1_000_000_000, LATEST_NS)
            yield PlainTarMember(path, member.header.size, modified_ns, member.readinto)

    def _path(self, member: TarMember) -> str:
        name = member.header.name
        if name.startswith("/") and (name.strip("/") or member.header.type != DIRECTORY):
            raise self._tar.refusal(f"its member {quote_name(name)} is absolute: make the tar again without -P")
        parts = [part for part in name.split("/") if part not in {"", "."}]
        if ".." in parts:
            raise self._tar.refusal(f"the path of its member {quote_name(name)} leads out of it")
        return "/".join(parts)

    def _not_regular(self, member: TarMember) -> BadArchive:
        remedy = _REMEDIES.get(member.header.type)
        reason = f"its member {quote_name(member.header.name)} is {member.header.type_name}"
        return self._tar.refusal(f"{reason}: {remedy}" if remedy else reason)

    def _check_first(self, path: str) -> None:
        """Raise BadArchive if a path, or an entry's kind and key in any directory, is there twice."""
        base = path.rpartition("/")[2]
        is_entry = layout.member(base)[0] in {layout.FileKind.ENTRY, layout.FileKind.SIDECAR}
        mark = hash((kind_of(path), base) if is_entry else path)  # names would take ten times the memory
        if mark in self._seen:
            raise self._tar.refusal(f"it has {quote_name(path)} twice: pack one directory, and into a new tar")
        self._seen.add(mark)


def open_plain_tar(stream: BinaryIO, *, name: str = "the archive") -> PlainTarReader:
    """Return a reader of a tar, tar.gz or tar.zst.

    Raises:
        BadArchive: the stream is none of these.
    """
    return PlainTarReader(stream, name=name)


def kind_of(path: str) -> layout.Kind:
    """Return the kind of an entry at a path, by the directory that it is in; an executable if no directory tells."""
    return _KINDS_BY_DIRECTORY.get(path.rpartition("/")[0].rpartition("/")[2], layout.Kind.EXECUTABLES)


def quote_name(name: str) -> str:
    """Return a member's name between quotes for a message, with escapes, cut if it is long."""
    text = name if name.isprintable() else name.encode("unicode_escape", "surrogatepass").decode()
    return f"'{text}'" if len(text) <= 200 else f"'{text[:200]}…'"
