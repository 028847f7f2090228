"""A module whose function sets values, and what a served call would set again."""

import json
from types import ModuleType

from hypothesis import strategies as st

from jcache.fingerprint import changed_meanwhile, fingerprint
from jcache.fingerprint.settings import Settings

SOURCE = """
import collections
import numpy as np
value = None
TABLE, BASE, SEVERAL = {}, np.arange(6.0), []
class Slotted:
    __slots__ = ("value",)
    def __init__(self): self.value = None
class Held:
    shared = None
    def __init__(self, value=None): self.value, self.other = value, None
class Kept:
    shared = None
    def __setattr__(self, name, value): raise AttributeError(name)
    def set(self, value): self.__dict__["value"] = value
held, kept, slotted, layers = Held(), Kept(), Slotted(), [Held("a"), Held("b")]
kept.set(None)
class Lazy:
    made, size = None, 0
    def __init__(self, k): self.k = k
class Own:
    __slots__ = ("here", "new")
    def __init__(self): self.here = 1
class Guarded:
    new = property(lambda self: self.__dict__["new"], lambda self, value: 1 / 0)
lazy, several, own, guarded = Lazy(1), [Lazy(1), Lazy(2)], Own(), Guarded()
def around():
    inner = None
    def turn(new):
        nonlocal inner
        inner = new
    def get(): return inner
    return turn, get
turn, get = around()
def build(x):
    global value
    new = NEW
    value, held.value, held.other, Held.shared, get(), kept.value, TABLE, layers, slotted.value
    lazy.k, [each.k for each in several], own.here, guarded
    @
    return x
"""
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
ARRAYS = ("arange(3)", "zeros((2, 0))", "array(1.5)", "array([1j])", "array([True, False])", "ones((1, 2), 'f2')")


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draw a tuple, a list, or a dict of values; or a set."""
    items = st.lists(inner, max_size=3).map(lambda each: "".join(f"{one}, " for one in each))
    pairs = st.dictionaries(st.integers(0, 5) | st.sampled_from(["'a'", "(1, None)"]), inner, max_size=3)
    dicts = pairs.map(lambda each: "{" + ", ".join(f"{key}: {value}" for key, value in each.items()) + "}")
    return items.map(lambda each: f"({each})") | items.map(lambda each: f"[{each}]") | dicts


VALUES = st.recursive(
    PLAIN.map(repr)
    | st.sampled_from(ARRAYS).map(lambda each: f"np.{each}")
    | st.sampled_from(["{'a'}", "set()"])
    | st.sampled_from(["float('nan')", "b'a'", "1j", "np.float32(0.5)", "np.dtype('f2')", "np.bool_(True)"])
    | st.sampled_from(["frozenset()", "frozenset({(1, 'a')})", "collections.deque([1])", "collections.Counter('aab')"])
    | st.sampled_from(["collections.defaultdict(list, a=[1])", "collections.OrderedDict(b=1, a=2)"]),
    _containers,
    max_leaves=5,
)
"""Expressions of values that can be set again."""


def source(statement: str, new: str = "'new'") -> str:
    return SOURCE.replace("@", statement).replace("NEW", new)


def called(model: ModuleType) -> tuple[list[str], Settings]:
    """Return the reasons why a call is not stored that sets something, and what it sets."""
    made = fingerprint(model.build, (1,), for_trace=True)
    model.build(1)
    changed = changed_meanwhile(made, model.build, (1,), {})
    return changed, json.loads(json.dumps(made.snapshot.sets.settings))


def set_again(model: ModuleType, settings: Settings) -> None:
    fingerprint(model.build, (1,), for_trace=True).snapshot.setter(settings)()
