"""`jcache warm`: a root is filled by one run of a program, and a second run shows what is missing."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import Jcache, call, keys

PROGRAM = """
import os, sys
import jax, jax.numpy as jnp
import jcache

@jcache.jit
def step(x):
    print("traced")
    return jnp.sin(x) * 2

print(float(step(jnp.ones(3))[0]))
if "INSIDE" in os.environ:
    jax.jit(lambda x: step(x) + 1)(jnp.ones(3))
if "RANDOM" in os.environ:
    jax.jit(lambda x: x + os.getpid())(1.0)
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.full
@pytest.mark.jax
@pytest.mark.smoke(since="0.6")
def test_a_root_is_filled_and_checked(jcache: Jcache, tmp_path: Path, program: Path) -> None:
    """Every program and trace is stored, whatever JAX's thresholds are, and the second run hits all. The
    named root is used, even if the program enables jcache itself and a variable names another root.
    """
    root = tmp_path / "root"
    env = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "100", "JCACHE_DIR": str(tmp_path / "other")}
    done = jcache("warm", "--root", root, "--check", "--", sys.executable, program, env=env)
    number = len(keys(root / "executables"))
    assert done.code == 0 and done.out.count("traced") == 1, done.err
    assert f"stored {number} executables, 1 trace, 0 graphs in {root}" in done.err
    assert f"second run: {number} of {number} executables hit, 1 of 1 trace hit" in done.err
    assert not (tmp_path / "other").exists()
    again = jcache("warm", "--root", root, "--", sys.executable, program, env=env)
    assert f"stored 0 executables, 0 traces, 0 graphs in {root}; {number} executables and 1 trace" in again.err


@pytest.mark.jax
def test_what_is_compiled_again_is_told(jcache: Jcache, tmp_path: Path, program: Path) -> None:
    """A program that differs in each run is named, and the exit code is 1."""
    root = tmp_path / "root"
    done = jcache("warm", "--root", root, "--check", "--json", "--", sys.executable, program, env={"RANDOM": "1"})
    told = json.loads(done.err)
    assert done.code == 1 and told["stored"]["traces"] == 1
    assert [(one["kind"], one["outcome"]) for one in told["missed"]] == [("executables", "stored")]
    assert told["check"]["hits"] == told["run"]["stored"] - 1


@pytest.mark.jax
def test_what_is_left_to_jax_is_told(jcache: Jcache, tmp_path: Path, program: Path) -> None:
    """A call inside a jitted function cannot hit: it is named, and the exit code stays 0."""
    env = {"INSIDE": "1"}
    done = jcache("warm", "--root", tmp_path / "root", "--check", "--", sys.executable, program, env=env)
    assert done.code == 0 and "1 of 1 trace hit" in done.err
    assert "left to jax.jit: step: it is called inside jax.jit" in done.err


@pytest.mark.jax
def test_the_exit_code_is_the_programs(jcache: Jcache, tmp_path: Path, program: Path) -> None:
    """A program that fails is not run a second time; its executables are stored."""
    done = jcache("warm", "--root", tmp_path / "root", "--check", "--", sys.executable, program, env={"CODE": "7"})
    assert done.code == 7 and "ended with exit code 7" in done.err and "second run" not in done.err
    assert keys(tmp_path / "root" / "executables")


def test_there_must_be_a_root_and_a_program(jcache: Jcache, tmp_path: Path, program: Path) -> None:
    """Without a usable root nothing is run, and a missing program is a usage error."""
    file = tmp_path / "file"
    file.touch()
    refused = jcache("warm", "--root", file, "--", sys.executable, program)
    assert refused.code == 10 and not refused.out
    assert jcache("warm").code == 2


@pytest.mark.jax
def test_a_program_with_a_cache_directory_of_its_own(jcache: Jcache, tmp_path: Path) -> None:
    """A program that sets its own cache directory cannot warm the root: exit 1, and one sentence names the
    command that can.
    """
    program, own, root = tmp_path / "program.py", tmp_path / "its own", tmp_path / "root"
    plain = "import jax, jax.numpy as jnp\njax.config.update('jax_compilation_cache_dir', {!r})\njnp.ones(3) + 1"
    program.write_text(plain.format(str(own)))
    done = jcache("warm", "--root", root, "--check", "--", sys.executable, program)
    assert done.code == 1 and done.err.count("The program has set its own cache directory") == 1, done.err
    assert "were there before" not in done.err
    (suggested,) = re.findall("`(jcache warm [^`]*)`", done.err)
    pasted = call([sys.executable, "-m", *shlex.split(suggested)])
    assert pasted.code == 0 and "of its own" not in pasted.err
    assert f"{len(keys(own))} executables" in pasted.err
