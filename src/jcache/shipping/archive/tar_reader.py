"""Reader of a tar's members, one after the other, in constant memory; safe for untrusted input."""

from __future__ import annotations

from typing import Final

from jcache.errors import BadArchive
from jcache.shipping.archive.bounded_source import too_short_error, truncated_error
from jcache.shipping.archive.decompress import DecompressedStream
from jcache.shipping.archive.tar_headers import BLOCK, DIRECTORY, Header, parse_header, pax_records

MAX_MEMBERS: Final = 2_500_000  # an entry and a sidecar for each of a million keys, and other files
_MAX_EXTENSION_BYTES: Final = 1 << 20  # macOS puts the extended attributes of a file into its pax header
_MAX_EXTENSIONS: Final = 4  # before one member
_TRAILING_DATA: Final = "other data follows its end: an archive must be alone in its file"
_MAX_PADDING_BYTES: Final = 16 << 20  # zeros after the end; tar's largest records have 2 MiB
_PIECE_BYTES: Final = 1 << 20
_GNU_LONG_NAME, _GNU_LONG_LINK, _PAX, _PAX_GLOBAL = b"L", b"K", b"x", b"g"


class TarMember:
    """A header and the bytes that follow it, which can be read until the next member is requested."""

    __slots__ = ("_left", "_unpacked", "header")

    def __init__(self, header: Header, unpacked: DecompressedStream) -> None:
        self.header = header
        self._unpacked = unpacked
        self._left = header.size

    def read(self, size: int = _PIECE_BYTES) -> bytes:
        """Return the next bytes, exactly so many or all that are left; ``b""`` at the end."""
        wanted = min(size, self._left)
        if wanted <= 0:
            return b""
        data = self._unpacked.read(wanted)
        if len(data) < wanted:
            raise truncated_error(self._unpacked.name, self._unpacked.received)
        self._left -= wanted
        return data

    def readinto(self, memory: memoryview, /) -> int:
        """Put the next bytes, at least one, into memory; return how many, 0 only at the end."""
        count = self._unpacked.readinto(memory[: self._left]) if self._left else 0
        if self._left and not count:
            raise truncated_error(self._unpacked.name, self._unpacked.received)
        self._left -= count
        return count

    def skip(self) -> int:
        """Skip the bytes that are left; return the length of the padding, which is not skipped."""
        while self._left:
            self.read()
        return -self.header.size % BLOCK


class TarReader:
    """Reads the members of a tar, and applies headers that extend others."""

    def __init__(self, unpacked: DecompressedStream) -> None:
        self.unpacked = unpacked
        self._current: TarMember | None = None
        self._count = 0

    def refusal(self, reason: str) -> BadArchive:
        """Return the error that the archive is refused for a reason."""
        return BadArchive(f"Refused {self.unpacked.name}: {reason}.")

    def next(self) -> TarMember | None:
        """Return the next member; None at the end, which no other data may follow."""
        extensions: dict[str, str] = {}
        for _ in range(_MAX_EXTENSIONS + 1):
            block = self._block()
            if block is None:
                if extensions:
                    raise self.refusal("it ends after a header that extends another")
                return None
            try:
                header = parse_header(block)
                if header.type == DIRECTORY and header.size:
                    raise ValueError("a directory has a size")
                if header.type not in {_GNU_LONG_NAME, _GNU_LONG_LINK, _PAX, _PAX_GLOBAL}:
                    self._current = TarMember(_apply_records(header, extensions), self.unpacked)
                    return self._current
                self._current = TarMember(header, self.unpacked)
                self._extend(header, extensions)
            except (ValueError, OverflowError) as error:
                if self._count == 1:
                    raise self.refusal("it is neither an archive of jcache nor a tar, tar.gz or tar.zst") from error
                raise self.refusal(str(error)) from error
        raise self.refusal("one member has too many headers")

    def _block(self) -> bytes | None:
        """Return the next header; None at the end."""
        padding = self._current.skip() if self._current else 0
        self._count += 1
        if self._count > MAX_MEMBERS:
            raise self.refusal(f"it has more than {MAX_MEMBERS} members")
        data = self.unpacked.read(padding + BLOCK)
        if not self.unpacked.content:
            raise BadArchive(
                f"{self.unpacked.name} is empty: the program that writes it has failed, and its message says why."
            )
        if len(data) < padding + BLOCK:
            raise (truncated_error if self._count > 1 else too_short_error)(self.unpacked.name, self.unpacked.received)
        block = data[padding:]
        if block.count(0) < BLOCK:
            return block
        self._check_end()
        return None

    def _check_end(self) -> None:
        """Read another block of zeros, more zeros if any, and the end of the stream."""
        second = self.unpacked.read(BLOCK)
        if len(second) < BLOCK:
            raise truncated_error(self.unpacked.name, self.unpacked.received)
        if second.strip(b"\0"):
            raise self.refusal(_TRAILING_DATA)
        size = 0
        while data := self.unpacked.read(_PIECE_BYTES):
            size += len(data)
            if data.strip(b"\0") or size > _MAX_PADDING_BYTES:
                raise self.refusal(_TRAILING_DATA)

    def _extend(self, header: Header, extensions: dict[str, str]) -> None:
        """Read the records of a header that extends another."""
        if header.size > _MAX_EXTENSION_BYTES:
            raise ValueError(f"a name or a pax header has {header.size} bytes")
        data = self._current.read(header.size) if self._current else b""
        if header.type == _GNU_LONG_NAME:
            records = {"path": data.rstrip(b"\0").decode("utf-8", "surrogateescape")}
        elif header.type == _GNU_LONG_LINK:
            records = {}
        else:
            records = pax_records(data)
        if header.type == _PAX_GLOBAL:
            if records.keys() & {"path", "size"} or _is_sparse(records):
                raise ValueError("a global header renames or resizes members")
            return
        if records.keys() & extensions.keys():
            raise ValueError("a member has two names or sizes")
        extensions |= records


def _is_sparse(records: dict[str, str]) -> bool:
    return any(name.startswith(("GNU.sparse.", "SCHILY.realsize", "SUN.holesdata")) for name in records)


def _apply_records(header: Header, records: dict[str, str]) -> Header:
    if not records:
        return header
    if _is_sparse(records):
        return header._replace(type=b"S")
    name, size, modified = records.get("path", header.name), header.size, records.get("mtime")
    if "size" in records:
        size = _parse_number(records["size"])
    seconds = header.modified
    if modified is not None and not modified.startswith("-"):
        seconds = _parse_number(modified.partition(".")[0])
    return header._replace(name=name, size=size, modified=seconds)


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise ValueError("a pax header has text in place of a number")
    return int(text)
