"""Values in fingerprints: equal ones give one key, different ones never do, and some have none."""

import collections
import contextvars
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import itertools
import logging
import math
import os
import pathlib
import random
import re
import socket
import struct
import sys
import threading
import types
import typing
import uuid
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from jcache.errors import GraphKeyError
from jcache.fingerprint import changes, fingerprint
from tests.helpers.jax_programs import run


def build(value: object = None) -> object:
    return value


def of(value: object) -> str:
    return fingerprint(build, (value,)).hash


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Mesh:
    n: int
    points: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Edge:
    a: int
    b: float


class Pair(typing.NamedTuple):
    a: int
    b: int


class Plain:
    def __init__(self, **state: object) -> None:
        vars(self).update(state)


class Keyed:
    def __init__(self, key: object) -> None:
        self.handle = threading.Lock()
        self.key = key

    def __cache_key__(self) -> object:
        return self.key


class Text(str):
    __slots__ = ()


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
        content, key = typed(value), of(value)
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
        content, key = typed(made), of(made)
        assert hashes.setdefault(key, content) == content
        assert contents.setdefault(content, key) == key
        assert of(copy.deepcopy(made)) == key
    assert len(hashes) * (len(hashes) - 1) // 2 > 100_000


LOOPS: list[Any] = [[1], {"a": 1}]
LOOPS[0].append(LOOPS[0])
LOOPS[1]["self"] = LOOPS[1]
MIXED = np.zeros(2, dtype=[("a", "i4"), ("b", "f8", (2,))])
OPTIONAL, LIST = (getattr(typing, name)[int] for name in ("Optional", "List"))
DISTINCT: list[Any] = [
    *LOOPS, [1], {"a": 1},
    float("nan"), 0.0, -0.0, np.float64(0.0), np.float32(0.0), np.int64(0), np.int32(0), np.bool_(False), False, 0,
    10**50, 10**50 + 1, -(10**5000), "\ud800", "?", "\ud800\udc00", "\U00010000", bytearray(b"a"), b"a", "a", Text("a"),
    Color.RED, Color.BLUE, 1, Pair(1, 2), (1, 2), [1, 2], Edge(1, 2.0), Edge(1, -0.0), Mesh(1), Mesh(1, [1]),
    Plain(a=1), Plain(b=1), Plain(a=2), Plain(), object(), Plain, Mesh, int, bool,
    {"a": 1, "b": 2}, collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1),
    collections.defaultdict(int, a=1), collections.defaultdict(list, a=1), collections.Counter("aab"),
    collections.deque([1]), collections.deque([1], 5), range(3), range(0, 3, 2), slice(1, 2), slice(None, 2),
    types.SimpleNamespace(a=1), types.MappingProxyType({"a": 1}), ..., NotImplemented,
    datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    datetime.datetime(2024, 1, 1, fold=1), datetime.time(1), datetime.timedelta(1), datetime.UTC,
    decimal.Decimal("1.0"), decimal.Decimal("1.00"), decimal.Decimal("NaN"), fractions.Fraction(1, 3),
    uuid.UUID(int=1), pathlib.Path("a"), pathlib.PurePosixPath("a"), pathlib.Path("b"),
    re.compile("a"), re.compile("a", re.IGNORECASE), re.compile(b"a"), functools.partial(build, 1),
    functools.partial(build, 2), functools.partial(build, value=1), build, len, math.sin, str.upper, "a".upper,
    list[int], list[str], int | str, typing.Any, OPTIONAL, LIST, typing.Literal[1],
    Keyed(1), Keyed(2), np, math,
    np.zeros(3), np.zeros(3, "f4"), np.zeros((3, 1)), np.zeros((1, 3)), np.zeros(0), np.zeros((0, 3)), np.array(0.0),
    np.zeros(3, ">f8"), np.zeros(3, "M8[s]"), np.zeros(3, "M8[ms]"), np.zeros(3, "U2"), np.zeros(3, "S2"), MIXED,
    MIXED["a"].copy(), np.ones((2, 2)), np.asfortranarray(np.ones((2, 2))), np.ones((4, 2))[::2], np.ones(3, bool),
    np.array([1, "a"], object), np.array([1, "b"], object), np.ma.masked_array([1.0], [True]),
    np.ma.masked_array([1.0], [False]), np.dtype("f8"), np.dtype(">f8"), np.float64, np.sin, np.cos,
    np.random.default_rng(1), np.random.default_rng(2), np.random.PCG64(1), np.random.RandomState(1),
    np.datetime64("2024-01-01"), np.datetime64("2024-01-01", "s"), np.str_("a"), np.bytes_(b"a"), np.float64("nan"),
    random.Random(1), random.Random(2), ValueError("a"), ValueError("b"), typing.TypeVar("T"),
]  # fmt: skip


def test_each_kind_of_value_is_one_of_its_own() -> None:
    """No two of a collection of values that are easily taken for one another share a key or a text."""
    keys: dict[str, object] = {}
    texts: dict[str, object] = {}
    for value in DISTINCT:
        made = fingerprint(build, (value,))
        assert made == fingerprint(build, (value,))
        assert keys.setdefault(made.hash, value) is value
        shown = repr({label: text for label, text in made.parts.items() if label != "function"})
        assert texts.setdefault(shown, value) is value


@pytest.mark.parametrize(
    "value", [v for v in DISTINCT if type(v) not in (object, typing.TypeVar)], ids=lambda value: type(value).__name__
)
def test_a_copy_has_the_same_key(value: object) -> None:
    """What is equal and lies elsewhere has the same key."""
    if type(value) is types.MappingProxyType:
        copied: object = types.MappingProxyType({**value})
    elif isinstance(value, Keyed | types.ModuleType):
        copied = value
    else:
        copied = copy.deepcopy(value)
    strided = isinstance(value, np.ndarray) and not (value.flags.c_contiguous or value.flags.f_contiguous)
    assert (of(copied) == of(value)) is not strided


def test_a_weak_reference_counts_by_what_it_refers_to() -> None:
    """Which is nothing any more, if that is gone."""
    one, same, other = {1}, {1}, {2}
    assert of(weakref.ref(one)) == of(weakref.ref(same)) != of(weakref.ref(other))
    gone = weakref.ref(other)
    before = of(gone)
    del other
    assert of(gone) not in {before, of(weakref.ref(one))}


def test_order_counts_only_where_it_is_part_of_the_value() -> None:
    """Dictionaries, sets and keyword arguments have none."""
    assert of({"a": 1, "b": 2}) == of({"b": 2, "a": 1})
    assert of({"x", "y", "z"}) == of({"z", "y", "x"})

    def two(**given: int) -> None: ...

    assert fingerprint(two, (), {"a": 1, "b": 2}).hash == fingerprint(two, (), {"b": 2, "a": 1}).hash


def test_all_nans_are_one() -> None:
    """Which NaN it is nobody can see."""
    other: float = struct.unpack("d", struct.pack("Q", 0x7FF8000000000001))[0]
    assert of(float("nan")) == of(-float("nan")) == of(other)


def test_one_list_twice_is_not_two_equal_lists() -> None:
    """A function that changes one argument sees whether the other is the same."""
    shared = [1]

    def two(a: list[int], b: list[int]) -> None: ...

    assert fingerprint(two, (shared, shared)).hash != fingerprint(two, ([1], [1])).hash
    assert fingerprint(two, (shared, shared)).parts["argument b"] == "object 0, seen in argument a"


def test_arguments_are_bound_as_a_call_binds_them() -> None:
    """Positions, names and defaults that mean the same call share a key."""

    def f(a: int, /, b: int = 2, *rest: int, c: int = 3, **more: int) -> None: ...

    def key(*args: int, **kwargs: int) -> str:
        return fingerprint(f, args, kwargs).hash

    assert key(1) == key(1, 2) == key(1, b=2) == key(1, c=3) == key(1, 2, c=3)
    assert len({key(1), key(2), key(1, 3), key(1, 2, 3), key(1, c=4), key(1, d=3), key(1, a=1)}) == 7
    assert fingerprint(functools.partial(f, 1), (2,)).hash == key(1, 2)
    assert fingerprint(f, (1,), {"b": 5}).parts["argument b"] == "5"
    assert fingerprint(f, (), {}).hash != key(1)  # a call that fails has some key, and fails


def test_a_wrapper_decides_what_its_arguments_mean() -> None:
    """The signature of what it wraps says nothing of its own defaults."""

    def inner(x: int = 1) -> int:
        return x

    @functools.wraps(inner)
    def outer(x: int = 2) -> int:
        return inner(x)

    assert fingerprint(outer, ()).hash != fingerprint(outer, (1,)).hash
    assert fingerprint(outer, ()).hash == fingerprint(outer, (2,)).hash


def generator() -> Iterator[int]:
    yield 1


def deep(levels: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(levels):
        inner = [inner]
    return inner


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a generator": (generator, "a generator"),
    "an iterator": (lambda: iter([1]), "an iterator"),
    "map": (lambda: map(str, []), "an iterator"),
    "count": (itertools.count, "an iterator"),
    "deep nesting": (lambda: deep(10_000), "nested too deeply"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_fingerprint_is_refused(case: str) -> None:
    """With the reason, wherever it is."""
    make, reason = REFUSED[case]
    with pytest.raises(GraphKeyError, match=reason):
        fingerprint(build, (make(),))


class Counted:
    def __init__(self) -> None:
        self.source = iter([1])


cfg = Counted()


def helper() -> object:
    return cfg.source


def reader() -> object:
    return helper()


def test_a_refusal_names_the_thing_and_the_way_out() -> None:
    """What, where in it, of which type, how it is reached, why, and what to do."""
    with pytest.raises(GraphKeyError) as error:
        fingerprint(reader)
    text = str(error.value)
    assert text.startswith("global `cfg`.source of type list_iterator (reached from reader → helper → cfg)")
    assert "`__cache_key__`" in text and text.endswith(".") and text.count(". ") == 0


OPAQUE: dict[str, Callable[[], Any]] = {
    "a lock": threading.Lock,
    "a thread": threading.Thread,
    "a logger": lambda: logging.getLogger("a"),
    "a context variable": lambda: contextvars.ContextVar("a"),
    "a memoryview": lambda: memoryview(b"a"),
    "a match": lambda: re.match("a", "a"),
    "a socket": lambda: socket.socket.__new__(socket.socket),
    "a hidden function": lambda: np.frompyfunc(build, 1, 1),
    "a file for writing": lambda: open(os.devnull, "w"),  # noqa: SIM115
    "the output": lambda: sys.stdout,
}


@pytest.mark.parametrize("case", OPAQUE)
def test_what_nobody_can_see_into_counts_by_its_type(case: str) -> None:
    """Two of a type share a key, which no other value has."""
    one, other = OPAQUE[case](), OPAQUE[case]()
    assert of(one) == of(other)
    assert of(one) not in {of(value) for value in (None, object(), threading.RLock())}
    for value in (one, other):
        getattr(value, "close", bool)() if isinstance(value, io.TextIOWrapper) and value is not sys.stdout else None


def test_a_file_that_is_open_for_reading_counts_by_content_and_position(tmp_path: Path) -> None:
    """Wherever it lies."""
    keys = []
    for name, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / name).write_text(text)
        with open(tmp_path / name) as file:
            keys.append(of(file))
            file.read(1)
            keys.append(of(file))
    assert keys[:2] == keys[2:4] and len(set(keys)) == 4
    assert of(io.BytesIO(b"a")) == of(io.BytesIO(b"a")) != of(io.BytesIO(b"b"))


def test_a_method_that_raises_is_a_refusal() -> None:
    """Whatever the user's code does while it is asked, a caller gets one kind of error."""

    class Broken:
        def __cache_key__(self) -> object:
            raise ZeroDivisionError

    with pytest.raises(GraphKeyError, match="ZeroDivisionError"):
        fingerprint(build, (Broken(),))


def test_changes_in_words() -> None:
    """What differs between two fingerprints is told part by part, a changed function first, then arguments."""

    def model(theta: float, n: int = 1) -> None: ...

    one, other = fingerprint(model, (2.0,)), fingerprint(model, (3.0,))
    assert changes(one.parts, other.parts) == ["theta 2.0 → 3.0"]
    old = {"helper rate": "code 1", "distribution numpy": "2.2.0", "argument a": "1"}
    new = {"helper rate": "code 2", "distribution numpy": "2.3.1", "global cfg": "5"}
    assert changes(old, new) == ["helper `rate` changed", "a 1 is gone", "global cfg 5 is new", "numpy 2.2.0 → 2.3.1"]


class Config:
    def __init__(self, rate: float, inner: object = None, token: str = "abc") -> None:
        self.rate, self.inner, self.token, self.name = rate, inner, token, "a, b)"


class Both(NamedTuple):
    left: object
    right: object


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (Config(1.0), Config(2.0), "a rate=1.0 → rate=2.0"),
        (Config(1.0, {"x": [1, 2]}), Config(1.0, {"x": [1, 3]}), "a inner={'x': [1, 2]} → inner={'x': [1, 3]}"),
        (Config(1.0, {"x": {"y": 1.0}}), Config(1.0), "a inner={'x': {'y': 1.0}} → inner=None"),
        (Both(1, (2, [])), Both(1, (3, [])), "a right=(2, []) → right=(3, [])"),
        (Both(0, Config(1.0, Both(2, 3))), Both(1, Config(1.0, Both(2, 4))),
         "a left=0, right.inner.right=3 → left=1, right.inner.right=4"),
        (Both(1, SimpleNamespace(n=1)), Both(1, Both(1, 2)),
         "a right=SimpleNamespace(n=1) → right=Both(left=1, right=2)"),
        (SimpleNamespace(n=1, m=2), SimpleNamespace(n=1, m=3), "a m=2 → m=3"),
        ({"x": 1, "y": {}}, {"y": {}}, "a 'x': 1 → nothing"),
        ([{"x": 1}, 2], [{"x": 1}, 3], "a 2 → 3"),
    ],
)  # fmt: skip
def test_what_objects_and_containers_hold_is_told_apart(one: object, other: object, told: str) -> None:
    """Of what has changed in one, that alone is shown."""

    def f(a: object) -> None: ...

    assert changes(fingerprint(f, (one,)).parts, fingerprint(f, (other,)).parts) == [told]


def test_what_is_not_told_apart_by_what_is_shown_is_by_its_digest() -> None:
    """Secrets, long texts, arrays within; what is too large or too deep is not shown at all."""

    def f(a: object) -> None: ...

    for one, other in [
        (Config(1.0), Config(1.0, token="abd")),
        (Config(1.0, np.ones(3)), Config(1.0, np.zeros(3))),
        (list(range(100)), list(range(1, 101))),
    ]:
        [told] = changes(fingerprint(f, (one,)).parts, fingerprint(f, (other,)).parts)
        assert re.fullmatch(r"a (\S+ )[0-9a-f]{24} → \1[0-9a-f]{24}", told)


def test_secrets_are_not_written_down() -> None:
    """Texts under names that secrets have are told apart by a digest."""

    def f(token: str, name: str, keys: list[str]) -> None: ...

    parts = fingerprint(f, ("abc", "def", ["ghi"])).parts
    assert parts["argument name"] == "'def'"
    assert parts["argument token"].startswith("str[3] ") and parts["argument keys"].startswith("list[1] ")
    assert fingerprint(f, ("abd", "def", ["ghi"])).parts["argument token"] != parts["argument token"]


JAX = """
import json, jax, jax.numpy as jnp, numpy as np, functools, ml_dtypes
from jcache.errors import GraphKeyError
from jcache.fingerprint import fingerprint
def build(value=None): return value
def of(value): return fingerprint(build, (value,)).hash
f = lambda x, n=1: x * n
values = [
    jnp.float32(1), np.float32(1), 1.0, jnp.asarray(1.0), jnp.asarray(np.float32(1.0)), jnp.arange(3), np.arange(3),
    np.arange(3, dtype=np.int32), jnp.arange(3, dtype=jnp.bfloat16), np.arange(3).astype(ml_dtypes.bfloat16),
    np.arange(3, dtype=np.float16), np.zeros(3, ml_dtypes.float8_e4m3fn), np.zeros(3, ml_dtypes.float8_e5m2),
    ml_dtypes.bfloat16(1), np.float16(1), jnp.bfloat16, jnp.float32, np.dtype(ml_dtypes.bfloat16),
    jax.random.key(0), jax.random.key(1), jax.random.key(0, impl="rbg"), jax.random.PRNGKey(0),
    jax.ShapeDtypeStruct((3,), jnp.float32), jax.ShapeDtypeStruct((3,), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32),
    jnp.sin, jnp.cos, jax.nn.relu, jax.jit(f), f, jax.jit(f, static_argnums=1), jax.jit(f, donate_argnums=0),
    jax.vmap(f), jax.vmap(f, in_axes=(0, None)), jax.grad(f), jax.grad(f, argnums=1), functools.partial(jax.jit, f),
    jax.jit(lambda x: x + 1), jax.jit(lambda x: x + 2), jax.checkpoint(f), jax.custom_jvp(f), jax.numpy, jax.lax.add,
    jax.tree.structure({"a": 1}), jax.tree.structure({"b": 1}), jax.tree.structure([1, 2]),
    jax.tree.structure((1, [2])), jax.tree.structure(None), jax.tree.structure(1),
]
hashes = [of(value) for value in values]
same = [of(value) == key for value, key in zip(values, hashes)]
def refused(value):
    try: of(value)
    except GraphKeyError as error: return str(error)
gone = jnp.arange(3)
gone.delete()
traced = []
jax.jit(lambda x: traced.append(refused(x)) or x)(1.0)
def tables(): return {"sin": jnp.sin, "cos": jnp.cos}
before = fingerprint(tables).hash
jax.config.update("jax_enable_x64", True)
after = fingerprint(tables)
print(json.dumps([len(values), len(set(hashes)), all(same), refused(gone), traced, before != after.hash,
                  [i for i, h in enumerate(hashes) if hashes.count(h) > 1], dict(after.parts)]))
"""


@pytest.mark.jax
def test_values_of_jax() -> None:
    """JAX's arrays, keys, dtypes and transformed functions are told apart from numpy's and from one another."""
    count, different, same, deleted, traced, x64, twice, parts = run(JAX).value
    assert twice == [0, 4]  # two ways to the same array
    assert count == different + 1 and same and x64
    assert "donated or deleted" in deleted and "tracing" in traced[0]
    assert parts["environment jax_enable_x64"] == "True"
