"""Why a call is, or is not, served from the cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from jcache.errors import DamagedEntry, Unresolved
from jcache.findings import Finding
from jcache.fingerprint.describe import changes, some
from jcache.fingerprint.distributions import LOADED
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import Kind, Member, Root, member, name_of
from jcache.runtime.sealed_store import Opened, open_entry
from jcache.runtime.staleness import staleness
from jcache.store.store import header_at
from jcache.units import format_seconds

_MADE: Final = {Kind.GRAPHS: "built", Kind.TRACES: "traced"}
_MOST_READ: Final = 200
_FEW_READ: Final = 20
_FOUND: Final = (
    "ran ",
    LOADED,
    "pytrees registered",
    "file ",
    "directory ",
    "environment ",
    "existence ",
    "status ",
    "link ",
)  # how labels of what is found out meanwhile begin


class Explanation(NamedTuple):
    """Whether a call is served from the cache, and why not.

    Attributes:
        name: of the function.
        key: of the graph or trace; None where the call has none.
        hit: whether it is served.
        reason: of that.
        nearest: key of the most similar one of a function of this name, for a miss; None where there is none.
        changes: what has changed since that one was made, a line each, such as ``theta 2.0 → 3.0``.
    """

    name: str
    key: str | None
    hit: bool
    reason: str
    nearest: str | None = None
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.name}: {'hit' if self.hit else 'miss'}, {self.reason}"]
        if self.nearest is not None:
            lines.append(f"  nearest: {self.nearest}")
        return "\n".join([*lines, *(f"  {change}" for change in self.changes)])


def explain(
    root: Root,
    kind: Kind,
    name: str,
    key: str,
    parts: Mapping[str, str],
    load: Callable[[Opened], object],
    shared: Sequence[Root] = (),
) -> Explanation:
    """Whether a call is served by a root, and why not; nothing is changed.

    Args:
        root: which.
        kind: of what the call asks for.
        name: of the function.
        key: of what the call asks for.
        parts: what the key is made of.
        load: makes what an entry holds, or raises DamagedEntry or Unresolved.
        shared: more roots that serve.
    """

    def told(reason: str, *changed: str, hit: bool = False) -> Explanation:
        nearest = key if changed else None
        return Explanation(name=name, key=key, hit=hit, reason=reason, nearest=nearest, changes=changed)

    for place in (root, *shared):
        try:
            opened = open_entry(place, kind, key)
            if opened is None:
                continue
            if isinstance(opened, Finding):
                return told(f"it is damaged: {opened.evidence}")
            if stale := staleness(opened.header, parts):
                return told(f"what it was {_MADE[kind]} from has changed:", *stale)
            load(opened)
        except (OSError, DamagedEntry, Unresolved) as error:
            return told(f"it cannot be loaded: {error}")
        seconds = format_seconds(opened.header.build_seconds)
        return told(f"from {place.path}, {_MADE[kind]} in {seconds}", hit=True)
    return nearest(root, kind, name, key, parts)


def nearest(
    root: Root, kind: Kind, name: str, key: str, parts: Mapping[str, str], *, most: int = _MOST_READ
) -> Explanation:
    """What tells a call, whose key is made of these parts, from the nearest of so many entries of its name."""
    compared = [
        (len(lines := changes(_known_before(header, parts), parts)), -header.created_ns, header.key, lines)
        for header in _headers(root, kind, name_of(key), most)
    ]
    if not compared:
        return Explanation(name=name, key=key, hit=False, reason=f"nothing of this name is in {root.path}")
    _, _, other, lines = min(compared)
    reason = f"none of the {kind} was made from this:" if lines else _alike(kind, is_same=other == key)
    return Explanation(name=name, key=key, hit=False, reason=reason, nearest=other, changes=tuple(lines))


def _alike(kind: Kind, *, is_same: bool) -> str:
    """Why a call was missed though an entry was made from the same."""
    if is_same:
        return "another thread or process has stored it meanwhile"
    if kind is Kind.GRAPHS:
        return "it was stored by another codec"
    return "a trace of the same description has another key: what is described in words was not all the same"


def why_missed(root: Root, kind: Kind, name: str, key: str, parts: Mapping[str, str]) -> str:
    """Why a call was missed, in short: what tells it from the nearest of the latest entries of its name."""
    found = nearest(root, kind, name, key, parts, most=_FEW_READ)
    if found.nearest is None:
        return "nothing of this name was there"
    return some(found.changes) if found.changes else found.reason


def _headers(root: Root, kind: Kind, name: str, most: int) -> Iterator[EnvelopeHeader]:
    """The headers of the latest entries of a name."""
    found: list[tuple[float, str]] = []
    with suppress(OSError), os.scandir(root.directory(kind)) as items:
        for item in items:
            what, key = member(item.name)
            if what is Member.ENTRY and name_of(key) == name:
                with suppress(OSError):
                    found.append((item.stat(follow_symlinks=False).st_mtime, item.path))
    for _, path in sorted(found, reverse=True)[:most]:
        with suppress(OSError, DamagedEntry):
            yield header_at(path)


def _known_before(header: EnvelopeHeader, parts: Mapping[str, str]) -> dict[str, str]:
    """What an entry was made from, without what was found out meanwhile."""
    return {label: text for label, text in header.key_parts.items() if label in parts or not label.startswith(_FOUND)}
