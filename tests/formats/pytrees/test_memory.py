"""Parts that a value mentions more than once, and arrays that share memory: a loaded value has them as well."""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from jcache.errors import NotStorable
from jcache.formats import pytrees
from tests.formats.pytrees.test_pytrees import again, same, stored
from tests.helpers.graph_classes import Box

Array = np.ndarray[Any, Any]
STRUCTURE = np.dtype({"names": ["a", "b"], "formats": ["<i2", "<f8"], "offsets": [0, 8], "itemsize": 24})


@st.composite
def views(draw: st.DrawFn, base: Array) -> Array:
    """Draw a view of an array: turned round, cut, transposed, repeated, seen as bytes or as a field."""
    found = base
    for how in draw(
        st.lists(st.sampled_from(["cut", "turn", "transpose", "repeat", "bytes", "field", "windows"]), max_size=3)
    ):
        if how == "cut" and found.ndim:
            start, stop = draw(st.integers(0, 3)), draw(st.integers(2, 9))
            found = found[start : stop : draw(st.integers(1, 3))]
        elif how == "turn" and found.ndim:
            found = found[::-1]
        elif how == "transpose":
            found = found.T
        elif how == "repeat":
            found = np.broadcast_to(found, (2, *found.shape))
        elif how == "bytes" and found.flags.c_contiguous and found.ndim and found.dtype.names is None:
            found = found.view(np.uint8)
        elif how == "field" and found.dtype.names is not None:
            found = found["b"]
        elif how == "windows" and found.ndim == 1 and len(found) > 2:
            found = np.lib.stride_tricks.sliding_window_view(found, 2)
    return found


@st.composite
def arrays(draw: st.DrawFn) -> list[Array]:
    """Draw arrays and views of them, in any order, some of them read-only; some views without their base."""
    found: list[Array] = []
    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.lists(st.integers(0, 6), max_size=3))
        dtype: Any = draw(st.sampled_from(["<f8", ">i2", "|u1", "<c16", "<U2", STRUCTURE]))
        order: Any = draw(st.sampled_from("CF"))
        base = np.zeros(shape, dtype, order=order)
        if base.dtype.names is None:
            base[...] = np.arange(base.size).reshape(base.shape).astype(base.dtype)
        else:
            base["a"], base["b"] = 1, np.arange(base.size).reshape(base.shape)
        found += [base] if draw(st.booleans()) else []
        for _ in range(draw(st.integers(0, 3))):
            view = draw(views(base))
            if draw(st.booleans()):
                view = view[...]  # another object
                view.flags.writeable = False
            found.append(view)
        base.flags.writeable = draw(st.booleans())
    return draw(st.permutations(found))


@st.composite
def values(draw: st.DrawFn) -> Any:
    """Draw a value whose containers hold the same arrays and containers in several places."""
    pool: list[Any] = [*draw(arrays()), 1.5, "text", ()]
    for _ in range(draw(st.integers(1, 8))):
        parts = draw(st.lists(st.sampled_from(range(len(pool))), max_size=4))
        chosen = [pool[number] for number in parts]
        kind = draw(st.sampled_from(["list", "tuple", "dict", "ordered", "keys", "box"]))
        if kind == "box":
            pool.append(Box(chosen))
        elif kind in ("dict", "ordered"):
            made = {str(number): each for number, each in enumerate(chosen)}
            pool.append(made if kind == "dict" else OrderedDict(made))
        elif kind == "keys":
            pool.append({(1, number): each for number, each in enumerate(chosen)})
        else:
            pool.append(chosen if kind == "list" else tuple(chosen))
    return [pool[-1], *pool[: draw(st.integers(0, len(pool)))]]


def nodes(value: Any) -> Iterator[Any]:
    """Yield the containers and arrays of a value, each as often as it is mentioned."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Box):
        yield value
        yield from nodes(value.value)
    elif isinstance(value, dict):
        yield value
        for key, each in value.items():
            yield from nodes(key)
            yield from nodes(each)
    elif isinstance(value, list | tuple):
        if value:
            yield value
        for each in value:
            yield from nodes(each)


def aliases(value: Any) -> list[int]:
    """Return for each node the number of the first one that is the same object."""
    first: dict[int, int] = {}
    return [first.setdefault(id(node), number) for number, node in enumerate(nodes(value))]


def layout(array: Array) -> tuple[Any, ...]:
    """Return what there is to see of an array beside its elements; steps along axes that lead nowhere do not count."""
    steps = [stride for size, stride in zip(array.shape, array.strides, strict=True) if size > 1]
    flags = array.flags
    return (
        array.dtype,
        array.shape,
        steps if array.size else None,
        flags.writeable,
        flags.aligned,
        flags.c_contiguous,
        flags.f_contiguous,
    )


def check_arrays(value: Any, found: Any) -> None:
    """Check that arrays are laid out alike, and share memory and bases with the same others."""
    before, after = ([node for node in nodes(each) if isinstance(node, np.ndarray)] for each in (value, found))
    assert [layout(each) for each in before] == [layout(each) for each in after]
    for (one, other), (its, others) in zip(combinations(before, 2), combinations(after, 2), strict=True):
        assert np.shares_memory(one, other) == np.shares_memory(its, others)
        if one.size and other.size:
            assert (one.base is other) == (its.base is others) and (other.base is one) == (others.base is its)


@given(values())
def test_a_loaded_value_shares_what_the_stored_one_does(value: Any) -> None:
    """Parts are the same objects in the same places; arrays have the same elements, memory, strides and flags."""
    found = again(value)
    assert aliases(found) == aliases(value)
    before, after = ([each for each in nodes(one) if isinstance(each, np.ndarray)] for one in (value, found))
    assert all(map(np.array_equal, before, after))
    check_arrays(value, found)
    assert stored(found) == stored(value)


def test_what_is_written_through_one_array_is_seen_through_the_other() -> None:
    """As in the value that was built."""
    rates = np.arange(6.0)
    found = again({"last": rates[3:], "rates": rates, "also": (1, rates)})
    found["last"][0] = 7.0
    assert found["rates"][3] == found["also"][1][3] == 7.0
    assert found["last"].base is found["rates"] is found["also"][1]


def test_columns_of_a_large_array_are_stored_alone() -> None:
    """Where most of the memory between elements is of no array of the value, it is not stored, and zero when loaded."""
    table = np.arange(3_000_000.0).reshape(-1, 100)
    value = [table[:, 3], table[:, 7], table[::-1, 3][:5]]
    assert len(stored(value)) < 3 * 8 * 30_000
    found = again(value)
    check_arrays(value, found)
    assert all(map(same, value, found))
    found[0][-1] = -1.0
    assert found[2][0] == -1.0


def test_memory_that_is_of_no_array_is_not_stored() -> None:
    """What lies between the elements may be anything, secrets included."""
    secret = np.frombuffer(b"secret!!" * 8, np.uint8).copy()
    assert b"et!" not in stored(secret[::4]) and b"cre" not in stored(secret.view("<u2")[::3])


def test_arrays_of_bytes_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer of bytes is loaded read-only, and views of more memory than an entry may have are refused."""
    value = np.frombuffer(b"12345678", np.uint8)
    assert not again(value).flags.writeable
    from jcache.formats.pytrees import memory, payload

    monkeypatch.setattr(memory, "MAX_CONTENT", payload.MAX_TREE + 100)
    with pytest.raises(NotStorable, match="return copies"):
        pytrees.dump(np.zeros(100)[::2])
