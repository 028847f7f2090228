"""Functions that build graphs, and what tests of several modules ask of them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jcache.fingerprint import fingerprint
from jcache.graphs.keyed_call import KeyedCall
from jcache.graphs.roots import GRAPHS
from jcache.layout import Root
from jcache.runtime.sealed_store import store_of

FACTOR = 3


def half(n: int) -> float:
    return n / 2


def ramp(n: int, theta: float = 1.0) -> dict[str, Any]:
    """A graph: arrays and plain values."""
    return {"values": np.arange(n) * theta * FACTOR, "half": half(n), "names": ("a", None)}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (
        one.keys() == other.keys() and np.array_equal(one["values"], other["values"]) and one["half"] == other["half"]
    )


class Hidden:
    """A value that no key shows."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __cache_key__(self) -> str:
        return ""


def shown(hidden: Hidden) -> Any:
    """Return what no key shows, so that two builds of one key can differ."""
    return hidden.value


def keyed(root: Root, function: Callable[..., Any], *args: Any) -> KeyedCall:
    """Return a call with its key, whose graph belongs into a root."""
    taken = fingerprint(function, args)
    return KeyedCall(function, args, {}, taken, taken.key, store_of(root, GRAPHS, max_bytes=None, lock_timeout=60))
