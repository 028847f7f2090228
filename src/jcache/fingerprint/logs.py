"""Containers that code only fills, such as logs and counts by name: what they hold decides no result.

So a function that logs or counts its calls has the same key wherever these begin: after calls that were served, which
logged nothing, as after calls that were traced.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import collections
from collections.abc import Set
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.fingerprint.describe import vars_of
from jcache.fingerprint.side_effects import HIDDEN, IN_LIBRARY, IN_OBJECT, IN_WHOLE, holders
from jcache.fingerprint.ways import Way, item_name

if TYPE_CHECKING:
    from jcache.fingerprint.snapshot import ValueSnapshot
    from jcache.fingerprint.values import Encoder

_LACK_NO_KEY: Final = frozenset({collections.Counter, collections.defaultdict})
_NUMBERS: Final = frozenset({int, float})
_HELD: Final = ("__defaults__", "__kwdefaults__")  # by which code may reach what functions keep
_NO_LOGS: Final = IN_LIBRARY | (IN_WHOLE - IN_OBJECT) | {HIDDEN}
_MARKED: Final = "{}"  # stands among the names that count if a container has turned out to be a log
_WAYS: Final = (Way.FILLED, Way.COUNTED)


class Growing(NamedTuple):
    """A container that may grow.

    Attributes:
        kind: its type.
        names: the names by which code reaches it.
        way: how code fills it if it counted as a log, else None.
    """

    kind: type
    names: set[str]
    way: Way | None


def growing(encoder: Encoder, container: Any, names: Set[str], before: ValueSnapshot | None) -> Any:
    """Return what counts of a container that may grow, and record the container.

    Args:
        encoder: the encoder.
        container: a container of a type in `jcache.fingerprint.snapshot.GROWING`.
        names: the names by which code reaches it.
        before: the snapshot of an earlier walk, if there is one.

    Returns:
        The container, or its copy in the earlier snapshot if it has only grown since. A log counts as if it were empty,
        and a dict in which code only counts by its keys.
    """
    way, was = None, container
    if not (encoder.is_given or vars_of(container)):
        way = _way_so_far(encoder, type(container), names)
        encoder.growing[id(container)] = Growing(type(container), {*names}, way)
    if before is None:
        encoder.snapshot.add(container, names, id(encoder.originals.get(id(container), container)))
    elif (was := before.as_it_was(container, is_log=way is not None)) is container:  # it changes, or is new
        return container
    if way is not None:
        was = encoder.shown[id(container)] = _without_items(was, way)
    return was


def names_of(encoder: Encoder, within: Set[str]) -> Set[str]:
    """Return the names by which code may reach the value that is encoded next, within what has some names.

    That is hidden which has no name of its own, and is held by no container or object.
    """
    name = encoder.place or encoder.label_name()
    is_hidden = not (within or encoder.is_head())
    return _within(within, name) | ({item_name(HIDDEN, name)} if is_hidden else set())


def _within(holders: Set[str], name: str) -> Set[str]:
    """Return the names of a container: its own, and those of an item of the containers that hold it."""
    return {name, *(item_name(each, key) for each in holders for key in (name, None))}


def add_names(encoder: Encoder, container: Any, within: Set[str]) -> None:
    """Record further names by which code may reach a value that was seen before."""
    names = names_of(encoder, within)
    encoder.snapshot.add_names(container, names)
    if id(container) in encoder.growing:
        encoder.growing[id(container)].names.update(names)


def found_otherwise(encoder: Encoder) -> set[str]:
    """Return marks for the names of what counted as a log, or did not, though the code visited later uses it otherwise.

    Another walk must begin with them.
    """
    marks = set[str]()
    for kind, names, way in encoder.growing.values():
        now = _way(encoder.snapshot, kind, names)
        if now is not way and way is not None:
            marks.update(map(_mark, names))
        elif now is not way and encoder.leaves_out(*_HELD, *map(_mark, names)):
            marks.update([_MARKED], (_mark(name, now) for name in names))
    encoder.aside |= marks - encoder.names
    return marks


def _way_so_far(encoder: Encoder, kind: type, names: Set[str]) -> Way | None:
    """Return how the code visited so far fills a container, or how an earlier walk has found that code fills it."""
    way = _way(encoder.snapshot, kind, names)
    if way is None and _MARKED in encoder.names:
        way = next((each for each in _WAYS if all(_mark(name, each) in encoder.names for name in names)), None)
    return way if way and encoder.leaves_out(*_HELD, *map(_mark, names)) else None


def _way(snapshot: ValueSnapshot, kind: type, names: Set[str]) -> Way | None:
    """Return how code fills a container; None if it does not, or uses it in any other way.

    To count in a dict that lacks the key is an error, so its keys count.
    """
    if snapshot.logs.isdisjoint(names):
        return None
    ways = snapshot.uses_by_name.ways
    found = {way for way, those in ways.items() if not those.isdisjoint(names)}
    outer = {holder for name in names for holder in holders(name)}
    if not _NO_LOGS.isdisjoint(outer) or not ways[Way.WHOLE].isdisjoint(outer):
        return None
    if kind in _LACK_NO_KEY and found <= set(_WAYS):
        return Way.FILLED
    return Way.FILLED if found == {Way.FILLED} else Way.COUNTED if kind is dict and found == {Way.COUNTED} else None


def _without_items(container: Any, way: Way) -> Any:
    if way is Way.COUNTED:
        return {key: 0 if type(each) in _NUMBERS else each for key, each in container.items()}
    emptied = container.copy()
    emptied.clear()
    return emptied


def _mark(name: str, way: Way | None = None) -> str:
    """Return what stands among the names that count for a container that code fills in a way; without one, for one
    that is no log.
    """
    return f"{name}{{{way.name if way else ''}}}"
