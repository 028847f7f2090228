"""A field is removed from the bytes of XLA's compile options."""

import pytest

from jcache.jax_internals.option_bytes import without_field

pytestmark = pytest.mark.contract


def message(*fields: tuple[int, bytes]) -> bytes:
    """A protocol buffer message of fields with bytes in them, each number below 16."""
    return b"".join(bytes([number << 3 | 2]) + length(len(content)) + content for number, content in fields)


def length(of: int) -> bytes:
    """The varint of a number below 16,384."""
    return bytes([of]) if of < 128 else bytes([of & 127 | 128, of >> 7])


def test_a_field_is_removed() -> None:
    """Fields of all types stay as they are, and the messages around the field get their new lengths."""
    others = b"\x08\x96\x01" + b"\x11" + b"8bytes!!" + b"\x1d" + b"four"
    inner = others + message((4, b"x" * 60)) * 3
    whole = message((3, message((3, inner + b"\x92\x13\x03abc"), (1, b"a"))), (2, b"last"))
    assert without_field(whole, (3, 3, 306)) == message((3, message((3, inner), (1, b"a"))), (2, b"last"))
    assert without_field(whole, (7,)) == whole and without_field(b"", (1, 2)) == b""
    with pytest.raises(IndexError):
        without_field(b"\x96", (1,))
    with pytest.raises(ValueError, match="7"):
        without_field(b"\x07", (1,))
