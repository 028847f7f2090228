"""Explain why a call is, or is not, served from the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from jcache.errors import DamagedEntry, Unresolved
from jcache.findings import Finding
from jcache.fingerprint import places
from jcache.fingerprint.describe import labelled_changes, some
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import Kind, Root, name_of
from jcache.runtime.dependencies import staleness
from jcache.runtime.sealed_store import OpenedEntry, open_entry
from jcache.store.sealed_headers import latest_headers
from jcache.units import format_seconds
from jcache.vocabulary import VOCABULARY, CauseKind

_BUILT_OR_TRACED: Final = {Kind.GRAPHS: "built", Kind.TRACES: "traced"}
_ITEMS: Final = {  # by how the label of a part begins; what is not here is the function's code and what it reaches
    "argument ": CauseKind.STATIC,
    "option ": CauseKind.JAX_OPTION,
    "distribution jax": CauseKind.VERSION,
    "device": CauseKind.DEVICES,
    "platform": CauseKind.DEVICES,
}
_MAX_HEADERS_READ: Final = 200
_MAX_HEADERS_READ_AFTER_MISS: Final = 20
_DEPENDENCY_PREFIXES: Final = (
    "imported ",
    "content",
    "file ",
    "directory ",
    "environment ",
    "existence ",
    "status ",
    "link ",
    "side effects",
    places.LABEL,
    *places.BASES,
    places.PACKAGE,
)  # how the labels of dependencies begin that are found during a build


class Explanation(NamedTuple):
    """Whether a call is served from the cache, and the reason.

    Attributes:
        name: name of the function.
        key: key of the graph or trace; None if the call has none.
        hit: whether the call is served.
        reason: the reason why the call is, or is not, served.
        nearest: for a miss, key of the most similar entry of a function of this name; None if there is none.
        changes: the changes since that entry was made, a line each, such as ``theta 2.0 → 3.0``.
        item: for a miss, its cause in the words of `jcache explain`, such as ``static argument``; None if it has none.
    """

    name: str
    key: str | None
    hit: bool
    reason: str
    nearest: str | None = None
    changes: tuple[str, ...] = ()
    item: CauseKind | None = None

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
    load: Callable[[OpenedEntry], object],
    shared: Sequence[Root] = (),
) -> Explanation:
    """Return whether a root serves a call, and the reason; nothing is changed.

    Args:
        root: the root.
        kind: graphs or traces.
        name: name of the function.
        key: key of the requested graph or trace.
        parts: the parts of the key.
        load: loads the value of an entry, or raises DamagedEntry or Unresolved.
        shared: read-only roots that serve, too.
    """

    def explanation(reason: str, item: CauseKind | None, *changed: str) -> Explanation:
        nearest = key if changed else None
        return Explanation(name, key, hit=item is None, reason=reason, nearest=nearest, changes=changed, item=item)

    for place in (root, *shared):
        try:
            opened = open_entry(place, kind, key)
            if opened is None:
                continue
            if isinstance(opened, Finding):
                return explanation(f"it is damaged: {opened.evidence}", CauseKind.DAMAGED)
            if stale := staleness(opened.header, parts, root):
                since = f"its code or its inputs have changed since it was {_BUILT_OR_TRACED[kind]}:"
                return explanation(since, CauseKind.PROGRAM, *stale)
            load(opened)
        except (OSError, DamagedEntry, Unresolved) as error:
            return explanation(f"it cannot be loaded: {error}", CauseKind.UNREADABLE)
        seconds = format_seconds(opened.header.build_seconds)
        return explanation(f"from {place.path}, {_BUILT_OR_TRACED[kind]} in {seconds}", None)
    return nearest(root, kind, name, key, parts)


def nearest(
    root: Root, kind: Kind, name: str, key: str, parts: Mapping[str, str], *, limit: int = _MAX_HEADERS_READ
) -> Explanation:
    """Return the differences between a call and the most similar entry of its name.

    Args:
        root: the root.
        kind: graphs or traces.
        name: name of the function.
        key: key of the requested graph or trace.
        parts: the parts of the key.
        limit: the number of entries to compare, the latest first.
    """
    compared = []
    for header in latest_headers(root, kind, name_of(key), limit):
        before = _parts_before_build(header, parts)
        lines = labelled_changes(before, parts)
        compared.append((len(lines), -header.created_ns, header.key, lines, before))
    if not compared:
        reason = f"nothing of this name is in {root.path}"
        return Explanation(name=name, key=key, hit=False, reason=reason, item=CauseKind.FIRST_TIME)
    _, _, other, lines, before = min(compared, key=itemgetter(0, 1, 2))
    if lines:
        label, _ = lines[0]
        item = _item_of(label, before.get(label, ""), parts.get(label, ""))
        reason = f"the nearest of the {kind} differs:"
    else:
        item, reason = _why_missed_equal(kind, is_same=other == key)
    texts = tuple(text for _, text in lines)
    return Explanation(name=name, key=key, hit=False, reason=reason, nearest=other, changes=texts, item=item)


def _item_of(label: str, old: str, new: str) -> CauseKind:
    """Return the cause that a part of a key which differs is, given its label."""
    if label.startswith("array "):
        if old.partition("[")[0] != new.partition("[")[0]:
            return CauseKind.DTYPE
        return CauseKind.SHAPE if old.partition("]")[0] != new.partition("]")[0] else CauseKind.WEAK_TYPE
    return next((item for beginning, item in _ITEMS.items() if label.startswith(beginning)), CauseKind.PROGRAM)


def _why_missed_equal(kind: Kind, *, is_same: bool) -> tuple[CauseKind, str]:
    """Return the cause, and the reason, where a call was missed although an entry was made from equal parts."""
    if is_same:
        return CauseKind.MEANWHILE, VOCABULARY[CauseKind.MEANWHILE].reason
    if kind is Kind.GRAPHS:
        return CauseKind.KEY_PART, "it was stored by another codec"
    return (
        CauseKind.STATIC,
        "a trace with the same description has another key: values that the description abbreviates differ",
    )


def why_missed(root: Root, kind: Kind, name: str, key: str, parts: Mapping[str, str]) -> str:
    """Return in short why a call was missed: its differences from the most similar of the latest entries."""
    found = nearest(root, kind, name, key, parts, limit=_MAX_HEADERS_READ_AFTER_MISS)
    if found.nearest is None:
        return VOCABULARY[CauseKind.FIRST_TIME].reason
    return some(found.changes) if found.changes else found.reason


def _parts_before_build(header: EnvelopeHeader, parts: Mapping[str, str]) -> dict[str, str]:
    """Return the parts that an entry was made from, without the dependencies that its build found."""
    return {
        label: text
        for label, text in header.key_parts.items()
        if label in parts or not label.startswith(_DEPENDENCY_PREFIXES)
    }
