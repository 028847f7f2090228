"""Each type of value becomes bytes of its own, made of its content."""

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import io
import itertools
import math
import operator
import pathlib
import random
import re
import struct
import threading
import types
import typing
import uuid
import weakref
from typing import Any

import numpy as np
import pytest

from jcache.fingerprint import fingerprint
from tests.helpers.fingerprints import build, key_of


class Flag(enum.Flag):
    A = 1
    B = 2


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def describe(self) -> str:
        return self.name


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
    typing.TypeVar("T", covariant=True), types.CellType(1), types.CellType(2), itertools.count(1), itertools.count(2),
    operator.methodcaller("get", 1), operator.methodcaller("get", k=1), operator.methodcaller("get", k=2),
    AttributeError("a", obj=1), AttributeError("a", obj=2), SystemExit(1), SystemExit(2), Flag.A | Flag.B, Flag.A,
    np.dtype("f4", metadata={"a": 1}), np.dtype([("a", "f4")], metadata={"a": 1}), np.dtype([("a", "f4")]),
    hashlib.blake2b(b"a"), hashlib.blake2b(b"b"), hashlib.shake_128(b"a"), hashlib.shake_128(b"b"),
]  # fmt: skip


UNCOPIED = frozenset(
    {
        object, typing.TypeVar, types.CellType, AttributeError, hashlib.blake2b, type(hashlib.shake_128()),
        itertools.count,
    }
)  # fmt: skip


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
    "value", [v for v in DISTINCT if type(v) not in UNCOPIED], ids=lambda value: type(value).__name__
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
    assert (key_of(copied) == key_of(value)) is not strided


def test_a_weak_reference_counts_by_what_it_refers_to() -> None:
    """Which is nothing any more, if that is gone."""
    one, same, other = {1}, {1}, {2}
    assert key_of(weakref.ref(one)) == key_of(weakref.ref(same)) != key_of(weakref.ref(other))
    gone = weakref.ref(other)
    before = key_of(gone)
    del other
    assert key_of(gone) not in {before, key_of(weakref.ref(one))}


def test_a_class_of_the_users_counts_with_its_content_and_its_attributes() -> None:
    """Whatever it is derived from, and however its methods present it."""

    def made(base: type, *args: object, note: int = 1) -> str:
        lies = {name: lambda *_: 1 / 0 for name in ("__iter__", "__str__", "__repr__", "__len__", "__eq__", "items")}
        value = type("Own", (base,), {**lies, "__hash__": object.__hash__, "__index__": lies["__len__"]})(*args)
        vars(value)["note"] = note
        return key_of(value)

    for base, one, other in (
        (int, 1, 2), (float, 1.0, 2.0), (str, "a", "b"), (bytes, b"a", b"b"), (list, [1], [2]), (tuple, [1], [2]),
        (dict, {1: 1}, {1: 2}), (set, [1], [2]), (frozenset, [1], [2]), (collections.deque, [1], [2]),
        (collections.OrderedDict, {1: 1}, {1: 2}), (ValueError, "a", "b"),
    ):  # fmt: skip
        assert made(base, one) == made(base, one), base
        assert len({made(base, one), made(base, other), made(base, one, note=2)}) == 3, base


@pytest.mark.parametrize(
    "make",
    [
        collections.OrderedDict, collections.Counter, lambda: functools.partial(build), lambda: staticmethod(build),
        lambda: classmethod(build), lambda: functools.lru_cache(build), lambda: functools.cached_property(build),
        lambda: functools.singledispatch(build), lambda: functools.singledispatchmethod(build), BaseException,
        lambda: ValueError(1), lambda: random.Random(1), weakref.WeakValueDictionary,
        lambda: type("Own", (weakref.ref,), {})(build), lambda: type("Own", (OSError,), {})(1),
        lambda: type("Own", (struct.Struct,), {})("d"), lambda: type("Own", (np.float32,), {})(1),
        lambda: io.BytesIO(b"a"), lambda: type("Own", (np.random.RandomState,), {})(1),
        lambda: type("Own", (decimal.Context,), {})(),
    ],
)  # fmt: skip
def test_attributes_that_a_program_has_set_count_whatever_has_them(make: Any) -> None:
    """Those that the type itself gives each value are in what is encoded of it."""
    plain, one, other = make(), make(), make()
    one.k, other.k = 1, 2
    assert key_of(plain) == key_of(make())
    assert len({key_of(plain), key_of(one), key_of(other)}) == 3
    one.k = other.k
    assert key_of(one) == key_of(other)


def test_a_view_counts_by_the_whole_mapping() -> None:
    """The mapping may be of the user's class, and have attributes."""

    class Own(dict):  # type: ignore[type-arg]
        pass

    one, other = Own(a=1), Own(a=1)
    vars(other)["k"] = 1
    for view in (types.MappingProxyType, Own.keys, Own.items):
        assert key_of(view(one)) == key_of(view(Own(a=1))) != key_of(view(other))


def test_a_weak_reference_counts_by_its_callback() -> None:
    """Somebody can ask for it."""

    def one(_: object) -> None: ...

    def other(_: object) -> None: ...

    assert key_of(weakref.ref(build, one)) != key_of(weakref.ref(build, other))


def test_what_a_path_of_a_users_class_remembers_does_not_count() -> None:
    """A path keeps its text and its hash once somebody has asked for them; each process has another hash."""

    class Own(type(pathlib.Path())):  # type: ignore[misc]
        pass

    fresh, used = Own("a/b"), Own("a/b")
    hash(used), str(used), used.parts, used.parent
    assert key_of(fresh) == key_of(used) not in {key_of(Own("a/c")), key_of(pathlib.Path("a/b"))}
    used.note = 1
    assert key_of(fresh) != key_of(used)


def test_what_holds_a_callable_counts_by_it() -> None:
    """Bound methods, memos, accessors, and what `functools` makes."""

    def one() -> int:
        return 1

    def other() -> int:
        return 2

    wraps: list[Any] = [
        functools.lru_cache,
        functools.cached_property,
        property,
        staticmethod,
        classmethod,
        weakref.ref,
    ]
    for wrap in wraps:
        assert key_of(wrap(one)) == key_of(wrap(one)) != key_of(wrap(other)), wrap
    assert key_of(functools.lru_cache(maxsize=1)(one)) != key_of(functools.lru_cache(maxsize=2)(one))
    assert key_of(operator.itemgetter(1)) != key_of(operator.itemgetter(2)) != key_of(operator.attrgetter("a"))
    assert key_of(Color.RED.describe) != key_of(Color.BLUE.describe)
