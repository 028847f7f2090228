"""Scalars of the grammar that encoding and decoding share."""

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jcache.formats.pytrees.grammar import are_nodes, bits_of, from_bits, is_text

ITEMS = st.one_of(
    st.lists(st.integers(-(1 << 66), 1 << 66), min_size=8, max_size=9),
    st.lists(st.floats(), min_size=8, max_size=9),
    st.lists(st.text(st.characters(), max_size=3), min_size=8, max_size=9),
    st.lists(st.booleans() | st.none() | st.integers(), max_size=9),
)


def is_node(item: Any) -> bool:
    """Return whether JSON holds a value exactly."""
    if isinstance(item, float):
        return math.isfinite(item)
    return is_text(item) if isinstance(item, str) else item is None or item.bit_length() <= 64


@given(ITEMS)
def test_many_values_are_nodes_only_if_each_of_them_is(items: list[Any]) -> None:
    """Values that are encoded at once have one type, and JSON holds each of them exactly."""
    if are_nodes(items):
        assert len(set(map(type, items))) == 1 and all(map(is_node, items))
        assert json.loads(json.dumps(items)) == items
    elif len(items) >= 8 and len(set(map(type, items))) == 1 and items[0] is not None:
        assert not all(map(is_node, items))


@given(st.floats())
def test_the_bits_of_a_float_come_back(value: float) -> None:
    """Every float, a NaN or a negative zero too, has 16 digits that lead back to its bits."""
    assert len(bits_of(value)) == 16
    assert struct.pack(">d", from_bits(bits_of(value))) == struct.pack(">d", value)


@pytest.mark.parametrize("text", ["", "0" * 15, "0" * 17, "x" * 16, "0" * 32])
def test_other_texts_are_no_bits(text: str) -> None:
    """Only 16 hexadecimal digits are the bits of a float."""
    with pytest.raises(ValueError):
        from_bits(text)


@given(st.text(st.characters()))
def test_a_text_is_what_utf8_can_write(value: str) -> None:
    """A string is a text exactly if UTF-8 can write it, which a lone surrogate forbids."""
    try:
        value.encode()
    except UnicodeEncodeError:
        assert not is_text(value)
    else:
        assert is_text(value)
