"""What a call sets, and a served call sets again: plain values of attributes and variables, and items of dicts.

Most often code computes such a value once, when it is first needed, or remembers that it has done something. In place
of a clock reading the present time is set. Integers that replace others are left out, and what lists and sets get: they
count or log how often a function is traced, and serving is no trace. Where the function uses some of it for more than
to count, all of it is set again, too.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Any, Final, cast

from jcache import clock
from jcache.fingerprint.chance import STATE_OF
from jcache.fingerprint.describe import some
from jcache.fingerprint.generators import OWN, Generators
from jcache.fingerprint.growth import has_all_keys, is_memo
from jcache.fingerprint.holders import are_held_once
from jcache.fingerprint.readings import Readings
from jcache.fingerprint.sets import items_in_order
from jcache.fingerprint.setters import Copies, Place, stores
from jcache.fingerprint.settings import COUNTS, ITEMS, MORE, NEW, SUM, TUPLE, Parts, Settings, as_json, is_plain
from jcache.fingerprint.side_effects import IN_LIBRARY

_KEPT: Final = frozenset({bool, float, str})  # types of what libraries keep that is set again


class SetValues:
    """What a call has set, by names and numbers: several objects may hold something under one name.

    Attributes:
        settings: the same as JSON, once it is settled.
        is_complete: whether all that the call has changed can be set again.
        globals: the objects that were globals before the call, with their names, by their addresses.
        generators: the random generators.
    """

    def __init__(self) -> None:
        self.settings: Settings = []
        self.is_complete = True
        self.globals: dict[int, tuple[str, object]] = {}
        self.generators = Generators()
        self._values: dict[tuple[str, int], Any] = {}
        self._kept: dict[tuple[str, int], list[Any]] = {}  # by libraries, as JSON
        self._items: dict[tuple[str, int], tuple[str, tuple[Any, ...]]] = {}
        self._counted: dict[tuple[str, int], int] = {}  # integers in place of others,
        self._grown: dict[tuple[str, int], tuple[str, tuple[Any, ...]]] = {}  # and what containers have got
        self._added: dict[tuple[str, int], int] = {}  # to integers in which code only counts
        self._sums: dict[tuple[str, int], int] = {}
        self._new: dict[tuple[str, int], Any] = {}
        self._may_lack: set[tuple[str, int]] = set()
        self._since = clock.shown()
        self._found: list[Any] = []  # the objects and containers that may change

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
        if self._may_set(place, value, before, alive):
            self._values[_named(place, before)] = value
            return True
        return False

    def keeps(self, place: Place, value: Any, before: Mapping[Place, Any], alive: Collection[object]) -> bool:
        """Note a number or text that a library keeps for itself, as `sets` does: a served call may do without it."""
        if type(value) in _KEPT and self._may_set(place, value, before, alive):
            self._kept[_named(place, before)] = self._as_json(value, alive)
            return True
        return False

    def _may_set(self, place: Place, value: Any, before: Mapping[Place, Any], alive: Collection[object]) -> bool:
        kind, then = type(value), before.get(place, value)
        if not is_plain(then) or _is_equal(then, value) or kind is type(then) is int:
            return False
        is_reading = kind is str and Readings().has(kind, value)
        is_there = not is_reading and stores([place], alive)[place[1]] != [None]
        return is_there and self._as_json(value, alive) is not None

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
        if not (has_all_keys(before, now) and all(then is missing or is_plain(then) for *_, then in changed)):
            return False
        if any(type(value) is int and (then is missing or type(then) is int) for _, value, then in changed):
            return False
        if not items or all(at != id(each) for each in alive) or self._as_json(items, alive) is None:
            return False
        self._items[_number(at, names, copies)] = ITEMS, items
        return True

    def counts(self, place: Place, value: int, before: Mapping[Place, Any], alive: Collection[object]) -> None:
        """Note an integer that has replaced another one; for the arguments see `sets`."""
        if stores([place], alive)[place[1]] == [None]:
            self.is_complete = False
        self._counted[_named(place, before)] = value

    def tallies(
        self, before: Mapping[Place, int], now: Mapping[Place, int], alive: Callable[[], Collection[object]]
    ) -> set[str]:
        """Note what was added to integers in which code only counts, by their places, and return their names."""
        changed = {place: now[place] - each for place, each in before.items() if now.get(place, each) != each}
        if changed:
            self.is_complete &= all(None not in each for each in stores(changed, alive()).values())
        self._added.update({_named(place, before): number for place, number in changed.items()})
        return {name.rpartition(".")[2] for _, name in changed}

    def gets(self, at: int, now: Any, copies: Copies, alive: Collection[object]) -> None:
        """Note what a container has got that has only grown, or in which integers were replaced; see `grows`."""
        names, before = copies[at]
        if all(each.startswith(tuple(IN_LIBRARY)) for each in names):
            self.is_complete &= bool(names)
            return
        kind = ITEMS if isinstance(now, dict) else MORE
        if kind == ITEMS:
            missing = object()
            items = tuple(each for each in now.items() if each[1] is not before.get(each[0], missing))
        elif isinstance(now, set):
            items = _got_by_set(now, before)
        else:
            items = tuple(now)[len(before) :]
            self.is_complete &= all(one is other for one, other in zip(before, now, strict=False))
        if self._as_json(items, alive) is not None:
            self._grown[_number(at, names, copies)] = kind, items
        elif not is_memo(before, now):  # which code fills when it asks for an item
            self.is_complete = False

    def adds_to(self, at: int, now: Mapping[Any, int], copies: Copies, alive: Collection[object]) -> None:
        """Note what was added to the integers in a dict; see `grows`."""
        names, before = copies[at]
        items = tuple((key, each - before.get(key, 0)) for key, each in now.items() if each != before.get(key))
        if self._as_json(items, alive) is None:
            self.is_complete = False
        elif items:
            self._grown[_number(at, names, copies)] = COUNTS, items

    def __bool__(self) -> bool:
        """Return whether something is noted as set, besides what has counted and grown."""
        return bool(self._values or self._items or self._new or self.generators.left)

    def take_all(self) -> bool:
        """Take what has counted and grown as set, too, and return True; or return False if that is not possible."""
        if self.is_complete:
            self._values |= self._counted
            self._items |= self._grown
            self._sums |= self._added
        return self.is_complete

    def adds(self, name: str, number: int, value: Any, alive: Collection[object], *, may_lack: bool = False) -> bool:
        """Note a value under a name that its holder did not have before, if it can be set again.

        Args:
            name: the name of the holder and the value's name there.
            number: the number of the holder among those of its name.
            value: the value.
            alive: the objects that were there before.
            may_lack: whether a served call may do without it.

        Returns:
            Whether it is noted.
        """
        if (type(value) is str and Readings().has(str, value)) or self._as_json(value, alive) is None:
            return False
        self._new[name, number] = value
        self._may_lack.update([(name, number)] if may_lack else [])
        return True

    def has(self, module: str, name: str) -> bool:
        """Return whether a global of a module is set again."""
        known = {each for each, _ in (*self._values, *self._new)}
        return f"{module}.{name}" in known or f"globals {module}: {name}" in known

    def settle(self, alive: Collection[object]) -> list[str]:
        """Make `settings`; return a text if what was set cannot be set again, since two names have the same array."""
        if not self.is_complete and self:
            return ["what it collects cannot be set again"]
        self._values |= {(OWN, number): state for number, state in self.generators.left.items()}
        places, dicts = sorted(self._values), sorted(self._items)
        items = [self._items[each] for each in dicts]
        got = (Parts(each if kind == MORE else map(Parts, each)) for kind, each in items)
        values = (self._values[each] for each in places), got, self._new.values()
        self._found.clear()
        made = self._as_json(Parts(map(Parts, values)), alive, self._found)
        names = [*places, *dicts, *self._new]  # in the order in which holders have got what is new
        if made is None and self._may_lack:
            self._new = {name: value for name, value in self._new.items() if name not in self._may_lack}
            self._may_lack.clear()
            return self.settle(alive)
        if made is None:
            return [f"`{names[0][0]}` was set"]
        plain, added, new = (each[TUPLE] for each in made[0][TUPLE])
        grown = [{kind: each} for (kind, _), each in zip(items, added, strict=True)]
        found = [*plain, *grown, *({NEW: each} for each in new)]
        self.settings = [[*name, value] for name, value in zip(names, found, strict=True)]
        self.settings += [[*name, {SUM: number}] for name, number in sorted(self._sums.items())]
        self.settings += [[*name, *value] for name, value in sorted(self._kept.items())]
        return []

    def _as_json(self, value: Any, alive: Collection[object], found: list[Any] | None = None) -> Any:
        sets = (frozenset(cast("set[Any]", each)) for each in alive if type(each) in {set, frozenset})
        known = frozenset(each for each in sets if all(type(one) is str for one in each))
        return as_json(value, map(id, alive), found, since=self._since, names=self.globals, sets=known)

    def check_holders(self) -> list[str]:
        """Keep none of the values in use; return a text if something else holds one of them, too."""
        for each in (
            self._values,
            self._kept,
            self._items,
            self._counted,
            self._grown,
            self._added,
            self._sums,
            self._new,
            self.globals,
        ):
            each.clear()
        values, self._found = self._found, []
        if not self.settings or are_held_once(values):
            return []
        names = sorted({str(each[0]) for each in self.settings})
        self.settings = []
        return [f"what is set is held elsewhere, too: {some(names)}"]


def are_once(settings: Settings | None) -> bool:
    """Return whether a second trace in one process would set something else: counts, or the states of generators."""
    adding, others = {COUNTS, MORE, SUM}, without_states(settings)
    return len(others) < len(settings or ()) or any(
        type(value) is int or (isinstance(value, dict) and not adding.isdisjoint(value)) for *_, value in others
    )


def without_states(settings: Settings | None) -> Settings:
    """Return settings but for the states of random generators."""
    return [each for each in settings or () if each[0] != OWN and not each[0].startswith(STATE_OF)]


def _named(place: Place, places: Iterable[Place]) -> tuple[str, int]:
    """Return the name of a place, and its number among those of that name."""
    return place[1], [each for each in places if each[1] == place[1]].index(place)


def _number(at: int, names: Set[str], copies: Copies) -> tuple[str, int]:
    """Return one of the names of the container at an address, and its number among those of that name."""
    name = min(names)
    return name, [each for each, (known, _) in copies.items() if name in known].index(at)


def _got_by_set(now: Set[Any], before: Set[Any]) -> tuple[Any, ...]:
    """Return the items that a set has got; an object, which cannot be set again, if they have no order."""
    try:
        return tuple(items_in_order(now, before)) if all(map(is_plain, now - before)) else (object(),)
    except TypeError:
        return (object(),)


def _is_equal(before: Any, now: Any) -> bool:
    """Return whether two plain values are the same to any code but one that asks for their addresses."""
    return type(before) is type(now) and is_plain(now) and repr(before) == repr(now)
