"""What reaches a function in unusual ways counts: in the key, or among the values that are compared beside it."""

import dataclasses
import functools
import io
import operator
import queue
import sqlite3
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jcache.fingerprint import fingerprint

holder: Any = None
kept: list[type] = []


class Job(threading.Thread):
    def __init__(self, rate: float) -> None:
        super().__init__(name="job")
        self.rates = [rate]


@dataclasses.dataclass
class Model:
    rate: float = 1.0


def wrapped(rate: float) -> type:
    made: Any = dataclasses.make_dataclass("Made", [("rate", float, 1.0)])
    initialize = made.__init__

    @functools.wraps(initialize)
    def init(self: Any) -> None:
        initialize(self)
        self.rate = rate

    made.__init__ = init
    return type(made())


def subclasses(rate: float) -> type:
    base = types.new_class("Base")
    kept.append(types.new_class("Derived", (base,), {}, lambda space: space.update(rate=rate)))
    return base


def queued(rate: float, made: Any) -> Any:
    made.put(rate)
    return made


def row(rate: float) -> sqlite3.Row:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    found: sqlite3.Row = connection.execute("select ? as rate", (rate,)).fetchone()
    connection.close()
    return found


def getter(rate: float) -> object:
    model = Model()
    model.__dict__["table"] = [rate, *range(20_000)]
    return operator.attrgetter("table"), model


def private(rate: float) -> object:
    made = functools.partial(row)
    made._rate = rate  # type: ignore[attr-defined]
    return made


def caused(rate: float) -> object:
    error = KeyError("a")
    error.__cause__ = ValueError(rate)
    return error


def in_order(rate: float) -> object:
    names = ["a", "b"] if rate == 1.0 else ["b", "a"]
    return types.SimpleNamespace(**dict.fromkeys(names, 1))


def shared(rate: float) -> object:
    array = np.ones(2)
    return [array[:], array[:] if rate == 1.0 else np.ones(2)[:]]


def read_only(rate: float) -> object:
    array = np.ones(2)
    array.flags.writeable = rate == 1.0
    return array


def spawned(rate: float) -> object:
    generator = np.random.default_rng(1)
    generator.spawn(int(rate))
    return generator


def named(rate: float) -> object:
    def inner() -> None: ...

    inner.__qualname__ = "a" * int(rate)
    return inner


def used() -> object:
    return vars(holder), holder.rate, holder.__subclasses__(), holder.__qualname__


def told(value: object, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, str]]:
    monkeypatch.setitem(globals(), "holder", value)
    found = fingerprint(used)
    return found.hash, dict(found.loose)


@pytest.mark.parametrize(
    "make",
    [
        wrapped, row, getter, private, caused, in_order, shared, read_only, spawned, named, subclasses, Job,
        lambda rate: queued(rate, queue.Queue()), lambda rate: queued(rate, queue.SimpleQueue()),
        lambda rate: io.TextIOWrapper(io.BytesIO(str(rate).encode())),
        lambda rate: float("nan") if rate == 1.0 else -float("nan"),
    ],
)  # fmt: skip
def test_what_reaches_a_function_in_unusual_ways_is_seen(
    make: Callable[[float], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another value is told apart, and an equal one is not."""
    first = told(make(1.0), monkeypatch)
    assert first == told(make(1.0), monkeypatch) != told(make(2.0), monkeypatch)
