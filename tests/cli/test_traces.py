"""Traces as a user sees them: in the reports of `run` and `stats`, in `show`, `prune`, `clear`, `pin` and `verify`."""

import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import short_key
from tests.helpers.command_line import Jcache, Result, call, keys
from tests.helpers.entries import recency_of

pytestmark = pytest.mark.jax

LINKED = Path(__file__).parents[1] / "programs" / "linked.py"
NEW = "nothing of this name was there"


class Place:
    """A root, and the program that fills it."""

    def __init__(self, path: Path) -> None:
        self.root = path / "root"
        self.file = path / "factor.txt"

    def run(self, *rows: str, under: tuple[str, ...] = ("run", "--json", "--root")) -> Result:
        """Runs the program under `jcache run`."""
        command = [sys.executable, "-m", "jcache", *under, str(self.root), "--"]
        result = call([*command, sys.executable, str(LINKED), *rows], cwd=self.file.parent)
        assert result.code == 0, result.err
        return result

    def report(self, *rows: str) -> Any:
        """Return the report of `jcache run` on the program."""
        result = self.run(*rows)
        return Result(0, result.err[result.err.index("{") :], "").json

    @property
    def traces(self) -> dict[str, str]:
        """The keys of the traces and their programs, by name."""
        return {key.rpartition("-")[0]: key for key in sorted(keys(self.root / "traces-v1"))}

    @property
    def executables(self) -> dict[str, str]:
        """The keys of the executables, by name."""
        return {key.rpartition("-")[0]: key for key in sorted(keys(self.root / "executables"))}

    def age(self, key: str, seconds: int = 3600) -> None:
        """Makes an entry older."""
        path = next(self.root.glob(f"*/{key}-cache"))
        then = path.stat().st_mtime_ns - seconds * 10**9
        os.utime(path, ns=(then, then))
        path.with_name(f"{key}-atime").write_bytes(then.to_bytes(8, "little"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Any]:
    """A place where the program has run once, and the report of that; not to be changed."""
    place = Place(tmp_path_factory.mktemp("filled"))
    place.file.write_text("0.5")
    return place, place.report()


@pytest.fixture
def place(filled: tuple[Place, Any], tmp_path: Path) -> Place:
    """A copy of it to change."""
    place = Place(tmp_path)
    shutil.copytree(filled[0].root, place.root)
    shutil.copy(filled[0].file, place.file)
    return place


def counts(report: Any) -> tuple[int, ...]:
    return tuple(report["traces"][name] for name in ("hits", "stored", "not_stored", "bypassed"))


@pytest.mark.smoke(since="0.6")
def test_a_cold_and_a_warm_run(jcache: Jcache, filled: tuple[Place, Any], place: Place) -> None:
    """Stored and served traces are counted with reasons; a served trace counts as a hit of executables as well."""
    cold, warm = filled[1], place.report()
    assert counts(cold) == (0, 2, 0, 0) and counts(warm) == (2, 0, 0, 0)
    assert cold["traces"]["reasons"] == {"stored": {f"step: {NEW}": 1, f"plain: {NEW}": 1}}
    assert warm["traces"]["reasons"] == {} and (warm["stored"], warm["bypassed"]) == (0, 0)
    assert warm["hits"] == cold["stored"]
    (step, plain) = warm["traces"]["calls"]
    saved = sum(max(0.0, each["spared_seconds"] - each["seconds"]) for each in (step, plain))
    assert (warm["traces"]["saved_seconds"], cold["traces"]["saved_seconds"]) == (pytest.approx(saved), 0)
    assert (step["name"], step["outcome"], step["key"]) == ("step", "hit", place.traces["step"])
    assert min(step["spared_seconds"], plain["spared_seconds"]) > 0
    totals = jcache("stats", "--root", place.root, "--json").json["totals"]["traces"]
    assert (totals["hits"], totals["stored"]) == (2, 2)
    assert totals["saved_seconds"] == warm["traces"]["saved_seconds"]
    shown = jcache("stats", "--root", place.root).out
    assert "traces: 2 hits, 2 misses (stored), 0 not stored, 0 left to jax.jit\n" in shown and "; saved " in shown
    assert f"1 traced anew: step: {NEW}" in shown
    assert "jcache_traces_hits_total 2\n" in jcache("stats", "--root", place.root, "--prometheus").out
    last = jcache("stats", "--root", place.root, "--run", "last").out
    assert "traces: 2 hits, 0 misses (stored)" in last and NEW not in last


def test_the_report_for_people(place: Place) -> None:
    """The summary has a line for traces; -v has one for each call."""
    text = place.run(under=("run", "-v", "--root")).err
    assert "  traces: 2 hits, 0 misses (stored), 0 not stored, 0 left to jax.jit\n" in text
    assert re.search(r"; saved \S+ s \(compiling \S+ s, tracing \S+ s", text)
    assert re.search(rf"^  trace hit  {short_key(place.traces['step'])} +\S+ s$", text, re.MULTILINE)


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_a_miss_says_what_has_changed(place: Place) -> None:
    """The counted reasons name changed shapes and changed files."""
    other = place.report("4")
    assert other["traces"]["reasons"] == {"stored": {"step: array x float32[8,3] → float32[4,3]": 1}}
    place.file.write_text("0.25")
    ((reason, count),) = place.report()["traces"]["reasons"]["stored"].items()
    assert count == 1 and reason.startswith("step: ") and "file factor.txt" in reason


UNCACHED = """
import sys
import jax, numpy as np
import jcache
jcache.enable(sys.argv[1])
numbers = iter([1])
@jcache.jit
def noisy(x):
    rest = iter([1])
    jax.debug.callback(lambda x: next(rest), x)
    return x + 1
@jcache.jit
def keyless(x):
    return x + (1 if numbers else 2)
@jcache.jit
def inner(x):
    return x * 2
x = np.float32(1)
noisy(x), keyless(x), jax.grad(inner)(x), jax.grad(inner)(x), inner(x)
with jax.disable_jit():
    inner(x)
"""
ASKED = "import json; print(json.dumps(jcache.stats().traces.to_json()))"


def test_what_is_not_served_is_told_in_the_program(jcache: Jcache, tmp_path: Path) -> None:
    """Without `jcache run`, `jcache.stats()` and the ledger list calls that were left to jax.jit, and those
    that were not stored.
    """
    root = tmp_path / "root"
    done = call([sys.executable, "-c", UNCACHED + ASKED, str(root)])
    assert done.code == 0, done.err
    told = Result(0, done.out.splitlines()[-1], "").json
    assert counts({"traces": told}) == (0, 1, 1, 2)
    ((reason, count),) = told["reasons"]["not_stored"].items()
    assert count == 1 and reason.startswith("noisy: it calls back to the host, and it holds a list_iterator")
    keyless, inside = told["reasons"]["bypassed"]
    assert keyless.startswith("keyless: ") and "iterator" in keyless
    assert inside.startswith("inner: it is called inside")
    assert jcache("stats", "--root", root, "--json").json["totals"]["traces"]["reasons"] == told["reasons"]


COMPARED = """
import sys, warnings
import numpy as np
import jcache
warnings.simplefilter("ignore")
sys.setrecursionlimit(int(sys.argv[1]))
@jcache.jit(check="always")
def step(x):
    for _ in range(300):
        x + 1  # so that looking it up pays
    return x * (5.0 if sys.getrecursionlimit() > 4000 else 2.0)  # which nothing tells jcache of
step(np.float32(1))
"""


def test_comparisons_are_counted(jcache: Jcache, tmp_path: Path) -> None:
    """Calls that were traced to compare are counted, and so are those that differed."""

    def run(limit: int) -> Any:
        program = [sys.executable, "-c", COMPARED, str(limit)]
        text = jcache("run", "--json", "--root", tmp_path / "root", "--", *program).err
        traces = Result(0, text[text.index("{") :], "").json["traces"]
        return traces["hits"], traces["compared"], traces["differing"]

    assert [run(4000), run(4000)] == [(0, 0, 0), (0, 1, 0)]
    assert run(4001) == (0, 1, 1)
    assert "1 traced again to compare, 1 differing" in jcache("stats", "--root", tmp_path / "root", "--run", "last").out
    assert [run(4001), run(4000)] == [(0, 1, 0), (0, 1, 0)]  # each world has its own


def related(nodes: list[Any], name: str) -> list[Any]:
    """The roles and keys of nested relations, from the nearest one on."""
    return [node for one in nodes for node in ((one["role"], one["key"]), *related(one[name], name))]


def test_links_are_shown_from_each_of_them(jcache: Jcache, place: Place) -> None:
    """A graph, a trace, a program and an executable each show all four, as a tree and as lists."""
    (graph,) = keys(place.root / "graphs-v1")
    chain = [
        ("graph", graph),
        ("trace", place.traces["step"]),
        ("program", place.traces["step.stablehlo"]),
        ("executable", place.executables["jit_step"]),
    ]
    for number, (role, key) in enumerate(chain):
        links = jcache("show", key, "--root", place.root, "--json").json["links"]
        assert related(links["parents"], "parents") == chain[:number][::-1]
        assert related(links["children"], "children") == chain[number + 1 :]
        text = jcache("show", key, "--root", place.root).out
        lines = text[text.index("\nlinks ") + 1 :].splitlines()
        assert [line[12:].lstrip(" └─").split()[0] for line in lines] == [each for each, _ in chain]
        (marked,) = [line for line in lines if line.endswith("←")]
        assert f"{role} {key[:-56]}" in marked
    alone = jcache("show", place.traces["plain"], "--root", place.root).out
    assert "graph " not in alone and "└─ program " in alone


def test_what_is_missing_is_shown_and_verified(jcache: Jcache, place: Place) -> None:
    """A trace without its executable is shown with the consequence, and is no damage, after an import as well."""
    executable = place.executables["jit_step"]
    for path in (place.root / "executables").glob(f"{executable}-*"):
        path.unlink()
    shown = jcache("show", place.traces["step"], "--root", place.root)
    missing = f"executable {executable[:17]} is missing: it will be compiled from the stored program"
    assert missing in shown.out
    links = jcache("show", place.traces["step"], "--root", place.root, "--json").json["links"]
    assert links["children"][0]["children"][0]["here"] is False
    found = jcache("verify", "--root", place.root, "--json", "--grace", "0s")
    assert (found.code, found.json["findings"]) == (0, [])
    (note,) = [note for note in found.json["notes"] if note["damage"] == "dangling"]
    assert note["key"] == place.traces["step.stablehlo"] and executable in note["evidence"]
    assert "1 dangling" in jcache("verify", "--root", place.root, "--grace", "0s").out
    again = place.report()
    assert counts(again) == (2, 0, 0, 0) and again["stored"] == 1


def test_a_hit_is_a_use_of_all_that_serves(place: Place) -> None:
    """A hit uses the trace, its program and its executable, so that none of them looks older than the others."""
    serving = [*(place.traces[name] for name in ("step", "step.stablehlo")), place.executables["jit_step"]]
    for key in serving:
        place.age(key)
    began = time.time_ns()
    done = call([sys.executable, str(LINKED)], env={"JCACHE_DIR": str(place.root)}, cwd=place.file.parent)
    assert done.code == 0 and "traced" not in done.out, done.err
    trace, program, executable = (recency_of(next(place.root.glob(f"*/{key}-cache")).parent, key) for key in serving)
    assert began < trace < program and executable > began


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_prune_keeps_traces_whole(jcache: Jcache, place: Place) -> None:
    """A prune to a number of entries keeps traces complete, and does what the dry run announces."""
    for name in ("plain", "plain.stablehlo"):
        place.age(place.traces[name])
    place.age(place.executables["jit_plain"], 7200)
    place.age(place.executables["jit_step"], 7200)  # but the trace that needs it was used lately
    arguments = ("prune", "--root", place.root, "--max-entries", "4")
    announced = jcache(*arguments, "--dry-run")
    assert f"goes with {place.traces['plain'][:14]}" in announced.out
    planned = jcache(*arguments, "--dry-run", "--json").json
    assert {e["key"]: e["trace"] for e in planned["removed"] if e["reason"] == "with_trace"} == {
        place.traces["plain.stablehlo"]: place.traces["plain"]
    }
    done = jcache(*arguments, "--json").json
    assert done["removed"] == planned["removed"]
    assert set(place.traces) == {"step", "step.stablehlo"} and "jit_step" in place.executables
    assert "jit_plain" not in place.executables
    assert not jcache(*arguments, "--dry-run", "--json").json["removed"]
    after = place.run()
    assert "plain is traced" in after.out and "step is traced" not in after.out


def test_a_pinned_trace_keeps_what_it_needs(jcache: Jcache, place: Place) -> None:
    """prune and clear keep the program and the executable of a pinned trace, so the next process starts warm."""
    step = place.traces["step"]
    jcache("pin", step, "--root", place.root)
    announced = jcache("prune", "--root", place.root, "--keep-last", "0", "--dry-run").out
    assert f"is needed by {step[:13]}, which stays" in announced and "2 needed by a trace that stays" in announced
    assert jcache("clear", "executables", "--yes", "--root", place.root).code == 0
    assert set(place.executables) == {"jit_step"}
    assert jcache("clear", "--yes", "--root", place.root).code == 0
    assert set(place.traces) == {"step", "step.stablehlo"} and not keys(place.root / "graphs-v1")
    after = place.run()
    assert "plain is traced" in after.out and "step is traced" not in after.out


def test_programs_of_traces_that_have_gone(jcache: Jcache, place: Place) -> None:
    """Programs of a removed trace are shown, noted, and removed by the next prune; the new trace stays."""
    stray, first = place.traces["step.stablehlo"], place.run().out
    place.file.write_text("0.75")
    anew = place.run().out
    assert "step is traced" in anew and anew.splitlines()[-2:] != first.splitlines()
    assert place.run().out.splitlines() == anew.splitlines()[-2:]
    assert "whose trace is missing" in jcache("show", stray, "--root", place.root).out
    found = jcache("verify", "--root", place.root, "--grace", "0s", "--json").json
    assert [note["key"] for note in found["notes"] if note["damage"] == "dangling"] == [stray]
    prune = ("prune", "--root", place.root, "--max-entries", "100", "--json")
    place.age(stray)
    assert [(e["key"], e["reason"]) for e in jcache(*prune).json["removed"]] == [(stray, "stray")]
    assert place.run().out.splitlines() == anew.splitlines()[-2:]
