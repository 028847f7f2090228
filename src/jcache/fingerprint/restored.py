"""What a call sets, and a served call sets again: plain values of attributes and variables, and items of dicts.

Most often code computes such a value once, when it is first needed, or remembers that it has done something. Integers
that replace others are left out, and lists: they count or log how often a function is traced, and serving is no trace.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from jcache.fingerprint.growth import has_all_keys
from jcache.fingerprint.readings import Readings
from jcache.fingerprint.setters import Copies, Place, stores
from jcache.fingerprint.settings import ITEMS, NEW, PLAIN, TUPLE, Settings, as_json


class SetValues:
    """What a call has set, by names and numbers: several objects may hold something under one name.

    Attributes:
        settings: the same as JSON, once it is settled.
    """

    def __init__(self) -> None:
        self.settings: Settings = []
        self._values: dict[tuple[str, int], Any] = {}
        self._items: dict[tuple[str, int], tuple[Any, ...]] = {}
        self._new: dict[tuple[str, int], Any] = {}

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
            or as_json(value, map(id, alive)) is None
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
        if not items or all(at != id(each) for each in alive) or as_json(items, map(id, alive)) is None:
            return False
        name = min(names)
        self._items[name, [each for each, (known, _) in copies.items() if name in known].index(at)] = items
        return True

    def adds(self, name: str, number: int, value: Any, alive: Collection[object]) -> bool:
        """Note a value under a name that its holder did not have before, if it can be set again.

        Args:
            name: the name of the holder and the value's name there.
            number: the number of the holder among those of its name.
            value: the value.
            alive: the objects that were there before.

        Returns:
            Whether it is noted.
        """
        if Readings().has(type(value), value) or as_json(value, map(id, alive)) is None:
            return False
        self._new[name, number] = value
        return True

    def settle(self, alive: Iterable[object]) -> list[str]:
        """Make `settings`; return a text if what was set cannot be set again, since two names have the same array."""
        places, dicts = sorted(self._values), sorted(self._items)
        values = (self._values[each] for each in places), (self._items[each] for each in dicts), self._new.values()
        made = as_json(tuple(map(tuple, values)), map(id, alive))
        names = [*places, *dicts, *self._new]  # in the order in which holders have got what is new
        if made is None:
            return [f"`{names[0][0]}` was set"]
        plain, added, new = (each[TUPLE] for each in made[0][TUPLE])
        found = [*plain, *({ITEMS: each} for each in added), *({NEW: each} for each in new)]
        self.settings = [[*name, value] for name, value in zip(names, found, strict=True)]
        return []


def _is_equal(before: Any, now: Any) -> bool:
    """Return whether two plain values are the same to any code but one that asks for their addresses."""
    return type(before) is type(now) and type(now) in PLAIN and repr(before) == repr(now)
