"""`jcache explain`: its JSON, and what it refuses."""

import json
import sys
from pathlib import Path

import pytest

from jcache.cli.app import run as run_command
from jcache.formats.envelope import Codec, seal
from jcache.layout import Kind, Root
from jcache.runs.calls import BYPASSED, HIT
from jcache.runs.record import Argument, ProgramRecord, RunRecord
from jcache.runs.stored_reports import COUNTS, SECONDS
from jcache.store.roots import create_root
from jcache.store.run_records import add_record
from jcache.store.store import Store
from tests.helpers.command_line import Jcache
from tests.helpers.entries import NOW, key
from tests.helpers.records import process, program, run

FLAG = "--xla_cpu_enable_fast_math=true"
LONG = "a_function_with_a_name_that_is_longer_than_most"
NO_JAX = {"JCACHE_PYTHON": "/nonexistent/python"}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return create_root(tmp_path / "root")


def keep(root: Root, *runs: RunRecord) -> None:
    for one in runs:
        add_record(root, one.id, one.to_json(), {})


@pytest.fixture
def flagged(root: Root) -> Root:
    """A root with three runs, of which the last has a new flag, a new shape and a bypassed function."""
    usual = [program("init"), program(LONG), program("step")]
    smaller = program("eval", "other", arguments=(Argument("batch", "f32[61,128]"),), compile_seconds=0.5)
    log = ProgramRecord(None, "log", BYPASSED, "no key could be made: it calls back to the host", compile_seconds=0.1)
    now = [program(name, flags=FLAG) for name in ("init", LONG, "step")]
    other = process(program("eval"), program("norm", outcome=HIT))
    keep(
        root,
        run(1, process(*usual), other),
        run(2, process(*(one._replace(outcome=HIT) for one in usual)), other),
        run(3, process(*now, log, flags=FLAG), process(smaller, program("norm", outcome=HIT))),
    )
    return root


def test_json_has_the_fields_of_the_issue(jcache: Jcache, flagged: Root) -> None:
    """JSON has counts and causes, with the words that people read."""
    found = jcache("explain", "--root", flagged.path, "--json").json
    assert found["schema_version"] == 1
    assert (found["hits"], found["misses"], found["bypassed"]) == (1, 4, 1)
    wanted = {"item", "function", "current", "baseline", "reason", "resolution", "misses", "seconds"}
    assert all(wanted <= cause.keys() for cause in found["causes"])
    assert found["run"] == run(3).id and found["baseline"] == run(2).id


def test_without_jax_all_but_the_modules_is_told(jcache: Jcache, root: Root) -> None:
    """Where no JAX can be started, a change of the program is told without its lines, and a warning says why."""
    one, other = program("step", "a"), program("step", "b")
    first, second = run(1, process(one)), run(2, process(other))
    add_record(root, first.id, first.to_json(), {one.parts["computation"]: b"x"})
    add_record(root, second.id, second.to_json(), {other.parts["computation"]: b"y"})
    found = jcache("explain", "--root", root.path, env=NO_JAX)
    assert found.code == 0
    assert "step  step.py:7  program: " in found.out and "modules are not kept, or cannot be read" in found.out
    assert "JCACHE_PYTHON" in found.err


@pytest.mark.jax
def test_a_module_that_jax_cannot_read_is_told_in_a_sentence(jcache: Jcache, root: Root) -> None:
    """Bytes that this jaxlib cannot read, as of another jaxlib, give a warning."""
    one, other = program("step", "a"), program("step", "b")
    first, second = run(1, process(one)), run(2, process(other))
    add_record(root, first.id, first.to_json(), {one.parts["computation"]: b"x"})
    add_record(root, second.id, second.to_json(), {other.parts["computation"]: b"y"})
    found = jcache("explain", "--root", root.path, env={"JCACHE_PYTHON": sys.executable})
    assert found.code == 0
    assert "cannot be read by jaxlib" in found.err and "Traceback" not in found.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nothing"], 1, "no recorded run or function"),
        (["stepp"], 1, "did you mean 'step'"),
        (["2026"], 1, "stands for 3 runs"),
        (["jit_st"], 1, "stands for 2 keys"),
        (["--json", "--diff"], 2, "one form at a time"),
        (["step", "init"], 2, "two runs or two keys"),
        (["last", "jit_init-"], 1, "stands for 2 keys"),
    ],
)
def test_what_it_refuses(jcache: Jcache, flagged: Root, arguments: list[str], code: int, words: str) -> None:
    """What stands for nothing, or for several things, is refused in a sentence, with the exit code of such."""
    found = jcache("explain", *arguments, "--root", flagged.path)
    assert (found.code, found.out) == (code, "")
    assert words in found.err


def test_traces_and_graphs_are_compared_by_their_keys(jcache: Jcache, root: Root) -> None:
    """A key of a trace or graph is compared with the most similar entry of its name, or with a second key."""
    root.directory(Kind.GRAPHS).mkdir()
    for number in range(3):
        data = seal(
            b"x", kind=Kind.GRAPHS, name="tab", key=key(number, "tab"), build_seconds=1.0, created_ns=NOW,
            key_parts={"argument n": str(number % 2)}, codec=Codec.NONE,
        )  # fmt: skip
        root.place(Kind.GRAPHS, key(number, "tab")).write_bytes(data)
    first, second, third = (key(number, "tab") for number in range(3))
    found = jcache("explain", first, second, "--root", root.path, "--diff")
    assert found.out.splitlines()[:3] == [second, f"compared with {first}", "1  n 0 → 1"]
    assert "no modules" in found.out
    assert "All parts of their keys are the same" in jcache("explain", first, "--root", root.path).out
    assert "It is the same key" in jcache("explain", first, first, "--root", root.path).out
    told = jcache("explain", third, second, "--json", "--root", root.path).json
    assert told["causes"] == [{"name": "argument n", "current": "1", "baseline": "0"}]
    assert jcache("explain", "tab", "--root", root.path).code == 0
    refused = jcache("explain", "tab-", "--root", root.path)
    assert refused.code == 1 and "stands for 3 keys of traces and graphs" in refused.err


def test_a_root_without_runs_says_how_to_record_one(jcache: Jcache, root: Root, tmp_path: Path) -> None:
    """Without a recorded run, the command that records one is named; without a root, there is no cache."""
    found = jcache("explain", "--root", root.path)
    assert found.code == 1 and f"jcache run --root {root.path} -- CMD" in found.err
    assert jcache("explain", "--root", tmp_path / "none").code == 10


def test_of_many_runs_the_latest_are_read_first(
    root: Root, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the latest records are read, and all of them where a run is older than those."""
    monkeypatch.setattr("jcache.cli.commands.explain._LATEST_RUNS", 2)
    monkeypatch.setenv("JCACHE_PYTHON", "/nonexistent")
    keep(root, *(run(number, process(program(f"f{number}"))) for number in range(5)))
    last, first = run(4).id, run(0).id
    for what, expected in ((last, last), ("f4", last), (first, first), ("f0", first), (str(program("f0").key), first)):
        assert run_command(["explain", what, "--root", str(root.path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["run"] == expected
    assert run_command(["explain", "f9", "--root", str(root.path)]) == 1


@pytest.mark.parametrize("misses", [0, 2])
def test_a_last_run_without_a_record_is_told(jcache: Jcache, flagged: Root, misses: int) -> None:
    """Where the last run was not recorded, a warning says why, and that an older run is explained."""
    numbers = dict.fromkeys((*COUNTS, *SECONDS), 0) | {"stored": misses}
    with Store(flagged) as store:
        store.ledger.add_run(
            "20991125T000000Z-abcdef", 2**62, json.dumps({"id": "unrecorded", "reasons": {}, **numbers})
        )
    found = jcache("explain", "--root", flagged.path, env=NO_JAX)
    assert found.code == 0 and found.out.startswith("train.py")
    assert f"The last run, unrecorded, {'has no record' if misses else 'compiled nothing'}" in found.err


def test_traces_and_graphs_of_a_run_are_told(jcache: Jcache, flagged: Root) -> None:
    """With the reasons why they were not served, as its report has them; those of other runs are not."""
    numbers = dict.fromkeys((*COUNTS, *SECONDS), 0)
    traces = {"hits": 2, "stored": 1, "reasons": {"stored": {"step: global LR 1.0 → 2.0": 1}}}
    with Store(flagged) as store:
        for number, calls in ((2, {"graphs": {"hits": 7}}), (3, {"traces": traces})):
            one = run(number)
            text = json.dumps({"id": one.id, "reasons": {}, **numbers, **calls})
            store.ledger.add_run(one.id, one.started_ns, text)
    found = jcache("explain", "--root", flagged.path, env=NO_JAX)
    assert "traces: 2 hits, 1 miss (stored), 0 not stored, 0 left to jax.jit" in found.out
    assert "1 traced anew: step: global LR 1.0 → 2.0" in found.out and "graphs:" not in found.out
    told = jcache("explain", "--root", flagged.path, "--json").json
    assert (told["traces"]["hits"], told["graphs"]["hits"]) == (2, 0)
    assert "traces:" not in jcache("explain", "step", "--root", flagged.path, env=NO_JAX).out
