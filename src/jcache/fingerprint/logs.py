"""Containers in which code only collects: logs, which get items, and tallies, in which it counts.

Nothing that this code computes depends on what they hold. So they count by their type alone, and a log that has got
other items in another process, where calls were served, is no reason to trace again.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import collections
from collections.abc import Mapping, Set
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint.attributes import functions_of
from jcache.fingerprint.code import meaning_of
from jcache.fingerprint.containers import growing, names_of
from jcache.fingerprint.encoding import tagged
from jcache.fingerprint.name_resolution import of_function as origin_of
from jcache.fingerprint.origins import USER, of_module_named
from jcache.fingerprint.ways import Way
from jcache.fingerprint.weak_map import WeakIdentities

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder

_WAYS: Final[Mapping[type, Set[Way]]] = {
    list: {Way.FILLED},
    collections.deque: {Way.FILLED},
    dict: {Way.COUNTED},
    collections.Counter: {Way.COUNTED},
    collections.defaultdict: {Way.COUNTED},
}
_SETTERS: Final = (object.__setattr__, type.__setattr__)
TALLIES: Final = (dict, collections.Counter, collections.defaultdict)


class Log:
    """A container in which code only collects, in its place."""

    def __init__(self, container: Any) -> None:
        self.container = container

    def in_words(self) -> str:
        return f"{type(self.container).__name__}, which is only filled"


class Count:
    """An integer in which code only counts, in its place."""

    def in_words(self) -> str:
        return "int, in which code only counts"


COUNT: Final = Count()


def is_count(encoder: Encoder, holder: object, name: str, value: Any) -> bool:
    """Return whether code only counts in an integer that it reaches by the name of an attribute.

    Args:
        encoder: the encoder, whose walk has visited the code, or will visit the methods of the holder.
        holder: what has the attribute.
        name: the name.
        value: any value.
    """
    if type(value) is not int or not encoder.for_trace or encoder.is_given:
        return False
    may_count = name in encoder.snapshot.counted or name in _counted_in(
        holder if isinstance(holder, type) else type(holder)
    )
    if not may_count or type(holder).__setattr__ not in _SETTERS:  # one of the program's may use what is set
        return False
    if _is_used(encoder, name) or not encoder.leaves_out(_mark(name)):
        return False
    encoder.logs[name] = int
    return True


def _is_used(encoder: Encoder, name: str) -> bool:
    """Return whether code does more with attributes of a name than to count, as far as the walk has visited it."""
    others = (each for each in encoder.snapshot.uses if name not in each.counted)
    is_named = any(name in each.attributes or name in each.used or name in each.set_otherwise for each in others)
    return is_named or name in encoder.snapshot.read_otherwise


def _counted_in(cls: type) -> Set[str]:
    """Return the names in which a method of a class counts."""
    known = _counts.get(cls)
    if known is None:
        own = (each for each in cls.__mro__ if of_module_named(each.__module__) == USER)
        members = (value for each in own for value in vars(each).copy().values())
        functions = (one for value in members for one in functions_of(value) if type(one) is FunctionType)
        of_user = (each for each in functions if origin_of(each) == USER)
        _counts.put(cls, known := frozenset[str]().union(*(meaning_of(each).counted for each in of_user)))
    return known


_counts: Final[WeakIdentities[frozenset[str]]] = WeakIdentities()


def encode_counted(encoder: Encoder, count: Count) -> bytes:
    return tagged(b"counter", b"")


def is_log(encoder: Encoder, name: str, value: Any) -> bool:
    """Return whether code only collects in a value that it reaches by a name.

    Args:
        encoder: the encoder, whose walk has visited the code.
        name: the name.
        value: any value.
    """
    if type(value) not in _WAYS or not encoder.for_trace or not encoder.leaves_out(_mark(name)):
        return False
    encoder.logs[name] = type(value)
    return _may_be_log(value) and _ways(encoder, name) <= _WAYS[type(value)]  # none if that code is still to be found


def _may_be_log(value: Any) -> bool:
    if type(value) is collections.defaultdict and value.default_factory is not int:
        return False
    if isinstance(value, dict):
        return all(type(each) is int for each in value.values())
    return getattr(value, "maxlen", None) is None


def _ways(encoder: Encoder, name: str) -> set[Way]:
    return {way for way, names in encoder.snapshot.uses_by_name.ways.items() if name in names}


def _only_collects(encoder: Encoder, name: str) -> bool:
    if encoder.logs[name] is int:
        return name in encoder.snapshot.counted and not _is_used(encoder, name)
    ways = _ways(encoder, name)
    return bool(ways) and ways <= _WAYS[encoder.logs[name]]


def found_used(encoder: Encoder) -> set[str]:
    """Return a mark for each name of what was left out as a log, though code that was found later uses it."""
    return {_mark(name) for name in encoder.logs if not _only_collects(encoder, name)}


def _mark(name: str) -> str:
    return f"{name}+"


def encode_log(encoder: Encoder, log: Log) -> bytes:
    container, before = log.container, encoder.before_call
    encoder.alive.append(container)
    encoder.snapshot.logs.add(id(container))
    kept = growing(encoder, container, names_of(encoder, log, encoder.within), before)
    is_changed = before is not None and kept is container  # otherwise than by growth
    return tagged(b"changed" if is_changed else b"log", type(container).__name__.encode())
