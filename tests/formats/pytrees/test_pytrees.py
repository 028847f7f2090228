"""The bytes of graphs: every stored value is loaded unchanged, and other values are refused by name."""

import math
import struct
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from jcache.formats import pytrees


def stored(value: object) -> bytearray:
    return bytearray(b"".join(pytrees.dump(value).pieces))


def again(value: object) -> Any:
    """The value as it comes back."""
    return pytrees.load(memoryview(stored(value)))


def ordered(value: object) -> str:
    """Return the text of a plain value, with the members of sets in order."""
    if isinstance(value, set | frozenset | tuple):
        members = map(ordered, value)
        return f"{type(value)}{list(members) if isinstance(value, tuple) else sorted(members)}"
    return repr(value)


def same(one: Any, other: Any) -> bool:
    """Return whether two values have the same type and the same bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and (one.shape, one.tobytes()) == (other.shape, other.tobytes()))
    if isinstance(one, np.generic):
        return bool(one.dtype == other.dtype) and one.tobytes() == other.tobytes()
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, set | frozenset):
        return one == other or ordered(one) == ordered(other)  # the latter where they hold NaN
    return bool(one == other)


texts = st.text(st.characters(), max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers() | st.integers(-(1 << 70), 1 << 70) | st.floats() | texts
    | st.complex_numbers() | st.binary(max_size=90) | st.sampled_from(["$x", "$array", "\ud800\udc00", "-0.0"])
)  # fmt: skip
dtypes = (
    npst.scalar_dtypes().filter(lambda dtype: dtype.str[1:] not in ("f16", "c32"))
    | npst.unicode_string_dtypes() | npst.byte_string_dtypes() | npst.datetime64_dtypes() | npst.timedelta64_dtypes()
    | st.sampled_from([np.dtype(ml_dtypes.bfloat16), np.dtype([("a", ">i2"), ("b", "<f8", (2,))])])
)  # fmt: skip
raw = st.binary(min_size=64, max_size=64)
shapes = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def array(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int, order: Any) -> np.ndarray[Any, Any]:
    """An array of any bits; booleans and texts have bits that they can have."""
    count = math.prod(shape) * dtype.itemsize
    data = np.random.default_rng(seed).integers(0, 2 if dtype.kind in "bU" else 256, count, np.uint8)
    if dtype.kind == "U":
        data = (data.view("u1") * (np.arange(count) % 4 == (0 if dtype.byteorder != ">" else 3))).astype(np.uint8)
    return np.asarray(np.ndarray(shape, dtype, buffer=data.tobytes()), order=order).copy(order=order)


arrays = st.builds(
    array, dtypes.filter(lambda dtype: dtype.itemsize > 0), shapes, st.integers(0, 9), st.sampled_from("CF")
)
hashables = st.recursive(
    scalars, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=3
)
values = st.recursive(
    scalars | arrays | hashables,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(hashables, inner, max_size=4) | st.sets(hashables, max_size=3)
        | st.dictionaries(hashables, inner, max_size=3).map(OrderedDict)
    ),
    max_leaves=12,
)  # fmt: skip


@given(values)
def test_values_round_trip(value: object) -> None:
    """Any stored value is loaded with the same types, bits and order."""
    assert same(again(value), value)


@given(st.lists(st.integers(-(1 << 66), 1 << 66) | st.floats() | texts | st.booleans(), min_size=8, max_size=20))
def test_long_lists_round_trip(value: list[object]) -> None:
    """Long lists of one type, which are encoded at once, are loaded unchanged."""
    kinds = [[item for item in value if type(item) is kind] * 8 for kind in (int, float, str, bool)]
    assert same(again(kinds), kinds)


def test_an_array_stays_one() -> None:
    """An array that a value has in two places is one array after loading, too."""
    value = np.arange(3)
    one, (other, third) = again([value, (value, value.copy())])
    assert one is other and third is not one


def test_plain_values_need_no_numpy() -> None:
    """Storing and loading plain values imports neither numpy nor JAX."""
    code = """
import sys
from jcache.formats import pytrees
data = b"".join(pytrees.dump({"a": [1, (2.5, None)]}).pieces)
assert pytrees.load(memoryview(bytearray(data))) == {"a": [1, (2.5, None)]}
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "jax", "ml_dtypes"} & set(done.stdout.split())
