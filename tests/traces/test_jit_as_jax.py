"""`jcache.jit` does what `jax.jit` does, from cold and from warm: results, errors, warnings, prints, attributes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.interpreters import with_jax
from tests.helpers.jax_programs import environment, run

PROGRAM = Path(__file__).parents[1] / "programs" / "jit_features.py"
DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "PYTHONHASHSEED": "0"}
pytestmark = pytest.mark.jax


def said(whose: str, root: Path) -> Any:
    """What the program says of each case, and how often it has traced and served."""
    done = with_jax.run([str(PROGRAM), whose, str(root)], environment=environment(DEVICES))
    assert done.returncode == 0, done.stderr
    assert "The program goes on" not in done.stderr, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.whole
def test_all_that_can_be_done_with_jax_jit(tmp_path: Path) -> None:
    """Each case gives the same with either, and again in a second process, which traces what cannot be stored alone."""
    theirs, _ = said("jax", tmp_path)
    cold, _ = said("jcache", tmp_path)
    warm, done = said("jcache", tmp_path)
    assert {name: cold[name] for name in theirs if cold[name] != theirs[name]} == {}
    assert {name: warm[name] for name in theirs if warm[name] != theirs[name]} == {}
    assert done["_stand_in"] > 50 > 20 > done["_trace"], done


REPEATED = """
import contextlib, io, json, sys
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
def step(x, n=1):
    print("traced")
    return x * n
x, results = jnp.ones(2), []
for jit in (jax.jit, jcache.jit):
    with contextlib.redirect_stdout(io.StringIO()) as told:
        results.append([jit(step)(x).tolist() for _ in range(5)])
        results.append([jit(step, static_argnames="n")(x, n=n).tolist() for n in (2, 3, 2, 3)])
        results.append([jit(step, static_argnames=["n"])(x, n=n).tolist() for n in (2, 3)])
    results.append(told.getvalue().count("traced"))
print(json.dumps([results, len(jcache.stats().traces.calls)]))
"""


def test_a_function_that_is_jitted_anew_for_each_call(tmp_path: Path) -> None:
    """It is traced, or looked up, once for each set of options and types, as with `jax.jit`."""
    for traced in (3, 0):
        results, looked_up = run(REPEATED, tmp_path / "root").value
        assert results[:3] == results[4:7] and results[7] == traced
        assert looked_up == 5  # those with options in a list again: they cannot be compared
