"""Remove a field from the bytes of XLA's compile options, which are protocol buffers.

A field that was once set stays in the bytes, even with its default value, and JAX hashes the bytes. The bindings of XLA
cannot clear a field.

This module needs the standard library alone, as `jcache.jax_internals.path_keys` does.
"""

if False:  # for the type checker: typing and collections.abc are not needed to run
    from collections.abc import Sequence


def without_field(message: bytes, path: "Sequence[int]") -> bytes:
    """Return a protocol buffer message without a field.

    Args:
        message: the bytes of the message.
        path: the numbers of the fields that lead to this field, through embedded messages.

    Raises:
        ValueError: the bytes are no message.
        IndexError: the bytes end too early.
    """
    kept, position = b"", 0
    while position < len(message):
        start = position
        tag, position = _varint(message, position)
        content, end = _value(message, position, tag & 7)
        position = end
        if tag >> 3 != path[0]:
            kept += message[start:end]
        elif len(path) > 1:
            inner = without_field(message[content:end], path[1:])
            kept += _as_varint(tag) + _as_varint(len(inner)) + inner
    return kept


def _value(message: bytes, position: int, wire_type: int) -> "tuple[int, int]":
    """Return where the content of a field starts and ends."""
    if wire_type == 2:
        length, position = _varint(message, position)
        return position, position + length
    if wire_type == 0:
        return position, _varint(message, position)[1]
    if wire_type in (1, 5):
        return position, position + (8 if wire_type == 1 else 4)
    raise ValueError(wire_type)


def _varint(message: bytes, position: int) -> "tuple[int, int]":
    """Return the number at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def _as_varint(value: int) -> bytes:
    text = bytearray()
    while value >= 0x80:
        text.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*text, value])
