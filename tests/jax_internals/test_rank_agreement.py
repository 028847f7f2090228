"""Processes that run one program agree whether its executable is in the cache. Real processes that JAX joins."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from tests.helpers.jax_programs import run
from tests.helpers.ranks import free_port, run_ranks
from tests.helpers.remote_servers import faulty_server, hanging, refusing
from tests.runtime.test_enable import clean

pytestmark = pytest.mark.jax

RANDOM = """
import json, random, sys, threading, time
from jax._src import distributed
from jcache.jax_internals import rank_agreement
COUNT, port = 4, sys.argv[1]

def in_threads(act):
    threads = [threading.Thread(target=act, args=(number,)) for number in range(COUNT)]
    [thread.start() for thread in threads]; [thread.join() for thread in threads]

states = [distributed.State() for _ in range(COUNT)]
in_threads(lambda number: states[number].initialize(f"localhost:{port}", COUNT, number))
rank_agreement._PATIENCE_AFTER_SILENCE_S = rank_agreement._PATIENCE_S = 0.3
found = []
for case in range(60):
    choose = random.Random(case)
    processes = tuple(sorted(choose.sample(range(COUNT), choose.randint(2, COUNT))))
    plans = {number: choose.choice(["has"] * 5 + ["lacks", "silent", "late"]) for number in processes}
    pauses = {number: choose.random() * 0.02 for number in processes}
    told = {}
    def act(number):
        if plans.get(number, "silent") == "silent":
            return
        time.sleep(0.6 if plans[number] == "late" else pauses[number])
        told[number] = rank_agreement.agree(
            states[number].client, processes, number, f"case{case}", has=plans[number] != "lacks", build_s=0.1)
    in_threads(act)
    found.append([plans, told])
in_threads(lambda number: states[number].shutdown())
print(json.dumps(found))
"""


def test_the_verdict_is_one(tmp_path: Path) -> None:
    """Whoever has it, lacks it, comes late or never: all hit or all miss, and a hit needs all of them."""
    cases = run(RANDOM, free_port(), new_interpreter=True).value
    hits = 0
    for plans, told in cases:
        assert len(set(told.values())) <= 1, (plans, told)
        all_have = set(plans.values()) == {"has"}
        assert all_have or not any(told.values()), (plans, told)  # on a busy machine some are late without a plan
        hits += any(told.values())
    assert 0 < hits < 60


PROGRAM = """
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
mesh = Mesh(np.array(jax.devices()), ("d",))
here = NamedSharding(mesh, PartitionSpec("d"))
given = jax.make_array_from_callback((4,), here, lambda index: np.arange(4, dtype=np.float32)[index])
def shared(x):
    return (x * 3).sum()
def alone(x):
    return x * 5
"""
TELL = """
jax.jit(alone)(np.ones(2, np.float32))
report = jcache.stats()
of = {one.name: [one.outcome, one.reason] for one in report.programs}
print(json.dumps([result, *of["jit_shared"], of["jit_alone"][0]]))
"""
ENABLED = "import jcache, sys\njcache.enable(sys.argv[4], write='all', remote=sys.argv[5] or None)\n"
JITTED = PROGRAM + "result = float(jax.jit(shared)(given))" + TELL
ABSENT = "another process of the program does not have it"


def outcomes(program: str, roots: Sequence[Path], remotes: Sequence[str] = ("", "")) -> list[Any]:
    """Return for each rank the outcome and the reason of the common program, and the outcome of its own."""
    found = run_ranks(program, list(zip(roots, remotes, strict=True)), before=ENABLED)
    assert [result for result, *_ in found] == [18.0, 18.0]
    return [rest for _, *rest in found]


def clear(root: Path, name: str) -> None:
    """Remove the executables of a name, as a program that evicts them does."""
    found = list(open_root(root).directory(Kind.EXECUTABLES).glob(f"{name}-*"))
    assert found
    for path in found:
        path.unlink()


@pytest.mark.contract
def test_a_hit_needs_all(tmp_path: Path) -> None:
    """With a root each, both hit what both have, and both compile what one of them lacks; then both have it again."""
    roots = [tmp_path / "a", tmp_path / "b"]
    assert outcomes(JITTED, roots) == [["stored", None, "stored"]] * 2
    assert outcomes(JITTED, roots) == [["hit", None, "hit"]] * 2
    for lacking in (1, 0):
        clear(roots[lacking], "jit_shared")
        expected: list[Any] = [["not_stored", ABSENT, "hit"]] * 2
        expected[lacking] = ["stored", None, "hit"]
        assert outcomes(JITTED, roots) == expected
        assert outcomes(JITTED, roots) == [["hit", None, "hit"]] * 2
    clean(*roots)


DIFFERING = (
    PROGRAM.replace("(x * 3).sum()", "(x * 3 + jax.numpy.float32(rank) * 0).sum()")
    + """
result = float(jax.jit(shared)(given))
from jcache.jax_internals import rank_agreement
[told] = [one for one in jcache.stats().programs if one.name == "jit_shared"]
print(json.dumps([result, told.outcome, told.reason, rank_agreement._Others.are_silent]))
"""
)


def test_programs_of_one_name_that_differ_are_compiled_at_once(tmp_path: Path) -> None:
    """Processes that have an executable each, of other programs, do not wait for one another."""
    ranks = [(tmp_path / name, "") for name in "ab"]
    assert run_ranks(DIFFERING, ranks, before=ENABLED) == [[18.0, "stored", None, False]] * 2
    assert run_ranks(DIFFERING, ranks, before=ENABLED) == [[18.0, "not_stored", ABSENT, False]] * 2
    clean(*(root for root, _ in ranks))


@pytest.mark.parametrize("fault", ["refusing", "hanging"])
def test_a_store_that_fails_for_one(tmp_path: Path, fault: str) -> None:
    """Two processes start with empty roots, and the store of one of them fails: both compile, and nobody hangs."""
    roots, store = [tmp_path / "a", tmp_path / "b"], (tmp_path / "store").as_uri()
    filled = "import jcache, sys\njcache.enable(sys.argv[4], write='all', remote=sys.argv[5], remote_write=True)\n"
    run_ranks(JITTED, [(root, store) for root in roots], before=filled)
    for root in roots:
        shutil.rmtree(root)
    assert outcomes(JITTED, roots, [store, store]) == [["hit", None, "hit"]] * 2
    for root in roots:
        shutil.rmtree(root)
    with faulty_server(hanging) as hangs:
        other = f"http://{hangs if fault == 'hanging' else refusing()}"
        assert outcomes(JITTED, roots, [store, other]) == [["not_stored", ABSENT, "hit"], ["stored", None, "stored"]]
    clean(*roots)


def test_under_run(tmp_path: Path) -> None:
    """The recorder of `jcache run` has the ranks agree in a program that knows nothing of jcache, and tells why."""
    root, reports = tmp_path / "root", [tmp_path / "0.json", tmp_path / "1.json"]
    program = PROGRAM + "print(json.dumps(float(jax.jit(shared)(given))))"
    jcache = [sys.executable, "-m", "jcache", "run", "-q", "--root", root, "--report"]
    command = [[*jcache, report, "--"] for report in reports]
    for _ in range(2):
        assert run_ranks(program, [[], []], command=command) == [18.0, 18.0]
    told = [json.loads(report.read_text())["programs"] for report in reports]
    reasons = [[one["reason"] for one in programs if one["name"] == "jit_shared"] for programs in told]
    assert reasons[0] == [ABSENT] and ABSENT not in reasons[1]
    clean(root)
