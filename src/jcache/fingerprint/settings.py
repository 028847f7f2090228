"""What a call sets, as JSON, which a stored trace holds.

A plain value stands as it is, a tuple as ``{"tuple": [value]}``, and so do lists, sets and dicts, an array of numpy as
``{"array": [type, shape, base64]}`` and a scalar as ``{"scalar": array}``, an object as ``{"object": [class, dict]}``,
a class or function as ``{"named": name}``, a clock reading as ``{"clock": name}``, what `jcache.fingerprint.texts`
writes as ``{"text": [kind, text]}``, what a dict gets as ``{"items": value}`` with its pairs, what is added to its
numbers as ``{"counts": value}``, what a list or set gets as ``{"more": value}``, and what was not there before as
``{"new": value}``.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import base64
import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any, Final, NamedTuple, cast

from jcache.fingerprint import objects, texts
from jcache.fingerprint.readings import LOWEST, Readings

PLAIN: Final = frozenset({NoneType, bool, int, float, str})
TUPLE: Final = "tuple"
ITEMS: Final = "items"
COUNTS: Final = "counts"
MORE: Final = "more"
NEW: Final = "new"
_ARRAY: Final = "array"
_OBJECT: Final = "object"
_NAMED: Final = "named"
_CLOCK: Final = "clock"
_TEXT: Final = "text"
_SCALAR: Final = "scalar"
_CLOCKS: Final = {each.__name__: each for each in (time.perf_counter, time.perf_counter_ns, time.time, time.time_ns)}
_NUMBERS: Final = frozenset({float, int})
_CONTAINERS: Final[dict[Any, str]] = {list: "list", set: "set", dict: "dict"}
_PAIR: Final = 2  # a key and a value
_MAX_BYTES: Final = 1 << 20  # of all values that a call sets
_KINDS: Final = frozenset("biufc")  # of the types of arrays
Settings = list[list[Any]]
"""The names and numbers of what a call sets, each with the value as JSON."""


def is_plain(value: Any) -> bool:
    """Return whether a value is of a type in `PLAIN`, or a tuple of such values."""
    return type(value) in PLAIN or (type(value) is tuple and all(map(is_plain, value)))


def as_json(value: Any, known: Iterable[int], found: list[Any] | None = None) -> Any:
    """Return a value as JSON, in a list; None if it cannot be set again.

    Args:
        value: the value.
        known: the addresses of objects that have been there before.
        found: gets the objects and containers within the value that may change.
    """
    try:
        made = [_encoded(value, Seen(set(known), [] if found is None else found))]
        return made if len(json.dumps(made, ensure_ascii=False).encode()) <= _MAX_BYTES else None
    except (TypeError, ValueError, RecursionError):
        return None


class Seen(NamedTuple):
    """What was met on the way.

    Attributes:
        known: the addresses of objects and arrays.
        found: the objects and containers, and the arrays whose memory others show.
    """

    known: set[int]
    found: list[Any]

    def add(self, value: Any) -> None:
        """Add an object or container; raise TypeError if it is there already."""
        if id(value) in self.known:
            raise TypeError
        self.known.add(id(value))
        self.found.append(value)


def _encoded(value: Any, seen: Seen) -> Any:
    """Return a value as JSON.

    Args:
        value: the value.
        seen: what was met before, to which what is met here is added.

    Raises:
        TypeError: it is of another type, or was met before.
        ValueError: it is no finite number.
    """
    if type(value) in _NUMBERS and value >= LOWEST and (clock := Readings().clock_of(value)) is not None:
        return {_CLOCK: clock}
    if type(value) in PLAIN and (type(value) is not float or math.isfinite(value)):
        return value
    if type(value) is tuple:
        return {TUPLE: [_encoded(each, seen) for each in value]}
    if type(value) in _CONTAINERS:
        seen.add(value)
        items = sorted(value, key=repr) if type(value) is set else value.items() if type(value) is dict else value
        return {_CONTAINERS[type(value)]: [_encoded(each, seen) for each in items]}
    if (name := objects.name_of(value)) is not None:
        return {_NAMED: name}
    if (written := texts.written(value)) is not None:
        return {_TEXT: written}
    return _array(value, seen) if (state := objects.state_of(value)) is None else _object(value, *state, seen)


def _object(value: Any, name: str, state: dict[str, Any], seen: Seen) -> Any:
    seen.add(value)
    return {_OBJECT: [name, {_CONTAINERS[dict]: [_encoded(each, seen) for each in state.items()]}]}


def _array(value: Any, seen: Seen) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in _KINDS:
        return {_SCALAR: _content(value)}
    if numpy is None or type(value) is not numpy.ndarray or value.dtype.kind not in _KINDS or id(value) in seen.known:
        raise TypeError
    is_plain = value.flags.c_contiguous and value.flags.writeable and numpy.dtype(value.dtype.str) == value.dtype
    if not is_plain or id(value.base) in seen.known or not (value.base is None or type(value.base) is numpy.ndarray):
        raise TypeError
    seen.known.update({id(value), id(value.base)} - {id(None)})
    seen.found.extend([] if value.base is None else [value.base])  # whose memory another array may share
    return _content(value)


def _content(value: Any) -> dict[str, list[Any]]:
    return {_ARRAY: [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]}


def checked(settings: Any) -> Settings | None:
    """Return what was read as JSON; raise ValueError, KeyError or TypeError if it is nothing that `SetValues` makes."""
    for name, number, value in settings or ():
        plain: Any = value.get(NEW, value.get(MORE, value)) if isinstance(value, dict) else value
        pairs = plain.get(ITEMS, plain.get(COUNTS)) if isinstance(plain, dict) else None
        values = [plain] if pairs is None else pairs[TUPLE]
        for each in values:
            decoded(each, _named, _as_state)
        if type(name) is not str or type(number) is not int or number < 0:
            raise ValueError(name)
        if pairs is not None and not all(len(each[TUPLE]) == _PAIR for each in values):
            raise ValueError(name)
    return cast("Settings | None", settings)


def _named(name: str) -> str:
    """Return the name of what is not looked for; raise TypeError if it is none."""
    return name + ""


def _as_state(name: str, state: dict[str, Any]) -> Any:
    """Return the class and state of an object that is not made; raise TypeError or ValueError if they are none."""
    return _named(name), *dict(state)


def decoded(
    value: Any,
    find: Callable[[str], Any] = objects.found,
    make: Callable[[str, dict[str, Any]], Any] = objects.made,
) -> Any:
    """Return the value that is written as JSON.

    Args:
        value: the JSON.
        find: returns what has a name.
        make: returns an object of a class's name and what it holds.
    """
    if type(value) in PLAIN:
        return value
    if _CLOCK in value:
        return _CLOCKS[value[_CLOCK]]()
    if _NAMED in value:
        return find(value[_NAMED])
    if _TEXT in value:
        return texts.read(*value[_TEXT])
    if _SCALAR in value:
        return decoded(value[_SCALAR], find, make)[()]
    if _OBJECT in value:
        name, state = value[_OBJECT]
        return make(name, decoded(state, find, make))
    for kind, name in ((tuple, TUPLE), *_CONTAINERS.items()):
        if name in value:
            return kind(decoded(each, find, make) for each in value[name])
    numpy: Any = sys.modules["numpy"]  # which JAX has imported
    kind, shape, content = value[_ARRAY]
    return numpy.frombuffer(bytearray(base64.b64decode(content)), numpy.dtype(kind)).reshape(shape).copy()
