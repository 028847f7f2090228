"""Tree of the entries that an entry was made from, or that were made from it: graph → trace → program → executable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from jcache.cli import output
from jcache.layout import short_key
from jcache.store.lineage import Lineage, Role
from jcache.store.links import Node
from jcache.units import format_seconds

_MAX_CHILDREN: Final = 20
_LINES: Final = ("├─ ", "└─ ", "│  ", "   ", "←")
_ASCII: Final = ("+- ", "`- ", "|  ", "   ", "<-")
_MISSING_TEXTS: Final = {
    Role.GRAPH: "is missing",
    Role.TRACE: "is missing, so no call can use its programs",
    Role.PROGRAM: "is missing",
    Role.EXECUTABLE: "is missing: it will be compiled from the stored program",
}

_Next = Callable[[Node], list[Node]]


def as_json(lineage: Lineage, entry: Node) -> dict[str, Any]:
    """Return the parents and children of an entry, each with its own, as JSON values."""
    return {
        "parents": _nested(lineage, entry, "parents", lineage.parents, {entry}),
        "children": _nested(lineage, entry, "children", lineage.children, {entry}),
    }


def _nested(lineage: Lineage, of: Node, name: str, following: _Next, above: set[Node]) -> list[dict[str, Any]]:
    return [
        {
            "kind": member[0],
            "role": lineage.role(member),
            "key": member[1],
            "here": lineage.is_here(member),
            name: _nested(lineage, member, name, following, above | {member}),
        }
        for member in following(of)
        if member not in above
    ]


def lines(lineage: Lineage, entry: Node, *, verbose: bool) -> list[str]:
    """Return the lines of an entry's tree, which begins at its first ancestors; none for an entry without relations."""
    ancestors = _reached(entry, lineage.parents)
    if not ancestors and not lineage.children(entry):
        return []
    tree = _Tree(lineage, entry, ancestors | {entry} | _reached(entry, lineage.children), verbose=verbose)
    tops = [member for member in sorted(ancestors) if not lineage.parents(member)] or [entry]
    return [line for top in tops for line in tree.drawn(top)]


def _reached(start: Node, following: _Next) -> set[Node]:
    found: set[Node] = set()
    waiting = [start]
    while waiting:
        for member in following(waiting.pop()):
            if member not in found and member != start:
                found.add(member)
                waiting.append(member)
    return found


class _Tree:
    """Drawing of the related entries, in which one is marked; with `verbose`, all children with full keys."""

    def __init__(self, lineage: Lineage, entry: Node, related: set[Node], *, verbose: bool) -> None:
        self._lineage = lineage
        self._entry = entry
        self._related = related
        self._verbose = verbose
        self._drawn: set[Node] = set()
        self._fork, self._last, self._down, self._blank, self._here = (
            _LINES if output.takes("".join(_LINES)) else _ASCII
        )

    def drawn(self, top: Node) -> Iterator[str]:
        """Yield a line for a member and for each entry that was made from it."""
        again = top in self._drawn
        self._drawn.add(top)
        children = [child for child in self._lineage.children(top) if child in self._related]
        yield self._text(top) + (" (see above)" if again and children else "")
        if again:
            return
        shown = children if self._verbose else children[:_MAX_CHILDREN]
        left = len(children) - len(shown)
        for i, child in enumerate(shown):
            last = i == len(shown) - 1 and not left
            for number, line in enumerate(self.drawn(child)):
                yield f"{(self._blank if last else self._down) if number else self._last if last else self._fork}{line}"
        if left:
            yield f"{self._last}and {left:,} more (-v lists them)"

    def _text(self, member: Node) -> str:
        lineage = self._lineage
        role, key = lineage.role(member), member[1] if self._verbose else short_key(member[1])
        if not lineage.is_here(member):
            return f"{role} {key} {_MISSING_TEXTS[role]}"
        header = lineage.headers.get(member)
        text = f"{role} {key}"
        if header is not None and header.build_seconds:
            text += f", {'traced' if role is Role.TRACE else 'built'} in {format_seconds(header.build_seconds)}"
        if header is not None and role is Role.PROGRAM and not header.payload_length:
            text += ", for one more device"
        if lineage.is_stray(member):
            text += ", whose trace is missing"
        return f"{text} {self._here}" if member == self._entry else text
