"""What a call sets, as JSON, which a stored trace holds.

A plain value stands as it is, a tuple as ``{"tuple": [value]}``, and so do other containers, an array of numpy as
``{"array": [type, shape, base64]}`` and a scalar as ``{"scalar": array}``, an object as ``{"object": [class, dict]}``,
a class or function as ``{"named": name}``, a clock reading as ``{"clock": [name, age in seconds]}``, what
`jcache.fingerprint.texts` writes as ``{"text": [kind, text]}``, what a dict gets as ``{"items": value}`` with its
pairs, what is added to its numbers as ``{"counts": value}``, or to an integer as ``{"sum": value}``, what a list or
set gets as ``{"more": value}``, and what was not there before as ``{"new": value}``.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import base64
import collections
import json
import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Set
from types import MappingProxyType, NoneType
from typing import Any, Final, NamedTuple, cast

from jcache import clock
from jcache.fingerprint import objects, texts
from jcache.fingerprint.readings import LOWEST, Readings
from jcache.fingerprint.sets import items_in_order

PLAIN: Final = frozenset({NoneType, bool, int, float, str})
TUPLE: Final = "tuple"
ITEMS: Final = "items"
COUNTS: Final = "counts"
MORE: Final = "more"
NEW: Final = "new"
SUM: Final = "sum"
_ARRAY: Final = "array"
_OBJECT: Final = "object"
_NAMED: Final = "named"
_CLOCK: Final = "clock"
_TEXT: Final = "text"
_SCALAR: Final = "scalar"
_UNITS: Final = {float: 1, int: 1e9}  # of their readings in a second
Names = Mapping[int, tuple[str, object]]
"""The names of objects, as of `jcache.fingerprint.objects.name_of`, with these, by their addresses."""
_NONE: Final[Mapping[str, float]] = MappingProxyType({})
_NO_NAMES: Final[Names] = MappingProxyType({})
_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{6,16}\b")  # in a text that shows an object
_CONTAINERS: Final[dict[Any, str]] = {
    list: "list", set: "set", dict: "dict", collections.deque: "deque", collections.OrderedDict: "ordered dict",
    collections.Counter: "counter", collections.defaultdict: "default dict",
}  # fmt: skip
_FIXED: Final[dict[Any, str]] = {tuple: TUPLE, frozenset: "frozenset"}  # which never change
_PAIR: Final = 2  # a key and a value
_MAX_BYTES: Final = 1 << 20  # of all values that a call sets
_KINDS: Final = frozenset("biufc")  # of the types of arrays
Settings = list[list[Any]]
"""The names and numbers of what a call sets, each with the value as JSON."""


def is_plain(value: Any) -> bool:
    """Return whether a value is of a type in `PLAIN`, or a tuple of such values."""
    return type(value) in PLAIN or (type(value) is tuple and all(map(is_plain, value)))


def as_json(
    value: Any,
    known: Iterable[int],
    found: list[Any] | None = None,
    *,
    since: Mapping[str, float] = _NONE,
    names: Names = _NO_NAMES,
    sets: Set[frozenset[str]] = frozenset(),
) -> Any:
    """Return a value as JSON, in a list; None if it cannot be set again.

    Args:
        value: the value.
        known: the addresses of objects that have been there before.
        found: gets the objects and containers within the value that may change.
        since: what the clocks showed before the call; an earlier reading is none of the call's.
        names: the names, as in `objects.name_of`, of some of the objects that have been there before.
        sets: the sets of texts that have been there before.
    """
    try:
        made = [_encoded(value, Seen(set(known), [] if found is None else found, since, clock.shown(), names, sets))]
        return made if len(json.dumps(made, ensure_ascii=False).encode()) <= _MAX_BYTES else None
    except (TypeError, ValueError, RecursionError):
        return None


class Parts(tuple[Any, ...]):
    """A tuple of values that no program holds: what a dict has got, or all that is set."""

    __slots__ = ()


class Seen(NamedTuple):
    """What was met on the way.

    Attributes:
        known: the addresses of objects and arrays.
        found: the objects and containers, and the arrays whose memory others show.
        since: what the clocks showed before,
        now: and what they show now.
        names: the names of some objects.
        sets: the sets of texts that are among the objects.
    """

    known: set[int]
    found: list[Any]
    since: Mapping[str, float]
    now: Mapping[str, float]
    names: Names
    sets: Set[frozenset[str]]

    def add(self, value: Any) -> None:
        """Add an object or container; raise TypeError if it is there already."""
        if id(value) in self.known:
            raise TypeError
        self.known.add(id(value))
        self.found.append(value)

    def check_order(self, items: Collection[Any]) -> None:
        """Raise TypeError if items may have the order of a set, which is another one in each process."""
        if len(items) > 1 and self.sets and all(type(each) is str for each in items) and frozenset(items) in self.sets:
            raise TypeError


def _encoded(value: Any, seen: Seen) -> Any:
    """Return a value as JSON.

    Args:
        value: the value.
        seen: what was met before, to which what is met here is added.

    Raises:
        TypeError: it is of another type, or was met before.
        ValueError: it is no finite number.
    """
    if id(value) in seen.names:
        return {_NAMED: seen.names[id(value)][0]}
    if type(value) in PLAIN and (type(value) is not float or math.isfinite(value)):
        return _plain(value, seen)
    if type(value) is Parts:
        return {TUPLE: [_encoded(each, seen) for each in value]}
    if type(value) in _FIXED:
        seen.found.extend([] if all(map(is_plain, value)) else [value])  # code's own constants have several holders
        seen.check_order(value)
        return {_FIXED[type(value)]: [_encoded(each, seen) for each in _items(value)]}
    if type(value) in _CONTAINERS:
        seen.add(value)
        seen.check_order(() if type(value) is set else value)
        return {_CONTAINERS[type(value)]: [_encoded(each, seen) for each in _items(value)]}
    if (name := objects.name_of(value)) is not None:
        return {_NAMED: name}
    if (written := texts.written(value)) is not None:
        return {_TEXT: written}
    return _array(value, seen) if (state := objects.state_of(value)) is None else _object(value, *state, seen)


def _plain(value: Any, seen: Seen) -> Any:
    if type(value) is str and _ADDRESS.search(value):  # another one in each process
        raise TypeError
    if type(value) not in _UNITS or value < LOWEST or (name := Readings().clock_of(value)) is None:
        return value
    if value < seen.since.get(name, 0):
        raise TypeError
    return {_CLOCK: [name, (seen.now[name] - value) / _UNITS[type(value)]]}


def _items(value: Any) -> Iterable[Any]:
    """Return the items of a container, pairs of a dict; before them, what makes those that a defaultdict lacks."""
    kind = type(value)
    if isinstance(value, dict):
        before = [value.default_factory] if isinstance(value, collections.defaultdict) else []
        return [*before, *map(Parts, value.items())]
    if kind is collections.deque and value.maxlen is not None:
        raise TypeError
    if kind in {set, frozenset} and not all(map(is_plain, value)):  # its order is that of addresses
        raise TypeError
    return items_in_order(value) if kind in {set, frozenset} else value


def _container(kind: Any, items: list[Any]) -> Any:
    if kind is collections.defaultdict:
        return collections.defaultdict(items[0], items[1:])
    return kind(dict(items)) if kind is collections.Counter else kind(items)


def _object(value: Any, name: str, state: dict[str, Any], seen: Seen) -> Any:
    seen.add(value)
    return {_OBJECT: [name, {_CONTAINERS[dict]: [_encoded(each, seen) for each in _items(state)]}]}


def _array(value: Any, seen: Seen) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(type(value), numpy.generic) and value.dtype.kind in _KINDS:
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
    maker = _Checker()
    for name, number, value in settings or ():
        plain: Any = value.get(NEW, value.get(MORE, value.get(SUM, value))) if isinstance(value, dict) else value
        pairs = plain.get(ITEMS, plain.get(COUNTS)) if isinstance(plain, dict) else None
        values = [plain] if pairs is None else pairs[TUPLE]
        for each in values:
            maker.decoded(each)
        if type(name) is not str or type(number) is not int or number < 0:
            raise ValueError(name)
        if pairs is not None and not all(len(each[TUPLE]) == _PAIR for each in values):
            raise ValueError(name)
    return cast("Settings | None", settings)


class Maker:
    """Makes values again from JSON, at one moment: readings of a clock have their distances."""

    def __init__(self) -> None:
        self._now = clock.shown()

    def named(self, name: str) -> Any:
        """Return what has a name; raise LookupError or AttributeError if there is nothing."""
        return objects.found(name)

    def object(self, name: str, state: dict[str, Any]) -> Any:
        """Return an object of a class's name and what it holds."""
        return objects.made(name, state)

    def decoded(self, value: Any) -> Any:
        """Return the value that is written as JSON."""
        if type(value) in PLAIN:
            return value
        if _CLOCK in value:
            name, age = value[_CLOCK]
            return self._now[name] - type(self._now[name])(age * _UNITS[type(self._now[name])])
        if _NAMED in value:
            return self.named(value[_NAMED])
        if _TEXT in value:
            return texts.read(*value[_TEXT])
        if _SCALAR in value:
            return self.decoded(value[_SCALAR])[()]
        if _OBJECT in value:
            name, state = value[_OBJECT]
            return self.object(name, self.decoded(state))
        for kind, name in (*_FIXED.items(), *_CONTAINERS.items()):
            if name in value:
                return _container(kind, [*map(self.decoded, value[name])])
        numpy: Any = sys.modules["numpy"]  # which JAX has imported
        kind, shape, content = value[_ARRAY]
        return numpy.frombuffer(bytearray(base64.b64decode(content)), numpy.dtype(kind)).reshape(shape).copy()


class _Checker(Maker):
    """Looks for nothing and makes no object, but raises TypeError or ValueError where a `Maker` could not."""

    def named(self, name: str) -> Any:
        return name + ""

    def object(self, name: str, state: dict[str, Any]) -> Any:
        return self.named(name), *dict(state)
