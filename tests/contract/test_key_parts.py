"""The parts of keys that `jcache run` records are those that JAX hashes, on every version of JAX. Real JAX processes.

JAX's own DEBUG log is the peer: it hashes each part a second time, and names outcomes.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jcache.layout import Root
from jcache.runs.record import COMPUTATION, ProcessRecord, ProgramRecord, RunRecord
from jcache.store.run_records import read_module
from tests.helpers.command_line import clean_environment
from tests.helpers.records import new_record, records_of
from tests.helpers.waiting import LIMIT_S

pytestmark = pytest.mark.jax

PROGRAM = """
import logging, sys
from functools import partial
import jax, jax.numpy as jnp, numpy as np
if "log" in sys.argv:
    logging.basicConfig(format="LOG %(message)s")  # some versions of JAX log by themselves, too
    for name in ("cache_key", "compiler", "compilation_cache"):
        logging.getLogger("jax._src." + name).setLevel(logging.DEBUG)
captured = jnp.arange(5.0)

@partial(jax.jit, static_argnames=("scale", "flag"), donate_argnums=0)
def step(params, batch, *, scale, flag=False):
    return {name: value * scale + batch.sum() + captured[0] for name, value in params.items()}

class Model:
    @partial(jax.jit, static_argnums=(0, 2))
    def call(self, x, power):
        return x**power

step({"w": jnp.ones(3), "b": np.ones((2, 2), np.float32)}, np.ones((4, 5), np.float32), scale=3)
step({"w": jnp.ones(3), "b": np.ones((2, 2), np.float32)}, np.ones((4, 6), np.float32), scale=3)
Model().call(jnp.ones(3), 2)
jax.jit(lambda x: x + 1)(1.0)
with jax.default_matmul_precision("float32"):
    jax.jit(lambda a: a @ a)(np.ones((2, 2), np.float32))
"""
HASH = re.compile(r"^LOG get_cache_key hash of serialized (.+): ([0-9a-f]{64})$", re.MULTILINE)
HIT = re.compile(r"^LOG Persistent compilation cache hit for '(.+)' with key '(.+)'$", re.MULTILINE)
MISS = re.compile(r"^LOG PERSISTENT COMPILATION CACHE MISS for '(.+)' with key '(.+)'$", re.MULTILINE)


def recorded(root: Path, program: str, *arguments: str, **variables: str) -> tuple[RunRecord, str]:
    """Run a program under `jcache run`; return the record of the run, and what was written to stderr."""
    before = records_of(Root(root, plain=False))
    command = [sys.executable, "-m", "jcache", "run", "-q", "--root", str(root), "--"]
    environment = clean_environment() | {"JAX_PLATFORMS": "cpu"} | variables
    done = subprocess.run(
        [*command, sys.executable, "-c", program, *arguments],
        env=environment, capture_output=True, text=True, check=True, timeout=LIMIT_S,
    )  # fmt: skip
    return new_record(Root(root, plain=False), before, done.stderr), done.stderr


def only_process(record: RunRecord) -> ProcessRecord:
    (process,) = record.processes
    return process


def named(process: ProcessRecord, function: str) -> list[ProgramRecord]:
    return [program for program in process.programs if program.function == function]


@pytest.mark.contract
def test_parts_and_outcomes_are_those_of_jaxs_log(tmp_path: Path) -> None:
    """Every part's hash, every hit and every miss is in JAX's DEBUG log, and nothing else is; cold and then warm."""
    for expected in ("stored", "hit"):
        record, log = recorded(tmp_path / "root", PROGRAM, "log")
        process = only_process(record)
        hashes = [program.parts for program in process.programs]
        assert [pair for parts in hashes for pair in parts.items()] == HASH.findall(log)
        assert {program.outcome for program in process.programs} == {expected}
        told = [(program.name, program.key) for program in process.programs]
        assert (HIT if expected == "hit" else MISS).findall(log) == told
        for program in process.programs:
            assert read_module(Root(tmp_path / "root", plain=False), program.parts[COMPUTATION])


@pytest.mark.contract
def test_functions_and_arguments(tmp_path: Path) -> None:
    """A record names a function's line, and the type, donation and static value of each argument by its name."""
    source = tmp_path / "train.py"
    source.write_text(PROGRAM)
    record, _ = recorded(tmp_path / "root", f"import sys, runpy; runpy.run_path({str(source)!r})")
    process = only_process(record)
    first, second = named(process, "step")
    assert first.source == f"{source}:10" or first.source == f"{source}:11"
    arguments = {one.name: (one.type, one.donated) for one in first.arguments}
    assert arguments == {
        "params['b']": ("f32[2,2]", True),
        "params['w']": ("f32[3]", True),
        "batch": ("f32[4,5]", False),
    }
    assert {one.name: one.type for one in second.arguments}["batch"] == "f32[4,6]"
    assert first.static == second.static == {"scale": "3"}
    (call,) = named(process, "call")
    assert call.static["power"] == "2" and call.static["self"].endswith("Model>")
    (weak,) = named(process, "<lambda>")[:1]
    assert weak.arguments[0].type == "f32[]{weak_type=True}"
    first_lambda, second_lambda = named(process, "<lambda>")
    assert first_lambda.options != second_lambda.options
    assert process.options[second_lambda.options or 0]["jax_default_matmul_precision"].lower() == "float32"
    assert all(program.lower_seconds > 0 and (program.compile_seconds or 0) > 0 for program in process.programs)


@pytest.mark.contract
def test_values_of_parts(tmp_path: Path) -> None:
    """Flags, versions and devices can be read; a secret of the environment is in no record, not even as a hash."""
    record, _ = recorded(
        tmp_path / "root",
        PROGRAM,
        "--api-key=hidden",
        XLA_FLAGS="--xla_cpu_enable_fast_math=true --xla_force_host_platform_device_count=3",
        MY_TOKEN="hidden",
        JAX_ENABLE_X64="1",
    )
    process = only_process(record)
    program = named(process, "step")[0]
    assert process.values["XLA flags"][program.parts["XLA flags"]] == "--xla_cpu_enable_fast_math=true"
    assert process.values["jax_lib version"][program.parts["jax_lib version"]] == process.jaxlib
    assert process.devices == ("3 x cpu",)
    assert process.values["accelerator_config"][program.parts["accelerator_config"]] == "1 x cpu"
    assert process.variables["JAX_ENABLE_X64"] == "1" and "xla_cpu" in process.variables["XLA_FLAGS"]
    assert "MY_TOKEN" in process.digests and "hidden" not in json.dumps(record.to_json())
    assert process.options[0]["jax_enable_x64"] == "True"


def test_a_program_that_raises_while_it_is_traced(tmp_path: Path) -> None:
    """The recorder is in no traceback of a function that fails, and the next function is recorded as ever."""
    program = """
import jax, traceback
@jax.jit
def bad(x): raise KeyError("mine")
try:
    bad(1.0)
except KeyError:
    traceback.print_exc()
jax.jit(lambda x: x + 1)(1.0)
"""
    record, log = recorded(tmp_path / "root", program)
    assert "mine" in log and "recorder" not in log
    assert [program.function for program in only_process(record).programs] == ["<lambda>"]


def test_forks_have_records_of_their_own(tmp_path: Path) -> None:
    """A forked child's keys are in a process of its own, with all that is needed to read them."""
    program = """
import os
import jax
child = os.fork()  # before JAX has threads: it does not work after
jax.jit(lambda x: x + (1 if child else 2))(1.0)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""
    record, _ = recorded(tmp_path / "root", "import warnings; warnings.simplefilter('ignore')\n" + program)
    assert len(record.processes) == 2
    for process in record.processes:
        (lambda_,) = process.programs
        assert lambda_.parts and process.devices == ("1 x cpu",)
        assert {lambda_.parts[part] for part in process.values} <= {h for v in process.values.values() for h in v}


@pytest.mark.parametrize("mode", ["off", "keys", "modules"])
def test_the_user_chooses_what_is_recorded(tmp_path: Path, mode: str) -> None:
    """With JCACHE_RECORD=off nothing is kept, with keys no module is, and files are their owner's alone."""
    root = tmp_path / "root"
    command = [sys.executable, "-m", "jcache", "run", "-q", "--root", str(root), "--", sys.executable, "-c", PROGRAM]
    environment = clean_environment() | {"JAX_PLATFORMS": "cpu", "JCACHE_RECORD": mode}
    subprocess.run(command, env=environment, check=True, timeout=LIMIT_S)
    state = root / ".jcache"
    records, modules = (list((state / name).glob("*.zst")) for name in ("records", "modules"))
    assert bool(records) == (mode != "off") and bool(modules) == (mode == "modules")
    assert all(path.stat().st_mode & 0o077 == 0 for path in (*records, *modules))
