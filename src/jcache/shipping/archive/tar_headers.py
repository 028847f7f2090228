"""Headers of tar members: written as ustar and pax; read as POSIX ustar and pax, GNU and v7."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

BLOCK: Final = 512
END: Final = bytes(2 * BLOCK)
REGULAR: Final = frozenset({b"0", b"\0", b"7"})
DIRECTORY: Final = b"5"
_PAX, _PAX_GLOBAL = b"x", b"g"
_USTAR: Final = struct.Struct("100s8s8s8s12s12s8s1s100s6s2s32s32s8s8s155s12x")
_ZERO_OCTAL: Final = b"0000000\0"
_MODE: Final = b"0000644\0"
_NO_TIME: Final = b"%011o" % 0
# the part of a header's checksum that is always the same
_CONSTANT_CHECKSUM: Final = sum(_MODE + 4 * _ZERO_OCTAL + _NO_TIME + b" " * 8 + b"ustar\x0000")
_MAX_OCTAL: Final = 8**11 - 1
_TYPE_NAMES: Final = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"6": "a FIFO",
    b"5": "a directory", b"S": "a sparse file", b"M": "a piece of a file", b"V": "a volume label",
    b"D": "a list of names",
}  # fmt: skip


class Header(NamedTuple):
    """The fields of a header block.

    Attributes:
        name: name of the member, unchecked.
        size: number of bytes that follow.
        type: the type flag.
        modified: modification time, seconds since 1970.
    """

    name: str
    size: int
    type: bytes
    modified: int

    @property
    def type_name(self) -> str:
        """The member's type in words."""
        return _TYPE_NAMES.get(self.type, f"of the unknown type {self.type.decode('latin-1')!r}")


def encode_header(name: str, size: int) -> bytes:
    """Return the header of a member of an archive, after a pax header if its name or size does not fit."""
    encoded = name.encode()
    prefix, _, base = encoded.rpartition(b"/")
    if len(encoded) <= 100:
        prefix, base = b"", encoded
    records = b""
    if len(base) > 100 or len(prefix) > 155 or not name.isascii():
        records += _encode_record(b"path", encoded)
        prefix, base = b"", encoded[:100]
    if size > _MAX_OCTAL:
        records += _encode_record(b"size", b"%d" % size)
    pax = b""
    if records:
        pax = _encode_block(b"././@PaxHeader", b"", len(records), _PAX) + pad_to_block(records)
    return pax + _encode_block(base, prefix, min(size, _MAX_OCTAL), b"0")


def pad_to_block(data: bytes) -> bytes:
    """Return the data, filled with zeros to whole blocks."""
    return data + bytes(-len(data) % BLOCK)


def _encode_block(name: bytes, prefix: bytes, size: int, type_flag: bytes) -> bytes:
    digits = b"%011o" % size
    checksum = _CONSTANT_CHECKSUM + sum(name) + sum(prefix) + sum(digits) + sum(type_flag)
    return _USTAR.pack(
        name, _MODE, _ZERO_OCTAL, _ZERO_OCTAL, digits, _NO_TIME, b"%06o\0 " % checksum, type_flag, b"", b"ustar\0",
        b"00", b"", b"", _ZERO_OCTAL, _ZERO_OCTAL, prefix,
    )  # fmt: skip


def _encode_record(keyword: bytes, value: bytes) -> bytes:
    """Return a record of a pax header; its length counts its own digits."""
    rest = b" %b=%b\n" % (keyword, value)
    length = len(rest) + len(str(len(rest)))
    length = len(rest) + len(str(length))
    return b"%d" % length + rest


def parse_header(block: bytes) -> Header:
    """Return the fields of a header block.

    Raises:
        ValueError: the block is no header.
    """
    stored = _decode_number(block[148:156])
    if sum(block.translate(None, b"\0")) - sum(block[148:156]) + 8 * 32 != stored:  # most bytes are zeros
        raise ValueError("a header has a wrong checksum")
    name = _decode_text(block[:100])
    if block[257:263] == b"ustar\0" and (prefix := _decode_text(block[345:500])):
        name = f"{prefix}/{name}"
    type_flag = block[156:157]
    if type_flag in REGULAR and name.endswith("/"):  # as before POSIX
        type_flag = DIRECTORY
    return Header(name, _decode_number(block[124:136]), type_flag, _decode_number(block[136:148]))


def _decode_text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _decode_number(field: bytes) -> int:
    """Return an octal number, or a base-256 one, which GNU tar writes if octal does not suffice."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if not digits:
        return 0
    if digits.translate(None, b"01234567"):
        raise ValueError("a header has text in place of a number")
    return int(digits, 8)


def pax_records(data: bytes) -> dict[str, str]:
    """Return the records of a pax header.

    Raises:
        ValueError: they do not follow their grammar, or have a keyword twice.
    """
    records: dict[str, str] = {}
    at = 0
    while at < len(data):
        length, blank, _ = data[at : at + 8].partition(b" ")
        if not blank or not length.isdigit():
            raise ValueError("a pax header has a record without length")
        end = at + int(length)
        record = data[at + len(length) + 1 : end]
        keyword, equals, value = record[:-1].partition(b"=")
        if end > len(data) or record[-1:] != b"\n" or not equals:
            raise ValueError("a pax header has a record of a wrong length")
        name = keyword.decode("utf-8", "surrogateescape")
        if name in records:
            raise ValueError("a pax header has a keyword twice")
        records[name] = value.decode("utf-8", "surrogateescape")
        at = end
    return records
