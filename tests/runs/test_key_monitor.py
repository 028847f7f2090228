"""A process records its own keys, as `jcache run` does, and leaves JAX as it was. Real JAX processes."""

from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.runs.record import COMPUTATION, record_from
from jcache.store.run_records import read_module, read_records
from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

PROGRAM = """
import json, os, sys, threading
import jax, numpy as np, jcache
from jax._src import cache_key, pjit
from jax._src.interpreters import mlir
def state(): return [cache_key.hashlib, cache_key.get, pjit._infer_params, mlir.lower_jaxpr_to_module]
before = state()
"""


def test_an_enabled_process_has_a_record(tmp_path: Path) -> None:
    """`jcache.enable()` records keys, arguments and missed modules, once, with the id of the process's report."""
    program = """
jcache.enable(sys.argv[1])
@jax.jit
def step(x): return x * 2
step(np.ones(3, np.float32)); step(np.ones(4, np.float32))
print(json.dumps(jcache.stats().id))
"""
    root = Root(tmp_path / "root", plain=False)
    ids = [run(PROGRAM + program, root.path).value for _ in range(2)]
    records = [record for data in read_records(root) if (record := record_from(data)) is not None]
    records.sort(key=lambda record: record.started_ns)
    assert [record.id for record in records] == ids
    for record, outcome in zip(records, ["stored", "hit"], strict=True):
        (process,) = record.processes
        steps = [program for program in process.programs if program.function == "step"]
        assert [step.arguments[0].type for step in steps] == ["f32[3]", "f32[4]"]
        assert {step.outcome for step in steps} == {outcome}
        assert all(read_module(root, step.parts[COMPUTATION]) for step in steps)


def test_disabling_puts_everything_back(tmp_path: Path) -> None:
    """After `jcache.disable()` JAX's functions are its own again, however often it was enabled."""
    program = """
for _ in range(3):
    jcache.enable(sys.argv[1])
    changed = state() != before
    jcache.disable()
print(json.dumps([changed, state() == before]))
"""
    assert run(PROGRAM + program, tmp_path / "root").value == [True, True]


@pytest.mark.parametrize("mode", ["off", "all"])
def test_nothing_is_recorded(tmp_path: Path, mode: str) -> None:
    """With JCACHE_RECORD=off there is no record; a value that is none of its values is told, and the program runs."""
    program = """
import warnings
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    jcache.enable(sys.argv[1])
jax.jit(lambda x: x + 1)(1.0)
print(json.dumps([state() == before, [str(one.message) for one in told if "JCACHE_RECORD" in str(one.message)]]))
"""
    unchanged, told = run(PROGRAM + program, tmp_path / "root", env={"JCACHE_RECORD": mode}).value
    assert unchanged and bool(told) == (mode == "all")
    assert read_records(Root(tmp_path / "root", plain=False)) == []
