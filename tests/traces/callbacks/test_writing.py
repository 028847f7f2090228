"""The recipes of callbacks: what is used itself, what is copied, and what is refused."""

import collections
import dataclasses
import enum
import functools
import sys
import threading
from collections.abc import Callable
from types import MethodType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from jcache.errors import NotStorable
from jcache.fingerprint.arguments import Call
from jcache.traces.callbacks import read, write

KEPT: list[Any] = []
ROWS: list[Any] = []
GLOBAL_ARRAY = np.zeros(4)


class Color(enum.Enum):
    """A member of it is found by its name."""

    RED = 1


class Access(enum.Flag):
    """A union of its members has no name of its own."""

    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Pair:
    """An instance that cannot change."""

    name: str
    more: tuple[Any, ...]


class Row(NamedTuple):
    """A named tuple."""

    number: int
    more: tuple[Any, ...]


class Noted(Row):
    """A named tuple whose instances take more attributes."""


class NotedDict(collections.OrderedDict[str, Any]):
    """An ordered dictionary of a class of its own."""


def with_note(value: Any) -> Any:
    """Return a value with one more attribute."""
    value.note = "more"
    return value


def traced() -> Any:
    """Stand for a function that is traced; it reaches ROWS."""
    return ROWS


ORIGIN = Call(traced, (), {})


def again(*callbacks: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return what is made of the recipes of callbacks."""
    return read(write(callbacks, ORIGIN), ORIGIN)


def make(value: Any) -> Callable[[], Any]:
    """Return a nested function that holds a value."""

    def call() -> Any:
        return value

    return call


VALUES = [
    None, True, 2**63, 2**80, 0.5, float("inf"), "a", "\ud800", b"bytes", (1, ("a",)), 1j, range(3), Color.RED,
    ..., Access.READ | Access.WRITE, np.dtype(">f4"), np.dtype("S5"), np.dtype([("a", "<i4"), ("b", ">f8")]),
    np.dtype("M8[ms]"), np.dtype(ml_dtypes.bfloat16),
    Pair("a", (1, Color.RED)), Row(1, ("a",)), int, len, traced, sys, frozenset({1}), functools.partial(make, 1).func,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_cannot_change_is_made_again(value: Any) -> None:
    """Equal, and of the same type."""
    (call,) = again(make(value))
    assert call() == value and type(call()) is type(value)


def test_what_nobody_else_refers_to_is_copied() -> None:
    """Two callbacks that share a list share its copy."""

    def shared() -> tuple[Callable[..., Any], Callable[..., Any]]:
        rows: list[Any] = [{"a": [1]}, {2}]
        return (lambda value: rows.append(value)), (lambda: rows)

    add, rows = again(*shared())
    add(3)
    assert rows() == [{"a": [1]}, {2}, 3]


def test_containers_of_collections_are_copied() -> None:
    """With their order and their bound."""
    ordered: collections.OrderedDict[str, Any] = collections.OrderedDict(b=1, a=[2])
    ordered.move_to_end("b")
    held: list[Any] = [ordered, collections.deque([1, 2], maxlen=2)]
    del ordered
    call = make(held)
    del held
    (mapping, row) = again(call)[0]()
    assert type(mapping) is collections.OrderedDict and list(mapping.items()) == [("a", [2]), ("b", 1)]
    row.append(3)
    assert type(row) is collections.deque and list(row) == [2, 3]


def test_what_the_function_reaches_is_used_itself() -> None:
    """A method of it as well, and what is within a container of the callback's own."""
    append, nested = again(ROWS.append, make([ROWS]))
    append(1)
    assert ROWS.pop() == 1 and nested()[0] is ROWS


def test_functions_are_as_they_were() -> None:
    """Defaults, attributes, recursion, keyword arguments and partial ones."""

    def made() -> Callable[..., Any]:
        def down(value: int, step: int = 2, *, last: str = "end") -> Any:
            return last if value < 0 else down(value - step)

        down.told = {"more": 1}  # type: ignore[attr-defined]
        return functools.partial(down, last="stop")

    (function,) = again(made())
    inner: Any = function
    assert function(-1) == "stop" and function(3) == "end" and inner.func.told == {"more": 1}


def test_functions_keep_names_and_annotations_that_were_set() -> None:
    """As `functools.wraps` sets them; an annotation that no name leads to is left out with all others."""

    def told(function: Any) -> list[Any]:
        names = ("__name__", "__qualname__", "__module__", "__doc__")
        return [*(getattr(function, name) for name in names), list(function.__annotations__.items())]

    def made() -> Callable[..., Any]:
        def inner(value: int, *, key: "str") -> None:
            """Say something."""

        def wrapper() -> Any:
            return wrapper, inner

        functools.update_wrapper(wrapper, inner)
        wrapper.__name__, wrapper.__module__ = "other", "elsewhere"
        return wrapper

    def unnamed(value: list[int]) -> list[int]:
        return value

    (function,) = again(made())
    assert [*map(told, function())] == [*map(told, made()())]
    assert again(unnamed)[0].__annotations__ == {}


def test_an_array_is_copied_only_with_all_of_its_memory() -> None:
    """A view is copied if nothing else refers to the array that has the memory."""
    (call,) = again(make(np.arange(4.0).reshape(2, 2).T))
    call()[0, 1] = 9
    assert call().tolist() == [[0, 9], [1, 3]]
    (fixed,) = again(make(np.frombuffer(b"abcd", dtype="u1")))
    assert not fixed().flags.writeable and bytes(fixed()) == b"abcd"


def views_of_one_array() -> Callable[[], Any]:
    """Return a callback that holds two views of the same memory."""
    rows = np.zeros(4)
    return make([rows[:3], rows[1:]])


def view_and_array() -> Callable[[], Any]:
    """Return a callback that holds an array and a view of it."""
    rows = np.zeros(4)
    return make([rows, rows[1:]])


def view_of_kept() -> Callable[[], Any]:
    """Return a callback that holds a view of an array that somebody else has, too."""
    KEPT.append(np.zeros(4))
    return make(KEPT[-1][1:])


def held_elsewhere() -> Callable[[], Any]:
    """Return a callback whose list somebody else has, too."""
    rows: list[int] = []
    KEPT.append(rows)
    return lambda: rows


def variable_elsewhere() -> Callable[[], Any]:
    """Return a callback whose variable another function may set."""
    count = 0

    def other() -> int:
        nonlocal count
        count += 1
        return count

    KEPT.append(other)
    return lambda: count


@pytest.mark.parametrize(
    ("callback", "reason"),
    [
        (held_elsewhere(), "a list of it is used elsewhere"),
        (variable_elsewhere(), "a variable of it is used elsewhere"),
        (views_of_one_array(), "it holds an array that shares its memory with another object"),
        (view_and_array(), "it holds an array that shares its memory with another object"),
        (make([GLOBAL_ARRAY[1:]]), "a ndarray of it is used elsewhere"),
        (view_of_kept(), "a ndarray of it is used elsewhere"),
        (make(np.frombuffer(bytearray(4), dtype="u1")), "it holds an array that shares its memory"),
        (make(np.dtype("f4", metadata={"a": 1})), "it holds a numpy.dtypes:Float32DType"),
        (make(iter([1])), "it holds a list_iterator"),
        (make(threading.Lock()), "it holds a _thread"),
        (make(ValueError("x")), "it holds a ValueError"),
        (make(collections.Counter("a")), "it holds a collections:Counter"),
        (make(with_note(Noted(1, ()))), "Noted, which jcache cannot make again"),
        (make(with_note(collections.OrderedDict())), "it holds a collections:OrderedDict"),
        (make(with_note(functools.partial(make, 1))), "it holds a functools:partial"),
        (make(NotedDict()), "NotedDict, which jcache cannot make again"),
        (make(MethodType(make, 1)), "it holds a method that its object does not have as `make`"),
        (eval("lambda: 1", {"__name__": "no.such.module"}), "cannot be found again"),
    ],
)
def test_what_a_later_process_would_not_find_is_refused(callback: Callable[..., Any], reason: str) -> None:
    """With the reason, whatever it is."""
    with pytest.raises(NotStorable, match="it calls back to the host, and") as refused:
        write([callback], ORIGIN)
    assert reason in str(refused.value)


def test_identifiers_between_frames_are_of_running_calls_or_drawn_anew() -> None:
    """As equinox draws one for each call of its jit; other bytes are as they are."""
    mine, gone = b"".join([b"mi", b"ne"]), [b"0123456789abcdef"]
    frame = '  File "program.py", line 1, in call'
    ((drawn, same, text),) = [call() for call in again(make([gone.pop(), mine, frame]))]
    assert drawn != b"0123456789abcdef" and len(drawn) == 16 and same is mine and text == frame
    ((kept,),) = [call() for call in again(make([b"0123456789abcdef"]))]
    assert kept == b"0123456789abcdef"
