"""How the entries of a root descend from each other: graph → trace → program → executable.

Entries in sealed envelopes name their parents, and a program of a trace the executable that was compiled from it.
Reading that takes the headers of all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

from jcache.errors import DamagedEntry
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import ENTRY_SUFFIX, Kind, storable
from jcache.store.links import Links, Node
from jcache.store.store import Store, header_at

_TRACE: Final = "trace"  # key parts of programs
_EXECUTABLE: Final = "executable"


class Role(StrEnum):
    """What an entry is to others."""

    GRAPH = "graph"
    TRACE = "trace"
    PROGRAM = "program"
    EXECUTABLE = "executable"


def version_of(trace: EnvelopeHeader) -> str:
    """Return the identity of a trace among all traces that have had its key."""
    return str(trace.created_ns)


def belongs_to(program: EnvelopeHeader, trace: EnvelopeHeader) -> bool:
    """Return whether a program is one of a trace's."""
    return program.parents == (trace.key,) and program.key_parts.get(_TRACE) == version_of(trace)


def is_program(header: EnvelopeHeader) -> bool:
    """Return whether an entry of the traces is a program, and not a trace."""
    return header.kind == Kind.TRACES and _TRACE in header.key_parts


class Lineage:
    """The entries of a root that descend from others, or that others descend from.

    Args:
        headers: of the traces and graphs.
        executables: the keys of those that are there.
        unread: traces that are there and cannot be read.
    """

    def __init__(
        self, headers: Iterable[EnvelopeHeader], executables: Collection[str], unread: Collection[Node] = ()
    ) -> None:
        self.headers: Mapping[Node, EnvelopeHeader] = {(Kind(header.kind), header.key): header for header in headers}
        self._executables = executables
        self._unread = unread
        self._parents: dict[Node, list[Node]] = {}
        self._children: dict[Node, list[Node]] = {}
        for member, header in self.headers.items():
            for parent in _parents(header):
                self._link(parent, member)
            if (executable := _executable(header)) is not None:
                self._link(member, (Kind.EXECUTABLES, executable))

    def _link(self, parent: Node, child: Node) -> None:
        self._parents.setdefault(child, []).append(parent)
        self._children.setdefault(parent, []).append(child)

    def parents(self, member: Node) -> list[Node]:
        """Return the entries from which an entry was made."""
        return sorted(self._parents.get(member, ()))

    def children(self, member: Node) -> list[Node]:
        """Return the entries that were made from an entry."""
        return sorted(self._children.get(member, ()))

    def is_here(self, member: Node) -> bool:
        kind, key = member
        return key in self._executables if kind is Kind.EXECUTABLES else member in self.headers

    def role(self, member: Node) -> Role:
        kind, _ = member
        header = self.headers.get(member)
        if kind is Kind.TRACES:
            return Role.PROGRAM if header is not None and is_program(header) else Role.TRACE
        return Role.GRAPH if kind is Kind.GRAPHS else Role.EXECUTABLE

    def is_stray(self, member: Node) -> bool:
        """Return whether an entry is a program whose trace has gone, or has given way to another."""
        header = self.headers.get(member)
        if header is None or not is_program(header):
            return False
        return not any(self._is_program_of(header, trace) for trace in self._parents.get(member, ()))

    def dangling(self) -> Iterator[tuple[Node, str]]:
        """Yield the programs that lack something, and a sentence about what, and what comes of it."""
        for member, header in self.headers.items():
            executable = _executable(header)
            if self.is_stray(member):
                yield member, "Its trace has gone, or has given way to another, so that it is of no use."
            elif executable is not None and not self.is_here((Kind.EXECUTABLES, executable)):
                yield member, f"The executable {executable} is not here: it will be compiled from the program."

    def _is_program_of(self, program: EnvelopeHeader, trace: Node) -> bool:
        header = self.headers.get(trace)
        return trace in self._unread if header is None else belongs_to(program, header)

    @property
    def links(self) -> Links:
        """Links that code which removes entries must respect."""
        trace_of: dict[str, str] = {}
        executables: dict[str, set[str]] = {}
        strays = []
        for member, header in self.headers.items():
            if self.is_stray(member):
                strays.append(member[1])
            elif is_program(header):
                (trace,) = header.parents
                trace_of[member[1]] = trace
                if (executable := _executable(header)) is not None:
                    executables.setdefault(trace, set()).add(executable)
        return Links(trace_of, {trace: frozenset(keys) for trace, keys in executables.items()}, frozenset(strays))


def read_lineage(store: Store, *, of: Kind | None = None, remember: bool = True) -> Lineage:
    """Return the lineage of a root's traces; entries whose headers cannot be read are passed over.

    Args:
        store: of the root.
        of: also the graphs above, for an entry of this kind, which may be a graph; None for none of them.
        remember: as `Store.listing` has it.

    Raises:
        CannotWrite: a directory of the root cannot be read.
    """
    headers: dict[Node, EnvelopeHeader] = {}
    unread: set[Node] = set()

    def read(members: Iterable[Node]) -> None:
        for member in members:
            header = header_of(store, member)
            if header is not None:
                headers[member] = header
            else:
                unread.add(member)

    for kind in (Kind.TRACES, Kind.GRAPHS) if of is Kind.GRAPHS else (Kind.TRACES,):
        read((kind, key) for key in store.listing(kind, remember=remember).columns.keys)
    while of is not None and (above := _above(headers.values()) - headers.keys() - unread):
        read(above)
    here = store.listing(Kind.EXECUTABLES, remember=remember).columns.keys if headers else ()
    return Lineage(headers.values(), frozenset(here), unread)


def header_of(store: Store, member: Node) -> EnvelopeHeader | None:
    """Return the header of a trace or graph; None if it is gone or cannot be read."""
    kind, key = member
    with suppress(OSError, DamagedEntry):
        header = header_at(store.root.directory(kind) / f"{key}{ENTRY_SUFFIX}")
        return header if (header.kind, header.key) == (kind, key) else None
    return None


def _above(headers: Iterable[EnvelopeHeader]) -> set[Node]:
    """Return the graphs that were used for what has these headers."""
    parents = (parent for header in headers for parent in _parents(header))
    return {(kind, key) for kind, key in parents if kind is Kind.GRAPHS and storable(key) == key}


def _parents(header: EnvelopeHeader) -> list[Node]:
    """Return the parents that an entry names: the trace of a program, or the graphs that others were made from."""
    kind = Kind.TRACES if is_program(header) else Kind.GRAPHS
    return [(kind, parent) for parent in header.parents]


def _executable(header: EnvelopeHeader) -> str | None:
    """Return the key under which the executable of a program is stored."""
    key = header.key_parts.get(_EXECUTABLE) if is_program(header) else None
    return None if key is None else storable(key)
