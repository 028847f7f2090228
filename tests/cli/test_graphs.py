"""The commands on graphs, as first-class entries; real processes build them."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import Kind, Root
from jcache.store.roots import create_root
from tests.helpers.command_line import Jcache, Result
from tests.helpers.entries import add, executable, key
from tests.helpers.graph_programs import graph_file, graphs_of, program, run, said, write_model

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
    """`ls` lists a graph's name, kind and build seconds, which come from the graph itself without a ledger."""
    if not ledger:
        filled.ledger.unlink()
    entries = jcache("ls", "--json", "--root", filled.path, "--kind", "graphs").json["entries"]
    assert {entry["name"] for entry in entries} == {"grow"} and {entry["kind"] for entry in entries} == {"graphs"}
    assert all(0.05 <= entry["build_seconds"] < 5 for entry in entries)
    assert "grow" in jcache("ls", "--root", filled.path, "--filter", "kind=graphs", "--sort", "seconds").out


def test_show(jcache: Jcache, filled: Root) -> None:
    """`show` prints function, parameters, seconds, codec and producers of a graph; with -v every part of its key."""
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
    """`show` checks every bit of a graph."""
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


@pytest.mark.full
def test_stats_say_what_does_not_pay(jcache: Jcache, filled: Root, at: Path) -> None:
    """`stats` reports graphs that take longer to load than to build."""
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


@pytest.mark.full
def test_verify_and_quarantine(jcache: Jcache, filled: Root, at: Path) -> None:
    """Damage of a graph is found and repaired, `quarantine` lists it, and the program builds the graph again."""
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
    """A root with graphs and executables is shipped, and the graphs are hit at the other end, at its first start."""
    archive = tmp_path / "archive"
    graphs_only = jcache("export", "-o", archive, "--root", filled.path, "--kind", "graphs")
    assert graphs_only.code == 0, graphs_only.err
    before = graphs_of(filled)
    filled.path.rename(tmp_path / "gone")
    there = create_root(filled.path)  # another host has its root in the same place
    imported = jcache("import", archive, "--root", there.path)
    assert imported.code == 0, imported.err
    assert graphs_of(there) == before
    assert run(FILL, there.path, at=at) == [3, 0]


RECORDED = """
import sys
with open("numbers.txt") as numbers:  # before jcache, and so no part of the world, as arguments are
    asked = list(map(int, numbers.read().split()))
import model
from jcache import GraphCache

cache = GraphCache()
log = model.Log("/dev/null", 0.05)
for n in asked:
    cache.get_or_build(model.grow, n, theta=0.5, log=log)
cache.load(model.grow, 99)
cache.get_or_build(lambda values: len(list(values)), (n for n in asked))
"""


@pytest.mark.full
@pytest.mark.parametrize("jax", ["", "import jax\n"], ids=["without jax", "with jax"])
def test_a_recorded_run(jcache: Jcache, tmp_path: Path, at: Path, jax: str) -> None:
    """Every report of `run` and `stats` counts graphs, with reasons for misses, and has one total of time saved."""
    root, script, written = tmp_path / "root", tmp_path / "program.py", tmp_path / "report.json"
    script.write_text(jax + RECORDED)
    command = ["run", "-v", "--root", root, "--report", written, "--", sys.executable, script]

    def ran(numbers: str, *arguments: object) -> Result:
        (tmp_path / "numbers.txt").write_text(numbers)
        env = {"PYTHONPATH": str(at), "PYTHONWARNINGS": "ignore"}
        return jcache(*arguments, env=env, cwd=tmp_path)

    cold = ran("3 4", *command)
    assert re.search(r"graphs: 0 hits, 2 misses .stored., 1 not stored, 1 without the cache; built in \d", cold.err)
    assert "    1 built: grow: nothing of this name was there\n    1 built: grow: n 3 → 4\n" in cold.err
    assert "1 not stored: grow: it is not built here: " in cold.err and "1 without the cache: <lambda>: " in cold.err
    warm = ran("3 4 3", *command)
    assert "graphs: 3 hits, 0 misses (stored), 1 not stored" in warm.err and ", 2 times\n" in warm.err
    warm_report = json.loads(written.read_text())
    saved = warm_report["total_saved_seconds"]
    assert saved == warm_report["graphs"]["saved_seconds"] and f"saved {saved:.2f} s" in warm.err
    assert json.loads(ran("3", "run", "--json", *command[2:]).err)["graphs"]["hits"] == 1

    last = jcache("stats", "--root", root, "--run", warm_report["id"])
    assert "3 of 4" in last.out and f"saved {saved:.2f} s (compiling 0.00 s, building graphs {saved:.2f} s)" in last.out
    told = jcache("stats", "--root", root, "--json").json
    assert (told["totals"]["graphs"]["hits"], told["totals"]["graphs"]["stored"]) == (4, 2)
    assert told["totals"]["total_saved_seconds"] == pytest.approx(told["graphs"]["totals"]["saved_seconds"])
    shown = jcache("stats", "--root", root, "--plot")
    assert len(re.findall(r": saved \S+ s", shown.out)) == 1 and "75% hits" in shown.out
    metrics = jcache("stats", "--root", root, "--prometheus").out
    (saved_in_all,) = re.findall(r"^jcache_time_saved_seconds (\S+)$", metrics, re.MULTILINE)
    assert float(saved_in_all) == pytest.approx(told["totals"]["total_saved_seconds"])
    assert "\njcache_graphs_hits_total 4\n" in metrics


@pytest.mark.jax
def test_a_program_that_counts_itself(jcache: Jcache, tmp_path: Path, at: Path) -> None:
    """With `jcache.enable`, graphs are in `jcache.stats()` and in the recorded run, even if nothing is compiled."""
    root = tmp_path / "root"
    code = """
import json, sys
import jcache, model
jcache.enable(sys.argv[1])
values = [jcache.GraphCache().get_or_build(model.grow, 3) for _ in range(2)]
found = jcache.stats().graphs
print(json.dumps([found.hits, found.stored, found.reasons["stored"]["grow: nothing of this name was there"]]))
"""
    assert run(code, root, at=at) == [1, 1, 1]
    told = jcache("stats", "--root", root, "--run", "last", "--json").json
    assert (told["totals"]["graphs"]["hits"], told["totals"]["graphs"]["stored"]) == (1, 1)


@pytest.mark.full
def test_a_graph_that_was_waited_for_saves_nothing(native: Root, at: Path) -> None:
    """If two processes want the same graph at once, one builds it; the other waits, and counts no saved time."""
    code = FILL.replace("cache.stats().hits, cache.stats().builds", "cache.stats().saved_seconds < 0.06")
    both = [program(code.replace("0.05)", "4.0)").replace("(3, 4, 3)", "(3,)"), native.path, at=at) for _ in range(2)]
    assert [said(each) for each in both] == [[True], [True]]


NESTED = """
import sys
with open("numbers.txt") as numbers:  # before jcache, and so no part of the world, as arguments are
    asked = list(map(int, numbers.read().split()))
{jax}
from jcache import GraphCache

cache = GraphCache()
def inner(n):
    return [n] * n
def outer(n):
    return [cache.get_or_build(inner, each) for each in range(n)]
for n in asked:
    cache.get_or_build(outer, n)
"""


@pytest.mark.full
@pytest.mark.parametrize("jax", ["", "import jcache; jcache.enable()"], ids=["without jax", "with jax"])
def test_recording_is_no_part_of_a_graph(jcache: Jcache, tmp_path: Path, jax: str) -> None:
    """Files that are read to record a call, or to explain a miss, do not make a graph stale that is being built."""
    root, script = tmp_path / "root", tmp_path / "script.py"
    script.write_text(NESTED.format(jax=jax))

    def ran(numbers: str) -> dict[str, Any]:
        (tmp_path / "numbers.txt").write_text(numbers)
        done = jcache("run", "--json", "--root", root, "--", sys.executable, script, cwd=tmp_path)
        graphs: dict[str, Any] = json.loads(done.err)["graphs"]
        return graphs

    first = ran("2 3")
    assert (first["hits"], first["stored"], first["not_stored"]) == (2, 5, 0)
    again = ran("2 3 4")
    assert (again["hits"], again["stored"], again["reasons"]) == (
        5,
        2,
        {"stored": {"outer: n 3 → 4": 1, "inner: n 2 → 3": 1}},
    )
    assert jcache("quarantine", "-q", "--root", root).out == ""
    alone = ran("4")
    assert (alone["hits"], alone["stored"]) == (1, 0)
