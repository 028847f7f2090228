"""Where a call has set values, and a served call sets them again."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from types import CellType, FunctionType
from typing import Any, NamedTuple, cast

from jcache.fingerprint import attributes
from jcache.fingerprint.describe import vars_of
from jcache.fingerprint.settings import COUNTS, ITEMS, MORE, NEW, SUM, Maker, Settings

Place = tuple[object, str]
"""Address of a value's holder, and the value's name there. None holds a module's globals, under their full names."""
Copies = Mapping[int, tuple[Set[str], Any]]
"""The names of containers, and what was in them, by their addresses."""
Store = Callable[[Any], None]
Places = Mapping[str, list[Store | None]]


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


def adders(counters: Mapping[Place, int], alive: Iterable[object]) -> dict[str, list[Store | None]]:
    """Return functions that add to the integers at some places, as `stores` returns those that set values."""
    names = [name for _, name in counters]
    return {
        name: [
            each and partial(_add, each, counters[place])
            for each, place in zip(found, (place for place in counters if place[1] == name), strict=True)
        ]
        for name, found in (stores(counters, alive) if names else {}).items()
    }


def _add(store: Store, value: int, more: int) -> None:
    store(value + more)


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


class Space(NamedTuple):
    """Something that holds named values: an object, a class, a function, or the globals of a module.

    Attributes:
        name: its name, which several objects may have.
        holder: itself.
        names: the names of the values that it has held first.
    """

    name: str
    holder: Any
    names: Set[str]

    def label(self, name: str) -> str:
        """Return the name of a value that it holds, as settings have it."""
        return f"{self.name}: {name}"

    def has(self, name: str) -> bool:
        """Return whether one value has a name there, and no other one has it as a text."""
        if isinstance(self.holder, dict | type):
            return True
        if hasattr(type(self.holder), "__pydantic_fields__"):  # its models remember what was set
            return False
        return name in vars_of(self.holder) or attributes.slots(type(self.holder)).count(name) == 1

    def store(self, name: str) -> Store:
        """Return a function that sets what has a name there, as the program has done."""
        if type(self.holder) is dict:  # globals
            return partial(self.holder.__setitem__, name)
        if isinstance(self.holder, type):
            return partial(type.__setattr__, self.holder, name)
        if (slot := attributes.slot_of(type(self.holder), name)) is not None:
            return partial(slot.__set__, self.holder)
        return partial(object.__getattribute__(self.holder, "__dict__").__setitem__, name)


def _adder(kind: str, there: Any) -> Callable[[Any], None]:
    """Return a function that adds items to a container, or numbers to those that a dict has."""
    if kind == COUNTS:
        return partial(_count, there)
    cls = type(there)
    add = cls.update if hasattr(cls, "update") else cls.extend
    return partial(dict.update if cls is Counter else add, there)  # that of a Counter counts


def _count(there: dict[Any, int], pairs: Iterable[tuple[Any, int]]) -> None:
    for key, number in pairs:
        there[key] = there.get(key, 0) + number


class Setters:
    """Where a served call sets values.

    Args:
        places: the result of `stores` for all places that code reaches.
        containers: the containers that it reaches, by their names.
        spaces: what it reaches that holds values, in the order of the walk.
        sums: the result of `adders` for all integers in which code only counts.
    """

    def __init__(
        self, places: Places, containers: Mapping[str, list[Any]], spaces: Iterable[Space], sums: Places
    ) -> None:
        self._maker = Maker()
        self._places = places
        self._containers = containers
        self._sums = sums
        self._spaces: dict[str, list[Space]] = {}
        for each in spaces:
            self._spaces.setdefault(each.name, []).append(each)

    def of(self, name: str, number: int, value: Any) -> Callable[[], None]:
        """Return a function that sets one value of `Settings`; raise LookupError if there is no such place."""
        if isinstance(value, dict) and NEW in value:
            outer, _, inner = name.partition(": ")
            return partial(self._spaces[outer][number].store(inner), self._maker.decoded(value[NEW]))
        kind = next((each for each in (ITEMS, COUNTS, MORE, SUM) if isinstance(value, dict) and each in value), None)
        there = [*({None: self._places, SUM: self._sums}.get(kind, self._containers)).get(name, ())][number]
        if there is None:
            raise LookupError(name)
        if kind in {None, SUM}:
            return partial(there, self._maker.decoded(value[SUM] if kind else value))
        return partial(_adder(kind, there), self._maker.decoded(value[kind]))

    def all_of(self, settings: Settings) -> Callable[[], None]:
        """Return a function that sets all values; raise LookupError if a place or a class is missing."""
        try:
            found = [self.of(*each) for each in settings]
        except AttributeError as error:  # of a class that has another name by now
            raise LookupError(str(error)) from error

        def set_again() -> None:
            for each in found:
                each()

        return set_again
