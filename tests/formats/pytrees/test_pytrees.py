"""The bytes of graphs: every stored value is loaded unchanged, and other values are refused by name."""

import math
import struct
import subprocess
import sys
import time
import warnings
from collections import Counter, OrderedDict, defaultdict
from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from jcache.errors import DamagedEntry, NotStorable, Unresolved
from jcache.formats import pytrees
from jcache.formats.envelope import Codec, seal, unseal


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


@given(arrays)
def test_arrays_are_aligned_views(value: np.ndarray[Any, Any]) -> None:
    """Arrays in the payload lie at multiples of 64 bytes, and loaded ones are writable views of it."""
    payload = stored(["x" * (value.size % 64), value, b"odd", value.copy("K")])
    memory = np.frombuffer(payload, np.uint8)
    _, first, _, second = pytrees.load(memoryview(payload))
    for found in (first, second):
        assert found.flags.writeable and found.flags.c_contiguous >= value.flags.c_contiguous
        assert found.flags.f_contiguous >= value.flags.f_contiguous
        if found.nbytes:
            assert (found.ctypes.data - memory.ctypes.data) % 64 == 0
            assert np.shares_memory(found, memory)


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
    """A scalar of numpy comes back as that, not as Python's number or as an array."""
    assert same(again(value), value)


def test_an_array_stays_one() -> None:
    """An array that is mentioned twice is one array afterwards as well."""
    value = np.arange(3)
    one, (other, third) = again([value, (value, value.copy())])
    assert one is other and third is not one


REFUSED = {
    "object": (object(), "it is of type object, which no codec knows: return arrays and plain values"),
    "function": ([{"f": len}], r"`\[0\]\['f'\]` is of type builtin_function_or_method"),
    "defaultdict": ({"a": defaultdict(list)}, "collections:defaultdict, which no codec knows"),
    "Counter": (Counter("ab"), "collections:Counter"),
    "objects": (np.array([1, "a"], dtype=object), "holds Python objects: convert it"),
    "objects in fields": (np.zeros(2, np.dtype([("a", "O")])), "holds Python objects"),
    "long double": (np.zeros(2, np.longdouble), "which is not the same on every machine"),
    "long double, one": (np.longdouble(1), "which is not the same on every machine"),
    "masked": (np.ma.zeros(3), "MaskedArray, which is a class of arrays of its own"),
    "records": (np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), "recarray, which is a class of arrays"),
    "metadata": (np.zeros(2, np.dtype("f4", metadata={"a": 1})), "has metadata in its dtype"),
    "a type": (int, "it is of type type"),
    "a dtype": (np.dtype("f4"), r"numpy(\.dtypes:Float32DType|:dtype\[float32\]), which no codec knows"),
    "key": ({(1, len): 2}, r"`.keys\(\)\[0\]\[1\]`"),
    "local time": (time.localtime(), "time:struct_time"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_stored_is_named(name: str) -> None:
    """A refusal is one sentence with the path to the part, its type, the reason and a remedy."""
    value, message = REFUSED[name]
    with pytest.raises(NotStorable, match=message) as refused:
        pytrees.dump(value)
    assert str(refused.value).startswith("The value cannot be stored: ") and str(refused.value).endswith(".")


def test_cycles_are_refused() -> None:
    """A container that holds itself, at any distance, is refused by its path."""
    circle: list[Any] = [1]
    circle.append({"a": (circle,)})
    with pytest.raises(NotStorable, match=r"`\[1\]\['a'\]\[0\]` is of type list, which contains itself"):
        pytrees.dump(circle)


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: {1: v}])
def test_deep_values_are_refused_and_others_load(wrap: Any) -> None:
    """A hundred levels are stored and load; one more, or a hundred thousand, are refused in one short sentence."""
    value: Any = 1
    for _ in range(100):
        value = wrap(value)
    assert again(value) == value
    for more in (1, 100_000):
        for _ in range(more):
            value = wrap(value)
        with pytest.raises(NotStorable, match="nested more than 100 levels deep: flatten") as refused:
            pytrees.dump(value)
        assert len(str(refused.value)) < 400
    while isinstance(value, list | tuple | dict):  # from the outside, so that freeing it needs no stack
        value = next(iter(value.values() if isinstance(value, dict) else value))


def test_values_that_unfold_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of two that holds one list twice, and so on, ends in a refusal before it fills the memory."""
    from jcache.formats.pytrees import encoding

    monkeypatch.setattr(encoding, "MAX_VALUES", 10_000)
    value: Any = 1
    for _ in range(90):
        value = [value, value]
    with pytest.raises(NotStorable, match="makes it more than 10,000 values: make arrays of them"):
        pytrees.dump(value)


def test_an_error_of_the_value_is_a_refusal() -> None:
    """An error that the value's own code raises becomes a refusal."""

    class Odd(type):
        def __hash__(cls) -> int:
            raise RuntimeError("odd")

    with pytest.raises(NotStorable, match="RuntimeError: odd"):
        pytrees.dump([Odd("Odder", (), {})()])


def test_bytes_are_the_same_each_time() -> None:
    """The same value gives the same bytes, in this process and in another."""
    code = "import sys, numpy; from jcache.formats import pytrees; {}"
    value = "{'b': [1, 2.5, (numpy.arange(5), b'x')], 'a': None}"
    program = code.format(f"sys.stdout.buffer.write(b''.join(pytrees.dump({value}).pieces))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == stored(eval(value, {"numpy": np}))


def test_large_arrays_are_not_copied() -> None:
    """The pieces of a large array are views of it, and a seal of pieces is that of the whole."""
    value = np.arange(1 << 16)
    dumped = pytrees.dump({"a": value})
    assert any(np.shares_memory(np.asarray(piece), value) for piece in dumped.pieces if isinstance(piece, memoryview))
    sealed = seal(dumped.pieces, kind="graphs", name="f", key="k", build_seconds=1.0, created_ns=1, codec=Codec.NONE)
    assert unseal(sealed).payload == stored({"a": value})


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


@given(values, st.data())
def test_cut_and_mutated_payloads_raise_only_what_is_documented(value: object, data: st.DataObject) -> None:
    """A payload with bytes changed, cut or inserted is read, or refused as damaged or as not to be made here."""
    payload = stored(value)
    start = data.draw(st.integers(0, len(payload)))
    end = data.draw(st.integers(start, min(len(payload), start + 8)))
    payload[start:end] = data.draw(st.binary(max_size=8) | st.sampled_from([b"[", b"]", b"{}", b'"$', b"9" * 30]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with suppress(DamagedEntry, Unresolved):
            pytrees.load(memoryview(payload))
