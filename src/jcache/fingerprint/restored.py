"""What a call sets, and a served call sets again: plain values of attributes and variables, and items of dicts.

Most often code computes such a value once, when it is first needed, or remembers that it has done something. Integers
that replace others are left out, and lists: they count or log how often a function is traced, and serving is no trace.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from functools import partial
from types import CellType, FunctionType, NoneType
from typing import Any, Final, cast

from jcache.fingerprint.growth import has_all_keys
from jcache.fingerprint.readings import Readings

Place = tuple[object, str]
"""Address of a value's holder, and the value's name there. None holds a module's globals, under their full names."""
PLAIN: Final = frozenset({NoneType, bool, int, float, str})
_ARRAY: Final = "array"
_TUPLE: Final = "tuple"
_ITEMS: Final = "items"
_PAIR: Final = 2  # a key and a value
_MAX_BYTES: Final = 1 << 20  # of all values that a call sets
_KINDS: Final = frozenset("biufc")  # of the types of arrays
Settings = list[list[Any]]
"""The names and numbers of what a call sets, and the values as JSON: a plain value as it is, ``{"tuple": [value]}``,
and for an array of numpy ``{"array": [type, shape, base64]}``; for a dict ``{"items": value}`` with the pairs that it
gets."""
Copies = Mapping[int, tuple[Set[str], Any]]
"""The names of containers, and what was in them, by their addresses."""
Store = Callable[[Any], None]
Places = Mapping[str, list[Store | None]]


class SetValues:
    """What a call has set, by names and numbers: several objects may hold something under one name.

    Attributes:
        settings: the same as JSON, once it is settled.
    """

    def __init__(self) -> None:
        self.settings: Settings = []
        self._values: dict[tuple[str, int], Any] = {}
        self._items: dict[tuple[str, int], tuple[Any, ...]] = {}

    def sets(self, place: Place, value: Any, before: Mapping[Place, Any], alive: Collection[object]) -> bool:
        """Note a value if it is another one than there was at a place, and can be set there again.

        Args:
            place: the place.
            value: the present value.
            before: the earlier values at all places.
            alive: the objects among which their holders are.

        Returns:
            Whether it is noted.
        """
        kind, then = type(value), before.get(place, value)
        if type(then) not in PLAIN or _is_equal(then, value) or kind is type(then) is int:
            return False
        if (
            Readings().has(kind, value)
            or stores([place], alive)[place[1]] == [None]
            or _as_json(value, map(id, alive)) is None
        ):
            return False
        number = [each for each in before if each[1] == place[1]].index(place)
        self._values[place[1], number] = value
        return True

    def grows(self, at: int, now: Any, copies: Copies, alive: Collection[object]) -> bool:
        """Note the items that a dict has got, if they can be set again, and none is an integer, which may count.

        Args:
            at: the earlier address of the dict.
            now: the dict as it is.
            copies: the earlier copies of all containers.
            alive: the objects among which they are.

        Returns:
            Whether they are noted.
        """
        names, before = copies[at]
        missing = object()
        pairs = ((key, value, before.get(key, missing)) for key, value in now.items())
        changed = [each for each in pairs if each[1] is not each[2] and not _is_equal(each[2], each[1])]
        items = tuple((key, value) for key, value, _ in changed)
        if not (has_all_keys(before, now) and all(then is missing or type(then) in PLAIN for *_, then in changed)):
            return False
        if any(type(value) is int and (then is missing or type(then) is int) for _, value, then in changed):
            return False
        if not items or all(at != id(each) for each in alive) or _as_json(items, map(id, alive)) is None:
            return False
        name = min(names)
        self._items[name, [each for each, (known, _) in copies.items() if name in known].index(at)] = items
        return True

    def settle(self, alive: Iterable[object]) -> list[str]:
        """Make `settings`; return a text if what was set cannot be set again, since two names have the same array."""
        places, dicts = sorted(self._values), sorted(self._items)
        values = tuple(self._values[each] for each in places), tuple(self._items[each] for each in dicts)
        made = _as_json(values, map(id, alive))
        if made is None:
            return [f"`{(*places, *dicts)[0][0]}` was set"]
        plain, added = (each[_TUPLE] for each in made[0][_TUPLE])
        found = [*plain, *({_ITEMS: each} for each in added)]
        self.settings = [[*name, value] for name, value in zip([*places, *dicts], found, strict=True)]
        return []


def stores(places: Iterable[Place], alive: Iterable[object]) -> dict[str, list[Store | None]]:
    """Return functions that set the values at some places, by the names of the places; None for one that cannot be set.

    Args:
        places: the places.
        alive: the objects among which their holders are.
    """
    holders, found = {id(each): each for each in alive}, dict[str, list[Store | None]]()
    spaces = _spaces(holders.values())
    for at, path in places:
        module, _, name = path.rpartition(".")
        holder = holders.get(cast("int", at)) if at != id(None) else sys.modules.get(module)
        is_known = at != id(None) or module not in spaces
        store = _store_of(holder, name) if is_known else _store_in(spaces[module], name)
        found.setdefault(path, []).append(store)
    return found


def _store_in(space: object, name: str) -> Store | None:
    return partial(space.__setitem__, name) if type(space) is dict and name in space else None


def _spaces(alive: Iterable[object]) -> dict[str, dict[str, Any] | None]:
    """Return the globals of functions by the names of their modules; None where several have one name, as by `exec`."""
    found = dict[str, dict[str, Any] | None]()
    for each in alive:
        if type(each) is FunctionType:
            name = str(each.__globals__.get("__name__"))
            found[name] = each.__globals__ if found.get(name, each.__globals__) is each.__globals__ else None
    return found


def _store_of(holder: Any, name: str) -> Store | None:
    """Return a function that sets what an object, a class or a cell holds under a name; None if it cannot."""
    if type(holder) is CellType:
        return partial(setattr, holder, "cell_contents")
    if isinstance(holder, type):
        return partial(type.__setattr__, holder, name) if name in vars(holder) else None
    try:
        return _store_in(object.__getattribute__(holder, "__dict__"), name)
    except AttributeError:
        return None


def by_name(copies: Copies, alive: Iterable[object]) -> dict[str, list[Any]]:
    """Return the containers by their names; None for one that is not there any more."""
    objects, found = {id(each): each for each in alive}, dict[str, list[Any]]()
    for at, (names, _) in copies.items():
        for name in names:
            found.setdefault(name, []).append(objects.get(at))
    return found


def setter(settings: Settings, places: Places, dicts: Mapping[str, list[Any]]) -> Callable[[], None]:
    """Return a function that sets values again.

    Args:
        settings: the names and values.
        places: the result of `stores` for all places that code reaches.
        dicts: the containers that it reaches, by their names.

    Raises:
        LookupError: there are fewer places or dicts of a name.
    """
    found = list[Callable[[], None]]()
    for name, number, value in settings:
        has_items = isinstance(value, dict) and _ITEMS in value
        there: list[Any] = [*(dicts if has_items else places).get(name, ())]
        if number >= len(there) or there[number] is None:
            raise LookupError(name)
        store = there[number].update if has_items else there[number]
        found.append(partial(store, decoded(value[_ITEMS] if has_items else value)))

    def set_again() -> None:
        for each in found:
            each()

    return set_again


def _is_equal(before: Any, now: Any) -> bool:
    """Return whether two plain values are the same to any code but one that asks for their addresses."""
    return type(before) is type(now) and type(now) in PLAIN and repr(before) == repr(now)


def _as_json(value: Any, known: Iterable[int]) -> Any:
    """Return a value as JSON, in a list; None if it cannot be set again.

    Args:
        value: the value.
        known: the addresses of objects that have been there before.
    """
    try:
        made = [_encoded(value, set(known))]
        return made if len(json.dumps(made, ensure_ascii=False).encode()) <= _MAX_BYTES else None
    except (TypeError, ValueError):
        return None


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


def checked(settings: Any) -> Settings | None:
    """Return what was read as JSON; raise ValueError, KeyError or TypeError if it is nothing that `SetValues` makes."""
    for name, number, value in settings or ():
        values = value[_ITEMS][_TUPLE] if isinstance(value, dict) and _ITEMS in value else [value]
        for each in values:
            decoded(each)
        if type(name) is not str or type(number) is not int or number < 0:
            raise ValueError(name)
        if values != [value] and not all(len(each[_TUPLE]) == _PAIR for each in values):
            raise ValueError(name)
    return cast("Settings | None", settings)


def decoded(value: Any) -> Any:
    """Return the value that is written as JSON."""
    if type(value) in PLAIN:
        return value
    if _TUPLE in value:
        return tuple(map(decoded, value[_TUPLE]))
    numpy: Any = sys.modules["numpy"]  # which JAX has imported
    kind, shape, content = value[_ARRAY]
    return numpy.frombuffer(bytearray(base64.b64decode(content)), numpy.dtype(kind)).reshape(shape).copy()
