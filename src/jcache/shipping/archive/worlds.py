"""The worlds in which the traces and graphs of an archive were compared, as lines of its manifest.

A line is ``world DIGEST {"label": "digest", …}`` or ``compared …``, a comparison as `jcache.runtime.worlds` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from jcache.entry import Entry
from jcache.layout import Kind, Root
from jcache.runtime.worlds.comparisons import Compared, components_of, every_comparison, parse, text_of, write
from jcache.runtime.worlds.world import digest_of
from jcache.shipping.archive.manifest import Item, WorldLine
from jcache.shipping.archive.manifest_schema import LONGEST_LINE

_KINDS: Final = frozenset({Kind.TRACES, Kind.GRAPHS})
_WORLD: Final = "world "
_COMPARED: Final = "compared "


def lines_of(root: Root, entries: Iterable[Item | Entry]) -> Iterator[WorldLine]:
    """Yield the lines for some entries of a root, in the order of the manifest."""
    keys = {entry.key for entry in entries if entry.kind in _KINDS}
    compared = [each for each in every_comparison(root) if each.text in keys] if keys else []
    worlds = {world: components_of(root, world) for world in {each.world for each in compared}}
    lines = [f"{_COMPARED}{each.line()}" for each in compared if worlds[each.world] is not None]
    lines += [f"{_WORLD}{world} {text_of(found)}" for world, found in worlds.items() if found is not None]
    return (WorldLine(line) for line in sorted(set(lines)) if len(line) <= LONGEST_LINE)


def keys_of(lines: Iterable[WorldLine]) -> set[str]:
    """Return the keys of the entries whose comparisons some lines tell."""
    told = (parse(each.line.removeprefix(_COMPARED)) for each in lines if each.line.startswith(_COMPARED))
    return {each.text for each in told if each is not None}


def keep_lines(root: Root, lines: Iterable[WorldLine], keys: Collection[str]) -> None:
    """Add the lines of an archive to a root, as far as they are about some entries; a failure is ignored.

    Args:
        root: the root.
        lines: the lines of the manifest.
        keys: the keys of the entries.
    """
    worlds: dict[str, Mapping[str, str]] = {}
    compared: list[Compared] = []
    for line in (each.line for each in lines):
        if line.startswith(_COMPARED):
            found = parse(line.removeprefix(_COMPARED))
            compared += [found] if found is not None and found.text in keys else []
        elif (components := _components(line)) is not None:
            worlds[digest_of(components)] = components
    known = {each.line() for each in every_comparison(root)} if compared else set()
    new = [each for each in compared if each.world in worlds and each.line() not in known]
    with suppress(OSError):
        if new:
            write(root, new, worlds.get)


def _components(line: str) -> Mapping[str, str] | None:
    """Return the components that a line has; None if they do not have the digest that it names."""
    told, _, text = line.removeprefix(_WORLD).partition(" ")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_plain = isinstance(found, dict) and all(isinstance(value, str) for value in found.values())
    return found if is_plain and digest_of(found) == told else None
