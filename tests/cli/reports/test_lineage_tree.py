"""The tree of the entries that an entry was made from, and of those made from it."""

from pathlib import Path
from typing import Any

from jcache.cli.reports.lineage_tree import as_json, lines
from jcache.formats.envelope import Codec, seal
from jcache.layout import Kind
from jcache.store.lineage import Lineage
from jcache.store.roots import create_root
from tests.helpers.command_line import Jcache
from tests.helpers.entries import key
from tests.store.test_lineage import EXECUTABLE, GRAPH, GRAPH_HEADER, PROGRAM, TRACE, TRACE_HEADER, header, program

CHAIN = [GRAPH, TRACE, PROGRAM, EXECUTABLE]
WHOLE = Lineage([GRAPH_HEADER, TRACE_HEADER, program()], {EXECUTABLE[1]})


def test_each_entry_shows_the_whole_chain_and_marks_itself() -> None:
    """The tree begins at the graph whichever of the four is shown, and an arrow marks the one that was asked for."""
    for entry in CHAIN:
        found = lines(WHOLE, entry, verbose=True)
        assert [line.lstrip(" └─").split()[0] for line in found] == ["graph", "trace", "program", "executable"]
        assert [line.endswith("←") for line in found] == [each == entry for each in CHAIN]
        assert all(node[1] in line for node, line in zip(CHAIN, found, strict=True))
    assert "traced in 1.00 s" in lines(WHOLE, TRACE, verbose=False)[1]


def test_an_entry_without_relations_has_no_tree() -> None:
    """Nothing is drawn for an entry that names no other and that none names."""
    assert lines(Lineage([GRAPH_HEADER], set()), GRAPH, verbose=False) == []


def test_a_missing_executable_is_drawn_with_the_consequence() -> None:
    """The line says that the executable is gone, and what a program does then; JSON says that it is not here."""
    lineage = Lineage([TRACE_HEADER, program()], set())
    assert lines(lineage, TRACE, verbose=False)[-1].endswith("it will be compiled from the stored program")
    (child,) = as_json(lineage, TRACE)["children"]
    assert (child["role"], child["here"]) == ("program", True)
    assert [each["here"] for each in child["children"]] == [False]


def test_many_children_are_counted() -> None:
    """Of more than twenty children, twenty are drawn, and -v draws all."""
    programs = [header(Kind.TRACES, key(10 + n, "step.stablehlo"), parents=(TRACE[1],), trace="5") for n in range(23)]
    lineage = Lineage([TRACE_HEADER, *programs], set())
    shown = lines(lineage, TRACE, verbose=False)
    assert "and 3 more (-v lists them)" in shown[-1]
    assert len(lines(lineage, TRACE, verbose=True)) == len(shown) + 2


def test_links_that_go_round_are_drawn_once(jcache: Jcache, tmp_path: Path) -> None:
    """Entries that name each other as parents, which no program writes, are shown once."""
    root = create_root(tmp_path / "root")
    directory = root.directory(Kind.GRAPHS)
    directory.mkdir()
    for mine, other in ((key(1, "mesh"), key(2, "mesh")), (key(2, "mesh"), key(1, "mesh"))):
        about: dict[str, Any] = {"kind": "graphs", "name": "mesh", "key": mine, "parents": (other,)}
        data = seal(b"", **about, build_seconds=0.0, created_ns=1, codec=Codec.NONE)
        (directory / f"{mine}-cache").write_bytes(data)
    shown = jcache("show", key(1, "mesh"), "--root", root.path)
    assert shown.code == 0 and shown.out.count("graph mesh-") == 3 and "(see above)" in shown.out
    assert jcache("show", key(1, "mesh"), "--root", root.path, "--json").code == 0
