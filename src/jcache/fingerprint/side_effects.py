"""What a call has done to values that it reaches while its key stays the same: what has counted or grown, by names.

The call is stored all the same, if its own code does not use what it has counted. Other code may use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from jcache.fingerprint.ways import Way

if TYPE_CHECKING:
    from jcache.fingerprint.code import Meaning
    from jcache.fingerprint.snapshot import ValueSnapshot

IN_LIBRARY: Final = frozenset({"(library)"})  # the names of an object of a library's, for what it holds
IN_OBJECT: Final = frozenset({"(object)"})  # those of any other object
HIDDEN: Final = "(hidden)"  # the name of anything else that holds a container, such as a partial or a pytree
FILLS: Final = frozenset({".put", ".put_nowait", ".set", ".set_exception", ".set_result"})  # methods that tell nothing
_NONE: Final = frozenset[str]()


class UsesByName(NamedTuple):
    """How code uses what it names.

    Attributes:
        used: the names of what it uses.
        ways: the names of containers by the ways in which it uses them.
        filled: those of containers in which it stores items.
    """

    used: Set[str]
    ways: Mapping[Way, Set[str]]
    filled: Set[str]

    @classmethod
    def of(cls, uses: Iterable[Meaning], others: Set[str]) -> UsesByName:
        """Return how functions of some meanings use what they name.

        Args:
            uses: the meanings.
            others: the names of attributes that are read in another way.
        """
        found = list(uses)
        used = set(others).union(*(each.used for each in found))
        ways = {way: {name for each in found for name, its in each.ways if its is way} for way in Way}
        ways[Way.WHOLE] |= others
        if any(each.is_logger for each in found):  # the program's own: it may keep what it is given
            said = set[str]().union(*(each.said for each in found))
            used, ways[Way.WHOLE] = used | said, ways[Way.WHOLE] | said
        return cls(used, ways, set[str]().union(*(each.filled for each in found)))


class SideEffects(NamedTuple):
    """The names of what a call has changed.

    Attributes:
        changed: integers that another one has replaced.
        attributes: those of them that are attributes.
        grown: dicts that have grown.
        more: other containers that have grown, and those in which an integer was replaced.
        told: containers that tell other code of arrays.
        states: values that count by their type alone and have another state.
    """

    changed: Set[str] = _NONE
    attributes: Set[str] = _NONE
    grown: Set[str] = _NONE
    more: Set[str] = _NONE
    told: Set[str] = _NONE
    states: Set[str] = _NONE

    def used_by(self, code: ValueSnapshot, *, elsewhere: bool = False) -> list[str]:
        """Return a text for each name of what code uses in another way than the call has done.

        Args:
            code: the snapshot of a walk over the code.
            elsewhere: whether that is the code of another call.
        """
        used, ways, filled = code.uses_by_name
        counted = [f"`{name}` counts, and is used" for name in sorted(self.changed & used)]
        if code.reads_all:
            computed = sorted(self.attributes - used)
            counted += [f"`{name}` counts, and code computes names of attributes" for name in computed]
        outermost = {each.partition("[")[0] for each in self._found(code, ways, elsewhere=elsewhere)}
        named = sorted(outermost - IN_LIBRARY - IN_OBJECT - {HIDDEN})
        counted += [f"`{name}` changes, and is used for more" for name in named]
        counted += ["what an object holds changes, and may be used"] if outermost and not named else []
        asked = {name: code.asked_of_any(name) for name in sorted(self.states)}
        for name, asks in asked.items():
            if not asks <= FILLS or not (asks or elsewhere):
                counted.append(f"the state of `{name}` changes, and may be used")
        return counted + [f"`{name}` is filled for other code" for name in sorted(self.told & filled - used)]

    def _found(self, code: ValueSnapshot, ways: Mapping[Way, Set[str]], *, elsewhere: bool) -> set[str]:
        """Return the names of containers that code uses in another way than as a log or memo."""
        wrong = ways[Way.WHOLE] | (ways[Way.FLAG] - ways[Way.ITEM])
        wrong |= ways[Way.ITEM] & (ways[Way.COUNTED] | ways[Way.INNER])
        asking = ways[Way.ITEM] | ways[Way.FLAG]
        found = {*(self.grown & wrong), *(self.more & (wrong | asking))}
        found |= {*(self.grown & (asking - ways[Way.FILLED]))} if elsewhere else set()
        everywhere = self.grown | self.more
        found |= {each for each in everywhere if not ways[Way.WHOLE].isdisjoint(holders(each))}
        hidden = (*([HIDDEN] if elsewhere else IN_LIBRARY), *(IN_OBJECT if code.reads_all else ()))
        return found | {each for each in everywhere if code.reads_variables or each.startswith(hidden)}

    def as_text(self) -> str:
        """Return the names as JSON; empty if nothing has changed."""
        fields = {name: sorted(names) for name, names in self._asdict().items() if names}
        return json.dumps(fields, sort_keys=True, separators=(",", ":")) if fields else ""

    @classmethod
    def of_text(cls, text: str) -> SideEffects:
        """Return the names in a text of `as_text`; none if it cannot be read."""
        try:
            return cls(**{name: frozenset(map(str, names)) for name, names in json.loads(text).items()})
        except (AttributeError, TypeError, ValueError):
            return cls()


class Changed(NamedTuple):
    """The values of this process that a call has changed, whatever other code calls them.

    Attributes:
        grown: dicts, by their addresses, which are kept in use.
        others: other containers, and values with a state, likewise.
        places: the places of integers, see `jcache.fingerprint.snapshot.Place`.
    """

    grown: Mapping[int, object]
    others: Mapping[int, object]
    places: Set[tuple[object, str]]


def holders(name: str) -> list[str]:
    """Return the names of the containers that hold one of some name."""
    return [name[:at] for at, letter in enumerate(name) if letter == "["]
