"""Values in fingerprints: equal ones give one key, different ones never do, and some have none."""

import copy
import io
import math
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import example, given, settings, strategies as st

from jcache.fingerprint import fingerprint
from tests.helpers.fingerprints import key_of


def typed(value: object) -> object:
    """A value with the types of all in it, so that only what is the same is equal."""
    kind = type(value)
    if kind is float:
        return "float", "nan" if math.isnan(value) else struct.pack("d", value)  # type: ignore[arg-type]
    if kind is complex:
        return "complex", typed(value.real), typed(value.imag)  # type: ignore[attr-defined]
    if kind in (list, tuple):
        return kind.__name__, *map(typed, value)  # type: ignore[call-overload]
    if kind is dict:
        return "dict", frozenset((typed(k), typed(v)) for k, v in value.items())  # type: ignore[attr-defined]
    if kind in (set, frozenset):
        return kind.__name__, frozenset(map(typed, value))  # type: ignore[call-overload]
    if kind is np.ndarray:
        return "array", value.dtype.str, value.shape, value.tobytes()  # type: ignore[attr-defined]
    return kind.__name__, value


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.binary(), st.text(),
    st.characters(categories=["Cs"]), st.just(...), st.integers(-2, 2), st.sampled_from([0.0, -0.0, 1.0, True, 2**70]),
)  # fmt: skip
KEYS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.tuples(st.integers(), st.text()))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.frozensets(KEYS, max_size=4),
        st.sets(KEYS, max_size=4),
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, min_size=20, max_size=40))
@settings(max_examples=60)  # of at least 190 pairs each; the next test has more of them
@example([0, 0.0, -0.0, False, None, "", b"", (), [], {}, set(), frozenset(), 0j, ...])
@example([1, True, 1.0, "1", b"1", (1,), [1], {1}, {1: 1}, {1: True}, {True: 1}, {"1": 1}])
@example([["ab"], ["a", "b"], [["a"], "b"], ["a", ["b"]], "ab", ("ab",), [[], []], [[[]]]])
def test_different_values_never_share_a_key(values: list[Any]) -> None:
    """Of all pairs of generated values those that are the same in type and content share a key, and no others."""
    by_hash: dict[str, object] = {}
    by_content: dict[object, str] = {}
    for value in values:
        content, key = typed(value), key_of(value)
        assert by_hash.setdefault(key, content) == content
        assert by_content.setdefault(content, key) == key


def test_a_hundred_thousand_pairs(chance: random.Random) -> None:
    """Values that differ in one place, and in no more than a digit or a type, never share a key."""

    def scalar() -> object:
        return chance.choice(
            [chance.randrange(-3, 3), float(chance.randrange(-2, 2)), chance.random(), None, True, "a", b"a", -0.0]
        )

    def value(depth: int) -> object:
        size = chance.randrange(4)
        match chance.randrange(6) if depth else 0:
            case 1:
                return [value(depth - 1) for _ in range(size)]
            case 2:
                return tuple(value(depth - 1) for _ in range(size))
            case 3:
                return {chance.choice("abc"): value(depth - 1) for _ in range(size)}
            case 4:
                return np.array([chance.randrange(3) for _ in range(size)], chance.choice(["i4", "i8", "f4", ">i4"]))
        return scalar()

    hashes: dict[str, object] = {}
    contents: dict[object, str] = {}
    for _ in range(3000):
        made = value(3)
        content, key = typed(made), key_of(made)
        assert hashes.setdefault(key, content) == content
        assert contents.setdefault(content, key) == key
        assert key_of(copy.deepcopy(made)) == key
    assert len(hashes) * (len(hashes) - 1) // 2 > 100_000


def test_order_counts_only_where_it_is_part_of_the_value() -> None:
    """Dictionaries, sets and keyword arguments have none."""
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of({"x", "y", "z"}) == key_of({"z", "y", "x"})

    def two(**given: int) -> None: ...

    assert fingerprint(two, (), {"a": 1, "b": 2}).hash == fingerprint(two, (), {"b": 2, "a": 1}).hash


def test_a_nan_with_a_sign_or_a_payload_is_another_one() -> None:
    """`copysign` sees the sign of a NaN, and `view` its payload; the usual NaN has one key."""
    other: float = struct.unpack("d", struct.pack("Q", 0x7FF8000000000001))[0]
    assert key_of(float("nan")) == key_of(math.nan)
    assert len({key_of(math.nan), key_of(-math.nan), key_of(other)}) == 3


def test_one_list_twice_is_not_two_equal_lists() -> None:
    """A function that changes one argument sees whether the other is the same."""
    shared = [1]

    def two(a: list[int], b: list[int]) -> None: ...

    assert fingerprint(two, (shared, shared)).hash != fingerprint(two, ([1], [1])).hash
    assert fingerprint(two, (shared, shared)).parts["argument b"] == "object 0, seen in argument a"


def test_a_file_that_is_open_for_reading_counts_by_content_and_position(tmp_path: Path) -> None:
    """Wherever it lies."""
    keys = []
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / name).write_text(text)
        with open(tmp_path / name) as file:
            keys.append(key_of(file))
            file.read(1)
            keys.append(key_of(file))
    assert keys[:2] == keys[2:4] and len(set(keys)) == 4
    assert key_of(io.BytesIO(b"a")) == key_of(io.BytesIO(b"a")) != key_of(io.BytesIO(b"b"))
