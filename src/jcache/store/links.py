"""What links between entries mean for those who remove some: which are one, and which are needed by others. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from jcache.entry import Entry
from jcache.frozen import Frozen
from jcache.layout import Kind

Node = tuple[Kind, str]
Name = tuple[Kind, str, bool]  # with whether it is legacy: a legacy entry may have the key of a current one


def exact_name(entry: Entry) -> Name:
    """Return what no other entry of the root has."""
    return entry.kind, entry.key, entry.legacy


def node_of(entry: Entry) -> Node:
    """Return the kind and key of an entry."""
    return entry.kind, entry.key


class Links(NamedTuple):
    """How the entries of a root hang together.

    Attributes:
        trace_of: by the keys of programs, their traces.
        executables: by the keys of traces, the executables that their programs name, be they there or not.
        strays: keys of programs whose trace has gone, or has given way to another.
    """

    trace_of: Mapping[str, str] = Frozen({})
    executables: Mapping[str, frozenset[str]] = Frozen({})
    strays: frozenset[str] = frozenset()


NO_LINKS: Final = Links()


class Ties:
    """What links make of entries.

    Args:
        entries: which.
        links: between them.

    Attributes:
        units: by the keys of traces, the trace and its programs.
        strays: programs that are of no use any more.
    """

    def __init__(self, entries: Sequence[Entry], links: Links) -> None:
        self._links = links
        self.units: dict[str, list[Entry]] = {}
        self.strays: list[Entry] = []
        self._as_one: dict[str, Entry] = {}
        self._needing: dict[str, list[str]] = {}
        if links == NO_LINKS:
            return
        traces = {entry.key: entry for entry in entries if entry.kind is Kind.TRACES}
        self.strays = [traces[key] for key in sorted(links.strays & traces.keys())]
        for program, trace in links.trace_of.items():
            if program in traces and trace in traces:
                self.units.setdefault(trace, [traces[trace]]).append(traces[program])
        self._as_one = {trace: _as_one(unit) for trace, unit in self.units.items()}
        for trace in self.units:
            for executable in self.needs(trace):
                self._needing.setdefault(executable, []).append(trace)

    def unit_of(self, entry: Entry) -> str | None:
        """Return the trace that an entry is one with, itself perhaps; None for an entry on its own."""
        if not self.units or entry.kind is not Kind.TRACES:
            return None
        trace = self._links.trace_of.get(entry.key, entry.key)
        return trace if trace in self.units else None

    def without_parts(self, names: Collection[Name]) -> set[Name]:
        """Return some entries without the traces and programs that are one with an entry that is none of them."""
        found = set(names)
        for unit in self.units.values():
            whole = set(map(exact_name, unit))
            if not whole <= found:
                found -= whole
        return found

    def is_program(self, entry: Entry) -> bool:
        """Return whether an entry is one with a trace, and not that trace."""
        return self.unit_of(entry) not in (None, entry.key)

    def needing(self, entry: Entry) -> Sequence[str]:
        """Return the traces that need an executable."""
        return self._needing.get(entry.key, ()) if entry.kind is Kind.EXECUTABLES else ()

    def needs(self, trace: str) -> Collection[str]:
        """Return the keys of the executables that a trace needs."""
        return self._links.executables.get(trace, ())

    def used_ns(self, entry: Entry, gone: Collection[str] = ()) -> int:
        """Return the last use of an entry, or of a remaining entry that needs it, whichever is later."""
        unit = self.unit_of(entry)
        if unit is not None:
            return self.as_one(unit).latest_ns
        needing = (self.as_one(trace).latest_ns for trace in self.needing(entry) if trace not in gone)
        return max([entry.latest_ns, *needing])

    def as_one(self, trace: str) -> Entry:
        """Return a trace with its programs, as if they were one entry."""
        return self._as_one[trace]

    def protected_by(self, entries: Iterable[Entry], recent: Iterable[Entry] = ()) -> dict[Node, str]:
        """Return the entries that must stay because others do, each with the trace that needs it.

        Args:
            entries: that stay.
            recent: those that do for their recency, and so with them that by which it is theirs.
        """
        protected: dict[Node, str] = {}
        units = {unit for entry in entries if (unit := self.unit_of(entry)) is not None}
        for entry in recent:
            latest = max(self.needing(entry), key=lambda trace: (self.as_one(trace).recency_ns, trace), default=None)
            if latest is not None and self.as_one(latest).recency_ns >= entry.recency_ns:
                units.add(latest)
        for trace in sorted(units):
            protected |= {(entry.kind, entry.key): trace for entry in self.units[trace]}
            protected |= {(Kind.EXECUTABLES, key): trace for key in self.needs(trace)}
        return protected

    def whole(self, ordered: Sequence[Entry], count: int) -> int:
        """Return how many ordered entries go if so many must, without separating a trace from its programs."""
        if count:
            last = self.unit_of(ordered[count - 1])
            while last is not None and count < len(ordered) and self.unit_of(ordered[count]) == last:
                count += 1
        return count


def _as_one(unit: Sequence[Entry]) -> Entry:
    recency_ns = max(entry.recency_ns for entry in unit)
    return unit[0]._replace(
        bytes=sum(entry.bytes for entry in unit),
        recency_ns=recency_ns,
        within_ns=max(entry.latest_ns for entry in unit) - recency_ns,
        seconds=sum(entry.seconds or 0.0 for entry in unit),
    )
