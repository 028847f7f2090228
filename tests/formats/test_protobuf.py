"""The wire format of protocol buffers, split into fields."""

import contextlib

import pytest
from hypothesis import given, strategies as st

from jcache.errors import DamagedEntry
from jcache.formats.protobuf import Message, read_varint, read_varints
from tests.helpers.jax_entries import number, text, varint


@given(st.integers(min_value=0, max_value=(1 << 64) - 1))
def test_every_64_bit_varint_is_read(value: int) -> None:
    """A varint is read as the number it encodes, and the position after it is returned."""
    data = b"\xff" + varint(value) + b"\x01"
    assert read_varint(memoryview(data), 1) == (value, len(data) - 1)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80", b"\xff" * 9, b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02", b"\x80" * 10],
    ids=["empty", "cut", "cut-late", "eleven-bytes", "65-bits", "no-end"],
)
def test_malformed_varints_are_refused(data: bytes) -> None:
    """A varint that is cut, longer than ten bytes or over 64 bits is damage."""
    with pytest.raises(DamagedEntry):
        read_varint(memoryview(data), 0)


def test_fields_are_found_by_number_and_type() -> None:
    """Numbers, texts, bytes and embedded messages are found under their field numbers."""
    inner = number(1, 7) + text(2, "ß".encode())
    message = Message(number(1, 300) + text(2, b"abc") + text(3, inner) + text(3, number(1, 8)))
    assert message.varint(1) == 300
    assert message.text(2) == "abc"
    assert [m.varint(1) for m in message.messages(3)] == [7, 8]
    first = next(message.messages(3))
    assert first.text(2) == "ß"


def test_missing_fields_are_none() -> None:
    """A missing field is None or empty, along paths as well."""
    message = Message(text(1, b""))
    assert message.varint(9) is None
    assert message.text(9) is None
    assert message.slice(9) is None
    assert message.message(1, 2, 3) is None
    assert (message.texts(9), message.slices(9), message.varints(9)) == ([], [], [])


def test_another_type_counts_as_unknown() -> None:
    """A field with another wire type than requested counts as missing, as in protobuf."""
    message = Message(number(1, 5) + text(2, b"x"))
    assert message.text(1) is None
    assert message.varint(2) is None


def test_the_last_value_wins() -> None:
    """Of several values of a singular field, the last one counts."""
    message = Message(number(1, 5) + number(1, 6) + text(2, b"a") + text(2, b"b"))
    assert message.varint(1) == 6
    assert message.text(2) == "b"


def test_repeated_numbers_are_read_packed_and_not() -> None:
    """A repeated number may come packed or one by one."""
    packed = text(3, varint(128) + varint(10))
    assert Message(packed).varints(3) == [128, 10]
    assert Message(number(3, 128) + number(3, 10)).varints(3) == [128, 10]
    assert read_varints(memoryview(b"")) == []


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, (1 << 64) - 1) | st.integers(0, 1 << 15)), max_size=6))
def test_rows_are_the_numbers_of_messages(fields: list[tuple[int, int]]) -> None:
    """A row has the last number of each column, and 0 for a missing one, in whatever order the fields come."""
    inner = b"".join(number(column, value) for column, value in fields)
    for more in (b"", text(2, b"x")):
        last = dict(fields)
        row = (last.get(1, 0), last.get(2, 0), last.get(40, 0))
        assert list(Message(text(3, inner + more) * 2).rows(3, 1, 2, 40)) == [row, row]


@pytest.mark.parametrize("inner", [b"\x00\x00", b"\x08", b"\x08\x80", b"\x0b", b"\x08\xff" + b"\xff" * 9 + b"\x01"])
def test_malformed_rows_are_refused(inner: bytes) -> None:
    """Rows that are no messages are refused."""
    with pytest.raises(DamagedEntry):
        list(Message(text(3, inner)).rows(3, 1))


def test_rows_count_as_fields() -> None:
    """The fields of all rows count against the limit of their message."""
    rows = text(3, number(1, 1) * 2) * 3
    assert len(list(Message(rows, max_fields=10).rows(3, 1))) == 3
    with pytest.raises(DamagedEntry):
        list(Message(rows, max_fields=8).rows(3, 1))


def test_fixed_size_fields_are_passed_over() -> None:
    """Four- and eight-byte fields are checked and skipped."""
    data = bytes([1 << 3 | 1]) + bytes(8) + bytes([2 << 3 | 5]) + bytes(4) + number(3, 9)
    assert Message(data).varint(3) == 9


@pytest.mark.parametrize(
    "data",
    [b"\x00\x00", b"\x0b", b"\x0c", b"\x0e", b"\x0f", b"\x0a\x05abcd", b"\x09abcdefg", b"\x0dabc", b"\x08", b"\x0a"],
    ids=["number-0", "group", "end-group", "type-6", "type-7", "long", "short-8", "short-4", "no-value", "no-length"],
)
def test_malformed_messages_are_refused(data: bytes) -> None:
    """Field number 0, groups, unknown types and values past the end are damage."""
    with pytest.raises(DamagedEntry):
        Message(data)


def test_text_must_be_utf8() -> None:
    """A text that is not UTF-8 is damage."""
    with pytest.raises(DamagedEntry):
        Message(text(1, b"\xff")).text(1)


def test_the_number_of_fields_is_bounded() -> None:
    """A message of more fields than allowed is refused instead of filling the memory."""
    with pytest.raises(DamagedEntry):
        Message(number(1, 1) * 11, max_fields=10)


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    """Any bytes yield values or raise DamagedEntry."""
    with contextlib.suppress(DamagedEntry):
        message = Message(data)
        for field in range(1, 40):
            message.varint(field)
            message.texts(field)
            message.varints(field)
            list(message.messages(field))
