"""Every dtype of numpy and of ml_dtypes that can be stored comes back, without the memory between its fields."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jcache.formats import pytrees
from tests.formats.pytrees.test_pytrees import again, same, stored

ML_DTYPES = sorted(
    name for name, value in vars(ml_dtypes).items() if isinstance(value, type) and issubclass(value, np.generic)
)


@pytest.mark.parametrize("name", ML_DTYPES)
def test_small_floats_and_integers_keep_their_type(name: str) -> None:
    """bfloat16, the 8-bit floats, int4 and all others of ml_dtypes come back, as arrays and as scalars."""
    value = np.arange(2).astype(getattr(ml_dtypes, name))
    assert same(again([value, value[1]]), [value, value[1]])


PADDED = np.dtype([("a", "i1"), ("b", "f8"), ("c", [("x", "<U3"), ("y", "i2", (2, 3))])], align=True)


@pytest.mark.parametrize(
    "dtype",
    [
        "<U0", "|S0", "|V0", "|V5", ">U2", ">c16", "<M8[25s]", ">M8[us]", "<m8", "<M8[D]", "<M8[2147483s]", PADDED,
        np.dtype([(("a title", "name"), "i4")]), np.dtype([]), np.dtype(("f4", (2, 3))),
        np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2], "itemsize": 12}),
        np.dtype([("inner", [("bf16", ml_dtypes.bfloat16)])]),
    ],
)  # fmt: skip
def test_rare_dtypes_come_back(dtype: Any) -> None:
    """Empty texts, units of time, byte orders, structures with padding, titles and overlaps survive."""
    for shape in ((3,), (), (0, 2), (2, 0)):
        value = np.ndarray(shape, dtype, buffer=bytes(4096))
        found = again(value)
        assert same(found, value)
        assert found.dtype.isalignedstruct == value.dtype.isalignedstruct
        assert found.dtype.fields == value.dtype.fields


def test_padding_is_not_stored() -> None:
    """Memory between the fields of a structure is not stored, since it may hold secrets."""
    data = np.frombuffer(b"secret!!" * 30, PADDED)
    assert b"ecret" in data.tobytes()
    pieces = stored(data[["a"]])
    assert b"secret"[:5] not in pieces and np.array_equal(again(data[["a"]]), data[["a"]])


@pytest.mark.parametrize(
    "value",
    [
        np.broadcast_to(np.arange(3.0), (4, 3)), np.broadcast_to(np.float32(3), (2, 2)), np.arange(10)[::-2],
        np.transpose(np.arange(24.0).reshape(2, 3, 4), (1, 2, 0)), np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.arange(12).reshape(3, 4)[:, 1:3], np.zeros((1,) * 32), np.array(3.0),
        *(np.empty(shape, np.int8) for shape in ((0, 1 << 40), (1 << 62, 0))),
    ],
    ids=lambda value: str((value.shape, value.strides)),
)  # fmt: skip
def test_views_come_back_as_what_they_show(value: np.ndarray[Any, Any]) -> None:
    """Broadcast, reversed, transposed and empty views come back with their shape and elements."""
    assert same(again(value), value)
    assert sum(memoryview(piece).nbytes for piece in pytrees.dump(value).pieces) < 4096


@pytest.mark.parametrize(
    "value",
    [
        np.str_("a\0"), np.str_(""), np.str_("\ud800"), np.bytes_(b"a\0"), np.bytes_(b""), np.True_, np.float64(-0.0),
        np.datetime64("NaT", "s"), np.datetime64("2020-01-01T00:00"), np.timedelta64(3, "D"), np.void(b"abc"),
        np.float16("nan"), np.ones(2, PADDED)[1],
    ],
    ids=repr,
)  # fmt: skip
def test_numpy_scalars_come_back(value: np.generic) -> None:
    """A scalar of numpy comes back as a scalar of numpy, and not as a number of Python's or as an array."""
    assert same(again(value), value)
