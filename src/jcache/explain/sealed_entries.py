"""Compare traces, or graphs, with one another by the parts of their keys; JAX is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jcache.errors import DamagedEntry, InvalidValue, UnknownKey
from jcache.fingerprint import places
from jcache.fingerprint.describe import labelled_changes
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import Kind, name_of
from jcache.store import files
from jcache.store.lineage import is_program
from jcache.store.lookup import KeyFinder
from jcache.store.sealed_headers import latest_headers
from jcache.store.store import Store, header_at

_KINDS: Final = (Kind.TRACES, Kind.GRAPHS)
_MOST: Final = 200  # entries of a name, the latest first
_OF_ENTRY: Final = frozenset({"content", places.LABEL, *places.BASES})  # parts that tell entries apart, not calls
_FILE: Final = "file "


class PartChange(NamedTuple):
    """A part of the key in which two entries differ.

    Attributes:
        name: the label of the part, such as ``global RATE`` or ``array x``.
        text: what differs, such as ``global RATE 1.0 → 2.0``.
        current: what the entry that is explained has; empty if it lacks the part.
        baseline: what the other one has.
    """

    name: str
    text: str
    current: str
    baseline: str


class SealedComparison(NamedTuple):
    """The differences of two traces or two graphs.

    Attributes:
        current: the key of the entry that is explained.
        baseline: the key of the one that it is compared with; None if there is no other one of its name.
        changes: what differs.
    """

    current: str
    baseline: str | None
    changes: tuple[PartChange, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as data for ``json.dumps``."""
        causes = [{"name": each.name, "current": each.current, "baseline": each.baseline} for each in self.changes]
        return {"run": None, "key": self.current, "baseline": self.baseline, "recorded": True, "causes": causes}


def find_sealed(store: Store, text: str) -> EnvelopeHeader | None:
    """Return the header of the trace or graph that a text stands for; of a trace's program that of the trace.

    Args:
        store: whose entries.
        text: a function, of which the latest trace is meant, else its latest graph; or a key, or the beginning of one.

    Raises:
        UnknownKey: it stands for several, or for a program whose trace is gone.
        DamagedEntry: the entry is damaged.
        CannotWrite: it cannot be read.
    """
    for kind in _KINDS:
        if (latest := next(latest_headers(store.root, kind, text, 1), None)) is not None:
            return _traced(store, latest)
    by_kind = {kind: store.listing(kind).columns.keys for kind in _KINDS}
    keys = KeyFinder(key for keys in by_kind.values() for key in keys).answering(text)
    if len(keys) > 1:
        raise UnknownKey(f"'{text}' stands for {len(keys):,} keys of traces and graphs; give more of the key.")
    for kind, known in by_kind.items():
        for key in keys.intersection(known):
            path = store.root.place(kind, key)
            with files.refusal(f"read {path}"):
                return _traced(store, header_at(path))
    return None


def _traced(store: Store, header: EnvelopeHeader) -> EnvelopeHeader:
    """Return the header of the trace in place of that of a program of the trace."""
    if not is_program(header):
        return header
    try:
        return header_at(store.root.place(Kind.TRACES, header.parents[0]))
    except (OSError, DamagedEntry, ValueError, IndexError) as error:  # the program may name anything
        raise UnknownKey(f"{header.key} is the program of a trace that is gone or cannot be read.") from error


def compare_sealed(store: Store, current: EnvelopeHeader, baseline: EnvelopeHeader | None = None) -> SealedComparison:
    """Return in which parts of their keys two traces or two graphs differ.

    Args:
        store: whose entries.
        current: the header of the entry that is explained.
        baseline: that of the other one; None for the one with the fewest differences among the latest of its name.

    Raises:
        InvalidValue: they are a trace and a graph, or of two functions.
    """
    if baseline is not None:
        if (baseline.kind, baseline.name) != (current.kind, current.name):
            one, other = (f"{each.kind[:-1]} of {each.name}" for each in (current, baseline))
            raise InvalidValue(f"{current.key} is a {one}, {baseline.key} a {other}: compare entries of one function.")
        return SealedComparison(current.key, baseline.key, _changes(baseline, current))
    others = latest_headers(store.root, Kind(current.kind), name_of(current.key), _MOST)
    found = [(_changes(each, current), each.key) for each in others if each.key != current.key]
    changes, key = min(found, key=lambda each: len(each[0]), default=((), None))
    return SealedComparison(current.key, key, changes)


def _changes(before: EnvelopeHeader, now: EnvelopeHeader) -> tuple[PartChange, ...]:
    old, new = _parts(before.key_parts), _parts(now.key_parts)
    found = labelled_changes(old, new)
    return tuple(PartChange(label, text, new.get(label, ""), old.get(label, "")) for label, text in found)


def _parts(parts: Mapping[str, str]) -> dict[str, str]:
    """Return the parts that tell calls apart; what was read from a file once, under the shortest of its paths."""
    labels = sorted((each for each in parts if each.startswith(_FILE)), key=len, reverse=True)
    files = {(each.removeprefix(_FILE).rpartition("/")[2], parts[each]): each for each in labels}  # the last one stays
    left_out = _OF_ENTRY.union(labels).difference(files.values())
    return {label: text for label, text in parts.items() if label not in left_out}
