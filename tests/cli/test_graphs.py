"""The commands on graphs, as first-class entries; real processes build them."""

import re
from pathlib import Path

import pytest

from jcache.layout import Kind, Root
from jcache.roots import create_root
from tests.helpers.command_line import Jcache
from tests.helpers.entries import add, executable, key
from tests.helpers.graph_programs import graph_file, graphs_of, run, write_model

FILL = """
import json, sys
import model
from jcache import GraphCache

cache = GraphCache(sys.argv[1])
log = model.Log("/dev/null", 0.05)
values = [cache.get_or_build(model.grow, n, theta=0.5, log=log) for n in (3, 4, 3)]
print(json.dumps([cache.stats().hits, cache.stats().builds]))
"""


@pytest.fixture
def at(tmp_path: Path) -> Path:
    return write_model(tmp_path / "code")


@pytest.fixture
def filled(native: Root, at: Path) -> Root:
    """A root with two graphs and an executable."""
    assert run(FILL, native.path, at=at) == [1, 2]
    add(native.directory(Kind.EXECUTABLES), key(1), executable())
    return native


def test_info_and_du(jcache: Jcache, filled: Root) -> None:
    """Graphs are counted as a kind of their own."""
    kinds = jcache("info", "--json", "--root", filled.path).json["kinds"]
    assert kinds["graphs"]["entries"] == 2 and kinds["executables"]["entries"] == 1
    assert "grow" in jcache("du", "--by", "function", "--root", filled.path).out
    assert "graphs" in jcache("du", "--by", "kind", "--root", filled.path).out


@pytest.mark.parametrize("ledger", [True, False], ids=["with the ledger", "without"])
def test_ls(jcache: Jcache, filled: Root, ledger: bool) -> None:
    """It lists name, kind and the seconds that building took, which the graph itself knows as well."""
    if not ledger:
        filled.ledger.unlink()
    entries = jcache("ls", "--json", "--root", filled.path, "--kind", "graphs").json["entries"]
    assert {entry["name"] for entry in entries} == {"grow"} and {entry["kind"] for entry in entries} == {"graphs"}
    assert all(0.05 <= entry["build_seconds"] < 5 for entry in entries)
    assert "grow" in jcache("ls", "--root", filled.path, "--filter", "kind=graphs", "--sort", "seconds").out


def test_show(jcache: Jcache, filled: Root) -> None:
    """It shows function, parameters, seconds, codec and what made it; all parts of the key, a line each, with -v."""
    n3 = next(k for k in graphs_of(filled) if "=3," in jcache("show", k, "--root", filled.path).out)
    shown = jcache("show", n3, "--root", filled.path).out
    assert re.search(r"^function +grow$", shown, re.MULTILINE) and re.search(
        r"^parameters .*theta=0.5", shown, re.MULTILINE
    )
    assert re.search(r"^made by .*codec pytree.*jcache .*python ", shown, re.MULTILINE)
    assert re.search(r"^built in +0\.\d\d s$", shown, re.MULTILINE) and re.search(r"^hits +1$", shown, re.MULTILINE)
    verbose = jcache("show", n3, "-v", "--root", filled.path).out
    assert re.search(r"^built from  ", verbose, re.MULTILINE) and re.search(r"helper .*rate", verbose)
    as_json = jcache("show", n3, "--json", "--root", filled.path).json
    assert as_json["content"]["key_parts"]["argument theta"] == "0.5" and as_json["damage"] is None
    assert as_json["build_seconds"] == as_json["content"]["build_seconds"]


def test_show_of_a_damaged_graph(jcache: Jcache, filled: Root) -> None:
    """Every bit is looked at."""
    path = graph_file(filled, graphs_of(filled)[0])
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    result = jcache("show", graphs_of(filled)[0], "--root", filled.path)
    assert result.code == 1 and "sealed" in result.err


def test_stats(jcache: Jcache, filled: Root) -> None:
    """Builds and loads are shown by function and in all, as text, JSON and metrics, and can be forgotten."""
    shown = jcache("stats", "--root", filled.path).out
    assert re.search(r"^grow +2 .*1 ", shown, re.MULTILINE)
    assert re.search(r"^2 graphs built in \S+ s, 1 loaded in ", shown, re.MULTILINE)
    graphs = jcache("stats", "--json", "--root", filled.path).json["graphs"]
    assert graphs["totals"]["builds"] == 2 and graphs["functions"][0]["name"] == "grow"
    spared, spent = graphs["totals"]["spared_seconds"], graphs["totals"]["load_seconds"]
    assert spared >= 0.05 and graphs["totals"]["saved_seconds"] == pytest.approx(spared - spent)
    assert graphs["functions"][0]["slower"] is (spared < spent)
    assert "\njcache_graph_builds_total 2\n" in jcache("stats", "--prometheus", "--root", filled.path).out
    assert jcache("stats", "--zero", "--root", filled.path).code == 0
    assert "graphs" not in jcache("stats", "--root", filled.path).out


def test_stats_say_what_does_not_pay(jcache: Jcache, filled: Root, at: Path) -> None:
    """Where loading takes longer than building, that is said."""
    fast = FILL.replace("0.05)", "0.0)").replace("theta=0.5", "theta=0.25")
    for _ in range(2):
        run(fast.replace("model.grow", "model.rate").replace(", theta=0.25, log=log", ""), filled.path, at=at)
    assert re.search(
        r"loading `rate` takes longer than building it: \S+ ms against \S+ ms",
        jcache("stats", "--root", filled.path).out,
    )


def test_pin_prune_and_clear(jcache: Jcache, filled: Root) -> None:
    """Graphs are pinned, pruned by every policy and cleared as executables are."""
    pinned, _ = graphs_of(filled)
    assert jcache("pin", pinned, "--root", filled.path).code == 0
    assert jcache("prune", "--order", "cost", "--max-entries", "2", "--root", filled.path).code == 0
    assert jcache("clear", "graphs", "--yes", "--root", filled.path).code == 0
    assert graphs_of(filled) == [pinned]
    assert jcache("unpin", pinned, "--root", filled.path).code == 0
    assert jcache("prune", "--older-than", "0s", "--root", filled.path).code == 0
    assert graphs_of(filled) == []


def test_verify_and_quarantine(jcache: Jcache, filled: Root, at: Path) -> None:
    """Damage is found and repaired, what was set aside is listed, and the program builds the graph anew."""
    assert jcache("verify", "--root", filled.path).code in (0, 1)
    name = graphs_of(filled)[0]
    path = graph_file(filled, name)
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    found = jcache("verify", "--kind", "graphs", "--json", "--root", filled.path)
    assert found.code == 1 and found.json["findings"][0]["damage"] == "seal"
    assert jcache("verify", "--kind", "graphs", "--repair", "--grace", "0s", "--root", filled.path).code == 0
    assert name not in graphs_of(filled)
    assert name[:13] in jcache("quarantine", "list", "--root", filled.path).out
    assert run(FILL, filled.path, at=at) == [2, 1]


def test_export_and_import(jcache: Jcache, filled: Root, at: Path, tmp_path: Path) -> None:
    """A root with graphs and executables is shipped, and the graphs are hit at the other end."""
    there = create_root(tmp_path / "there")
    archive = tmp_path / "archive"
    graphs_only = jcache("export", "-o", archive, "--root", filled.path, "--kind", "graphs")
    assert graphs_only.code == 0, graphs_only.err
    imported = jcache("import", archive, "--root", there.path)
    assert imported.code == 0, imported.err
    assert graphs_of(there) == graphs_of(filled)
    assert run(FILL, there.path, at=at) == [3, 0]
    merged = create_root(tmp_path / "merged")
    assert jcache("merge", filled.path, "--root", merged.path).code in (0, 3)
    assert run(FILL, merged.path, at=at) == [3, 0]
