"""How entries descend from each other, read from their headers."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jcache.formats.envelope import Codec, EnvelopeHeader, read_header, seal
from jcache.layout import Kind, Root, storable
from jcache.store.lineage import Lineage, Role, belongs_to, read_lineage
from jcache.store.roots import create_root
from jcache.store.store import Store
from tests.helpers.entries import add, key

GRAPH, TRACE, PROGRAM, EXECUTABLE = (
    (kind, key(number, name))
    for number, (kind, name) in enumerate(
        [(Kind.GRAPHS, "mesh"), (Kind.TRACES, "step"), (Kind.TRACES, "step.stablehlo"), (Kind.EXECUTABLES, "jit_step")]
    )
)


def sealed(kind: Kind, a_key: str, created_ns: int = 5, parents: tuple[str, ...] = (), **parts: str) -> bytes:
    return seal(
        b"payload",
        kind=kind,
        name=a_key.rpartition("-")[0],
        key=a_key,
        key_parts=parts,
        build_seconds=1.0,
        created_ns=created_ns,
        parents=parents,
        codec=Codec.NONE,
    )


def header(*args: Any, **kwargs: Any) -> EnvelopeHeader:
    return read_header(sealed(*args, **kwargs))


def program(version: str = "5", number: int = 2, **parts: str) -> EnvelopeHeader:
    parts = {"trace": version, "executable": EXECUTABLE[1], **parts}
    return header(Kind.TRACES, key(number, "step.stablehlo"), parents=(TRACE[1],), **parts)


GRAPH_HEADER = header(*GRAPH)
TRACE_HEADER = header(*TRACE, parents=(GRAPH[1],))


def test_each_knows_its_parents_and_children() -> None:
    """A graph its traces, a trace its programs, a program the executable that was compiled from it; and back."""
    lineage = Lineage([GRAPH_HEADER, TRACE_HEADER, program()], {EXECUTABLE[1]})
    chain = [GRAPH, TRACE, PROGRAM, EXECUTABLE]
    for parent, child in pairwise(chain):
        assert lineage.children(parent) == [child] and lineage.parents(child) == [parent]
    assert lineage.parents(GRAPH) == lineage.children(EXECUTABLE) == []
    assert [lineage.role(member) for member in chain] == list(Role)
    assert all(map(lineage.is_here, chain)) and not list(lineage.dangling())


def test_what_eviction_must_know() -> None:
    """Programs with their traces, traces with the executables of all their programs, as these are stored."""
    long = "jit_" + "x" * 300 + "-" + "0" * 64
    found = Lineage([TRACE_HEADER, program(), program(number=3, executable=long)], set()).links
    assert found.trace_of == {PROGRAM[1]: TRACE[1], key(3, "step.stablehlo"): TRACE[1]}
    assert found.executables == {TRACE[1]: {EXECUTABLE[1], storable(long)}}
    assert not found.strays


@pytest.mark.parametrize("headers", [[program()], [TRACE_HEADER, program("4")]])
def test_programs_of_no_trace(headers: list[EnvelopeHeader]) -> None:
    """A program whose trace has gone, or was replaced by one that was made later, is a stray, and in no links."""
    lineage = Lineage(headers, {EXECUTABLE[1]})
    assert lineage.is_stray(PROGRAM) and not lineage.is_stray(TRACE)
    assert lineage.links.strays == {PROGRAM[1]} and not lineage.links.trace_of
    assert [member for member, _ in lineage.dangling()] == [PROGRAM]
    assert not belongs_to(program("4"), TRACE_HEADER)


def test_an_executable_that_has_gone_is_told() -> None:
    """A missing executable is shown with the consequence, and its program is no stray."""
    ((member, evidence),) = Lineage([TRACE_HEADER, program()], set()).dangling()
    assert member == PROGRAM and EXECUTABLE[1] in evidence and "compiled from the program" in evidence


def test_reading(tmp_path: Path) -> None:
    """Headers are read from the entries; one that cannot be read, or lies, is passed over, and condemns no program."""
    root = create_root(tmp_path / "root")
    traces = root.directory(Kind.TRACES)
    path = add(traces, TRACE[1], sealed(*TRACE, parents=(GRAPH[1],)))
    add(traces, PROGRAM[1], sealed(*PROGRAM, 5, (TRACE[1],), trace="5", executable=EXECUTABLE[1]))
    add(root.directory(Kind.EXECUTABLES), EXECUTABLE[1])
    assert set(read(root).headers) == {TRACE, PROGRAM} and read(root).is_here(EXECUTABLE)
    path.write_bytes(path.read_bytes()[:40])
    assert set(read(root).headers) == {PROGRAM} and not read(root).is_stray(PROGRAM)
    path.write_bytes(sealed(Kind.TRACES, key(9, "step")))
    assert set(read(root).headers) == {PROGRAM} and not read(root).is_stray(PROGRAM)
    path.unlink()
    assert read(root).is_stray(PROGRAM)


def test_graphs_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    """Graphs are read only if needed: for other entries the parents, whatever they are called; for a graph
    all of them.
    """
    root = create_root(tmp_path / "root")
    above = (GRAPH[1], key(7, "gone"), "../" * 20 + key(8, "etc"))
    add(root.directory(Kind.TRACES), TRACE[1], sealed(*TRACE, 5, above))
    add(root.directory(Kind.GRAPHS), GRAPH[1], sealed(*GRAPH, 5, (key(5, "mesh"),)))
    for number in (5, 6):
        add(root.directory(Kind.GRAPHS), key(number, "mesh"), sealed(Kind.GRAPHS, key(number, "mesh")))
    first, other = (Kind.GRAPHS, key(5, "mesh")), (Kind.GRAPHS, key(6, "mesh"))
    assert set(read(root).headers) == {TRACE}
    assert set(read(root, of=Kind.EXECUTABLES).headers) == {TRACE, GRAPH, first}
    assert set(read(root, of=Kind.GRAPHS).headers) == {TRACE, GRAPH, first, other}


def read(root: Root, of: Kind | None = None) -> Lineage:
    with Store(root) as store:
        return read_lineage(store, of=of)
