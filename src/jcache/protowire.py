"""Protocol buffers on the wire, read one message at a time.

The grammar is https://protobuf.dev/programming-guides/encoding/ (version 3, no groups):

    message = *field
    field   = tag value                  tag = varint of (number << 3 | type), number 1 … 2^29 - 1
    value   = varint                     type 0
            | 8 bytes                    type 1
            | varint length, bytes       type 2: text, bytes, an embedded message, packed numbers
            | 4 bytes                    type 5
    varint  = 1 to 10 bytes, seven bits each, lowest first, the high bit on all but the last; below 2^64

Own code, since the ``protobuf`` package is no dependency of ours and XLA's schemas are private to it. A message is
split into its fields and nothing below: embedded messages are slices of the caller's memory, read only when they are
asked for, so that megabytes of object code cost one slice. As in protobuf itself a known number with another type than
the schema's counts as unknown, and the last of several values of a singular field wins.
"""

from collections.abc import Iterator
from typing import Final

from jcache.errors import DamagedEntry

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

MAX_FIELDS: Final = 1_000_000  # of one message; the largest seen in an entry has 3,000
_MAX_NUMBER: Final = (1 << 29) - 1


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """The number that starts at a position, and the position after it.

    Raises:
        DamagedEntry: the bytes end first, or the number does not fit 64 bits.
    """
    value = 0
    for index, byte in enumerate(data[position : position + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >> 64:
                break
            return value, position + index + 1
    msg = f"no 64-bit varint at byte {position}"
    raise DamagedEntry(msg)


def read_varints(data: memoryview) -> list[int]:
    """Every number of packed varints.

    Raises:
        DamagedEntry: the bytes are no sequence of varints.
    """
    values = []
    position = 0
    while position < len(data):
        value, position = read_varint(data, position)
        values.append(value)
    return values


class Message:
    """The fields of one message, in the order of the wire.

    Raises:
        DamagedEntry: the bytes do not follow the grammar above.
    """

    __slots__ = ("_bytes", "_numbers")

    def __init__(self, data: memoryview | bytes, max_fields: int = MAX_FIELDS) -> None:
        self._bytes: dict[int, list[memoryview]] = {}
        self._numbers: dict[int, list[int]] = {}
        for count, (number, value) in enumerate(_fields(memoryview(data))):
            if count >= max_fields:
                msg = f"a message of more than {max_fields} fields"
                raise DamagedEntry(msg)
            if isinstance(value, int):
                self._numbers.setdefault(number, []).append(value)
            else:
                self._bytes.setdefault(number, []).append(value)

    def varint(self, number: int) -> int | None:
        """The number in a field, None when there is none."""
        values = self._numbers.get(number)
        return values[-1] if values else None

    def slices(self, number: int) -> list[memoryview]:
        """Every length-delimited value of a field."""
        return self._bytes.get(number, [])

    def slice(self, number: int) -> memoryview | None:
        """The last length-delimited value of a field, None when there is none."""
        values = self._bytes.get(number)
        return values[-1] if values else None

    def text(self, number: int) -> str | None:
        """The text in a field, None when there is none."""
        value = self.slice(number)
        return None if value is None else _decode(value)

    def texts(self, number: int) -> list[str]:
        """Every text of a field."""
        return [_decode(value) for value in self.slices(number)]

    def message(self, *path: int) -> "Message | None":
        """The message under a path of fields, None when any of them is missing."""
        here: Message | None = self
        for number in path:
            value = None if here is None else here.slice(number)
            here = None if value is None else Message(value)
        return here

    def messages(self, number: int) -> Iterator["Message"]:
        """Every message of a repeated field."""
        return map(Message, self.slices(number))

    def varints(self, number: int) -> list[int]:
        """The numbers of a repeated field, packed or not (a parser must accept both)."""
        packed = [value for chunk in self.slices(number) for value in read_varints(chunk)]
        return packed + self._numbers.get(number, [])


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Every field as its number and value; nothing here needs 4- and 8-byte values, they are checked and skipped."""
    position = 0
    end = len(data)
    while position < end:
        start = position
        tag, position = read_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if not 1 <= number <= _MAX_NUMBER:
            msg = f"field number {number} at byte {start}"
            raise DamagedEntry(msg)
        if kind == VARINT:
            value, position = read_varint(data, position)
            yield number, value
            continue
        start, position = _extent(data, position, kind)
        if position > end:
            msg = f"field {number} reaches {position - end} bytes past the end of its message"
            raise DamagedEntry(msg)
        if kind == BYTES:
            yield number, data[start:position]


def _extent(data: memoryview, position: int, kind: int) -> tuple[int, int]:
    """Where the value of a field that is no varint starts and ends."""
    if kind == BYTES:
        length, position = read_varint(data, position)
        return position, position + length
    if kind in {FIXED64, FIXED32}:
        return position, position + (8 if kind == FIXED64 else 4)
    msg = f"wire type {kind} at byte {position}"
    raise DamagedEntry(msg)


def _decode(value: memoryview) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        msg = f"a text of {len(value)} bytes that is not UTF-8"
        raise DamagedEntry(msg) from error
