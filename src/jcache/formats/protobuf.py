"""Protocol buffers: a reader of the wire format, one message at a time.

The grammar is https://protobuf.dev/programming-guides/encoding/ (version 3, no groups):

    message = *field
    field   = tag value                  tag = varint of (number << 3 | type), number 1 … 2^29 - 1
    value   = varint                     type 0
            | 8 bytes                    type 1
            | varint length, bytes       type 2: text, bytes, an embedded message, packed numbers
            | 4 bytes                    type 5
    varint  = 1 to 10 bytes, seven bits each, lowest first, the high bit on all but the last; below 2^64

This is jcache's own code, since the ``protobuf`` package is no dependency of jcache and XLA's schemas are private to
XLA. A message is split into its fields only: the position of an embedded message is noted, and that message is read
when a caller asks for it, so that megabytes of object code cost one number. As in protobuf itself, a field of a known
number and another type than the schema's counts as unknown, and the last of several values of a singular field wins.

A field that takes two bytes on the wire takes a hundred in memory. So the number of fields is bounded, in a message
together with all messages that are read from it: a few compressed bytes cannot make memory or time grow without bound.
"""

from collections.abc import Iterator
from typing import Final

from jcache.errors import DamagedEntry

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

MAX_FIELDS: Final = 1_000_000  # the largest message seen in an entry has 3,000
_MAX_TAG: Final = (1 << 32) - 1
_FIXED_SIZES: Final = {FIXED64: 8, FIXED32: 4}


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return the number that starts at a position, and the position after it.

    Raises:
        DamagedEntry: the bytes end first, or the number does not fit 64 bits.
    """
    value, here = 0, position
    try:
        for shift in range(0, 70, 7):
            byte = data[here]
            here += 1
            if byte < 0x80:
                value |= byte << shift
                if value >> 64:
                    break
                return value, here
            value |= (byte & 0x7F) << shift
    except IndexError:
        pass
    raise DamagedEntry(f"no 64-bit varint at byte {position}")


def read_varints(data: memoryview, max_count: int = MAX_FIELDS) -> list[int]:
    """Return the numbers of packed varints.

    Raises:
        DamagedEntry: the bytes are no sequence of varints, or one of more than ``max_count``.
    """
    values: list[int] = []
    position = 0
    while position < len(data):
        if len(values) == max_count:
            raise DamagedEntry(f"more than {max_count} packed numbers")
        value, position = read_varint(data, position)
        values.append(value)
    return values


class Message:
    """The fields of one message; fields of the same number are in the order of the wire.

    Args:
        data: bytes of the message.
        max_fields: how many fields it and all messages that are read from it may have together.
        parent: the message that it was read from, whose allowance of fields it shares.

    Raises:
        DamagedEntry: the bytes do not follow the grammar above, or have too many fields.
    """

    __slots__ = ("_allowance", "_data", "_fields")

    def __init__(
        self, data: memoryview | bytes, max_fields: int = MAX_FIELDS, *, parent: "Message | None" = None
    ) -> None:
        self._data = memoryview(data)
        self._allowance: list[int] = [max_fields] if parent is None else parent._allowance
        self._fields: dict[int, list[int]] = {}  # by tag: the numbers of varints, the positions of other lengths
        self._split()

    def _split(self) -> None:  # noqa: C901  one loop, for speed
        """Find every field; 4- and 8-byte values are checked and skipped, since no caller needs them.

        Tags and numbers of one or two bytes, as most are, are read in the loop itself: a third of the time of
        `inspect` is spent here. A value that reaches past the end is noticed at the end.
        """
        data, fields = self._data, self._fields
        position, end, tag, count = 0, len(data), 0, 0
        try:
            for count in range(self._allowance[0]):  # noqa: B007
                if position >= end:
                    break
                start = position + 1
                tag = data[position]
                if tag > 0x7F:
                    second = data[start]
                    if second < 0x80:
                        tag += (second << 7) - 0x80
                        start += 1
                    else:
                        tag, start = _read_long_tag(data, position)
                if tag < 8:
                    raise DamagedEntry(f"field number {tag >> 3} at byte {position}")
                if tag & 5:  # neither VARINT nor BYTES
                    position = start + _fixed_size(tag & 7, start)
                    continue
                value, position = data[start], start + 1
                if value > 0x7F:
                    second = data[position]
                    if second < 0x80:
                        value += (second << 7) - 0x80
                        position += 1
                    elif (third := data[position + 1]) < 0x80:
                        value += (second << 7) + (third << 14) - 0x4080
                        position += 2
                    else:
                        value, position = read_varint(data, start)
                if tag & 2:  # BYTES
                    position += value
                    value = start
                fields.setdefault(tag, []).append(value)
        except IndexError:
            position = end + 1
        _check_end(position, end, tag)
        self._allowance[0] -= count

    def numbers(self) -> set[int]:
        """Return the numbers of the fields, except 4- and 8-byte ones."""
        return {tag >> 3 for tag in self._fields}

    def varint(self, number: int) -> int | None:
        """Return the number in a field, None when there is none."""
        values = self._fields.get(number << 3 | VARINT)
        return values[-1] if values else None

    def slices(self, number: int) -> list[memoryview]:
        """Return the length-delimited values of a field."""
        return list(self._slices_of(number))

    def slice(self, number: int) -> memoryview | None:
        """Return the last length-delimited value of a field, None when there is none."""
        positions = self._fields.get(number << 3 | BYTES)
        return self._slice_at(positions[-1]) if positions else None

    def text(self, number: int) -> str | None:
        """Return the text in a field, None when there is none."""
        value = self.slice(number)
        return None if value is None else _decode(value)

    def texts(self, number: int) -> list[str]:
        """Return the texts of a field."""
        return [_decode(value) for value in self.slices(number)]

    def message(self, *path: int) -> "Message | None":
        """Return the message under a path of fields, None when any of them is missing."""
        here: Message | None = self
        for number in path:
            value = None if here is None else here.slice(number)
            here = None if value is None else Message(value, parent=self)
        return here

    def messages(self, number: int) -> Iterator["Message"]:
        """Yield the messages of a repeated field."""
        return (Message(value, parent=self) for value in self._slices_of(number))

    def rows(self, number: int, *columns: int) -> Iterator[tuple[int, ...]]:
        """Yield, for each message of a repeated field, the numbers in some of its fields, 0 for a missing one."""
        tags = [column << 3 | VARINT for column in columns]
        for value in self._slices_of(number):
            row = self._small_numbers(value)
            if row is None:
                message = Message(value, parent=self)
                row = {tag: values[-1] for tag, values in message._fields.items()}
            yield tuple([row.get(tag, 0) for tag in tags])

    def _small_numbers(self, data: memoryview) -> dict[int, int] | None:
        """Read a message that has numbers below 2^14 only, in a third of the time; return None for any other.

        Each field counts as if it had two bytes, the fewest possible.
        """
        most = len(data) >> 1
        if most > self._allowance[0]:
            return None
        row: dict[int, int] = {}
        rest = iter(data)
        try:
            for tag in rest:
                if tag & 0x87 or not tag:
                    return None
                value = next(rest)
                if value > 0x7F:
                    second = next(rest)
                    if second > 0x7F:
                        return None
                    value += (second << 7) - 0x80
                row[tag] = value
        except StopIteration:
            return None
        self._allowance[0] -= most
        return row

    def varints(self, number: int) -> list[int]:
        """Return the numbers of a repeated field, packed or not (a parser must accept both); each counts as a field."""
        values: list[int] = []
        for chunk in self.slices(number):
            packed = read_varints(chunk, self._allowance[0])
            self._allowance[0] -= len(packed)
            values += packed
        return values + self._fields.get(number << 3 | VARINT, [])

    def _slices_of(self, number: int) -> Iterator[memoryview]:
        return map(self._slice_at, self._fields.get(number << 3 | BYTES, ()))

    def _slice_at(self, position: int) -> memoryview:
        length, start = self._data[position], position + 1
        if length > 0x7F:
            length, start = read_varint(self._data, position)
        return self._data[start : start + length]


def _read_long_tag(data: memoryview, position: int) -> tuple[int, int]:
    """Return a tag of three bytes or more, and the position after it."""
    tag, start = read_varint(data, position)
    if tag > _MAX_TAG:
        raise DamagedEntry(f"field number {tag >> 3} at byte {position}")
    return tag, start


def _check_end(position: int, end: int, tag: int) -> None:
    """Check that the last field of a message, which has a tag, ends where the message does."""
    if position > end:
        raise DamagedEntry(f"field {tag >> 3} reaches past the end of its message")
    if position < end:
        raise DamagedEntry("more fields than a message may have")


def _fixed_size(kind: int, position: int) -> int:
    if kind not in _FIXED_SIZES:
        raise DamagedEntry(f"wire type {kind} at byte {position}")
    return _FIXED_SIZES[kind]


def _decode(value: memoryview) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise DamagedEntry(f"a text of {len(value)} bytes that is not UTF-8") from error
