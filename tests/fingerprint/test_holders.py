"""Whether something else holds what a call has set."""

import builtins
import queue
import threading
import weakref
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from jcache.fingerprint.holders import are_held_once
from tests.helpers.fingerprints import imported
from tests.helpers.set_values import called, set_again

SOURCE = """
import builtins, contextvars, functools, queue, sys, threading, weakref
import numpy as np
one = None
class Registered(type):
    made = []
    def __call__(cls, *given):
        made = super().__call__(*given)
        cls.made.append(made)
        return made
class Made:
    def __init__(self): self.n, self.inner, self.names = 1, Inner(), ["a"]
    def close(self): pass
class Inner:
    def __init__(self): self.rate, self.array = 0.5, np.arange(3)
class Listed(Made, metaclass=Registered): pass
TABLE = np.arange(6.0).reshape(2, 3)
QUEUE, LOCAL, VARIABLE = queue.Queue(), threading.local(), contextvars.ContextVar("v")
@functools.lru_cache
def cached(): return Made()
@functools.lru_cache
def pair(): return ([1], 2)
@functools.lru_cache
def inner(): return Inner()
def around(value):
    return lambda: value
def build(x):
    global one
    if one is None:
        STATEMENT
    return x * one.n
"""
ALONE = {
    "an array that shows an array's memory": "one = Made(); one.row = np.arange(6).reshape(2, 3)",
    "an object": "one = Made()",
    "one that a local name has held": "made = Made(); made.n = 2; one = made",
    "one that was in a cycle": "made = Made(); made.me = made; made.f = around(made); del made.me, made.f; one = made",
}
HELD = {
    "a registry": "one = Listed()",
    "a method of it": "one = Made(); QUEUE.put(one.close)",
    "a finalizer": "one = Made(); weakref.finalize(one, print)",
    "another module": "one = builtins.made_for_test = Made()",
    "a thread": "one = threading.current_thread().made_for_test = Made()",
    "a queue": "one = Made(); QUEUE.put(one)",
    "a variable of the context": "one = Made(); VARIABLE.set(one)",
    "a variable of the thread": "one = LOCAL.made = Made()",
    "a memo": "one = cached()",
    "a memo of what it holds": "one = Made(); one.inner = inner()",
    "a function": "one = Made(); QUEUE.put(around(one))",
    "an array that shows its memory": "one = Made(); one.row = TABLE[0]",
    "a tuple of what it holds": "one = Made(); one.pair = pair()",
    "a list of what it holds": "one = Made(); QUEUE.put(one.names)",
}


@pytest.mark.parametrize("case", ALONE)
def test_what_one_place_holds_is_set_again(case: str, tmp_path: Path) -> None:
    """Also if it was elsewhere for a while."""
    text = SOURCE.replace("STATEMENT", ALONE[case])
    with imported(tmp_path, text) as model:
        changed, settings = called(model)
        made = vars(model.one)
        assert changed == [] and [each[0].rpartition(".")[2] for each in settings] == ["one"]
    with imported(tmp_path, text) as model:
        set_again(model, settings)
        assert {name: str(each) for name, each in vars(model.one).items() if name != "inner"} == {
            name: str(each) for name, each in made.items() if name != "inner"
        }
        assert vars(model.one.inner)["array"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("case", HELD)
def test_what_is_held_elsewhere_is_not_set_again(case: str, tmp_path: Path) -> None:
    """A served call would make another object than the one that is there."""
    with imported(tmp_path, SOURCE.replace("STATEMENT", HELD[case])) as model:
        changed, settings = called(model)
        vars(builtins).pop("made_for_test", None)
        vars(threading.current_thread()).pop("made_for_test", None)
        assert settings == [] and changed


def test_each_is_held_by_one() -> None:
    """Whatever type it has; the list that the values are given in does not count."""
    holder: dict[str, object] = {"a": [], "b": {}, "c": queue.Queue(), "d": np.arange(3)}
    assert are_held_once([holder["a"], holder["b"], holder["c"], holder["d"]])
    other = holder["a"]
    assert not are_held_once([holder["a"], holder["b"]]) and other == []
    reference = weakref.ref(holder["c"])
    assert not are_held_once([holder["c"]]) and reference() is not None
    memo = lru_cache(lambda: holder["b"])
    assert are_held_once([holder["b"]]) and memo() == {} and not are_held_once([holder["b"]])


def test_garbage_holds_nothing() -> None:
    """It is collected if something seems to hold a value."""
    holder = {"a": [1]}
    cycle: list[object] = [holder["a"]]
    cycle.append(cycle)
    del cycle
    assert are_held_once([holder["a"]])
