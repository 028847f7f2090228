"""What a call sets, and a served call sets again: plain values of attributes and globals in the place of other ones.

Most often code computes such a value once, when it is first needed, or remembers that it has done something.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any, Final, cast

Place = tuple[object, str]
"""Address of a value's holder, and the value's name there. None holds a module's globals, under their full names."""
PLAIN: Final = frozenset({NoneType, bool, int, float, str})
_ARRAY: Final = "array"
_TUPLE: Final = "tuple"
_MAX_BYTES: Final = 1 << 20  # of all values that a call sets
_KINDS: Final = frozenset("biufc")  # of the types of arrays
Settings = list[list[Any]]
"""The names and values of what a call sets, as JSON: a plain value as it is, ``{"tuple": [value]}``, and for an array
of numpy ``{"array": [type, shape, base64]}``."""


def namespaces(places: Iterable[Place], alive: Iterable[object]) -> dict[str, list[dict[str, Any]]]:
    """Return the dicts that hold the values at some places, those of objects and modules, by the names of the places.

    Args:
        places: the places.
        alive: the objects among which their holders are.
    """
    holders, found = {id(each): each for each in alive}, dict[str, list[dict[str, Any]]]()
    for at, path in places:
        module, _, name = path.rpartition(".")
        holder: Any = sys.modules.get(module) if at == id(None) else holders.get(cast("int", at))
        try:
            held = object.__getattribute__(holder, "__dict__")
        except AttributeError:
            held = None
        found.setdefault(path, []).extend([held] if type(held) is dict and name in held else [])
    return found


def can_be_set(place: Place, value: Any, before: Mapping[Place, Any], alive: Iterable[object]) -> bool:
    """Return whether a value is another one than there was at a place, and a served call can set it there again.

    Args:
        place: the place.
        value: the present value.
        before: the earlier values at all places.
        alive: the objects among which their holders are.
    """
    kind, then = type(value), before.get(place, value)
    is_array = kind.__module__ == "numpy" and kind.__name__ == "ndarray"
    if type(then) not in PLAIN or not (kind in PLAIN or kind is tuple or is_array):
        return False
    if (kind is type(then) and value == then) or [path for _, path in before].count(place[1]) > 1:
        return False
    return namespaces([place], alive)[place[1]] != []


def encoded(values: Mapping[str, Any], known: Iterable[int]) -> Settings | str:
    """Return the values that a call has set, as JSON; or the name of one that cannot be set again.

    Args:
        values: the values by the names of their places.
        known: the addresses of objects that have been there before.
    """
    shared, made, size = set(known), list[list[Any]](), 0
    for name, value in sorted(values.items()):
        try:
            made.append([name, _encoded(value, shared)])
            size += len(json.dumps(made[-1], ensure_ascii=False).encode())
        except (TypeError, ValueError):
            return name
        if size > _MAX_BYTES:
            return name
    return made


def _encoded(value: Any, shared: set[int]) -> Any:
    """Return a value as JSON.

    Args:
        value: the value.
        shared: the addresses of other objects, to which those of this value's arrays are added.

    Raises:
        TypeError: it is of another type, or an array that something else refers to.
        ValueError: it is no finite number.
    """
    if type(value) is float and not math.isfinite(value):
        raise ValueError
    if type(value) in PLAIN:
        return value
    if type(value) is tuple:
        return {_TUPLE: [_encoded(each, shared) for each in value]}
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray or value.dtype.kind not in _KINDS or id(value) in shared:
        raise TypeError
    is_plain = value.flags.c_contiguous and value.flags.writeable
    if not is_plain or id(value.base) in shared or not (value.base is None or type(value.base) is numpy.ndarray):
        raise TypeError
    shared.update({id(value), id(value.base)} - {id(None)})
    content = base64.b64encode(value.tobytes()).decode()
    return {_ARRAY: [value.dtype.str, list(value.shape), content]}


def setter(settings: Settings | None, places: Mapping[str, list[dict[str, Any]]]) -> Callable[[], None]:
    """Return a function that sets values again.

    Args:
        settings: the names and values.
        places: the result of `namespaces` for all places that code reaches.

    Raises:
        LookupError: there is not exactly one place of a name.
    """
    found = []
    for path, value in settings or ():
        if len(there := places.get(path, [])) != 1:
            raise LookupError(path)
        found.append((there[0], path.rpartition(".")[2], _decoded(value)))

    def set_again() -> None:
        for namespace, name, value in found:
            namespace[name] = value

    return set_again


def _decoded(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if _TUPLE in value:
        return tuple(map(_decoded, value[_TUPLE]))
    import numpy

    kind, shape, content = value[_ARRAY]
    return numpy.frombuffer(bytearray(base64.b64decode(content)), numpy.dtype(kind)).reshape(shape).copy()
