"""A function that another process has stored is traced once more where its count is used."""

from pathlib import Path

import pytest

from tests.helpers.jax_programs import run

PROGRAM = """
import json, os, sys
import jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
calls = []
def counting(x, times, *, scale=1):
    calls.append(x.shape)
    return {"y": x * times * scale}
count = jcache.jit(counting, static_argnums=1, static_argnames="scale")
used = jcache.jit(lambda x: x * len(calls))
for size in (1, 2):
    count(jnp.ones(size), 2, scale=3)
found = [float(used(jnp.ones(1))[0])] if os.environ["IS" + "USED"] == "1" else []
print(json.dumps([found, calls, [each.outcome for each in jcache.stats().traces.calls]]))
"""


@pytest.mark.full
def test_a_served_function_is_traced_for_its_side_effects(tmp_path: Path) -> None:
    """With static arguments as they were; from the next start on it is left to `jax.jit`, and the other one served."""
    assert run(PROGRAM, tmp_path, env={"ISUSED": 0}).value[2] == ["stored", "stored"]
    assert run(PROGRAM, tmp_path, env={"ISUSED": 0}).value[1:] == [[], ["hit", "hit"]]
    found, calls, outcomes = run(PROGRAM, tmp_path, env={"ISUSED": 1}).value
    assert (found, calls, outcomes) == ([2.0], [[1], [2]], ["hit", "hit", "stored"])
    found, calls, outcomes = run(PROGRAM, tmp_path, env={"ISUSED": 1}).value
    assert (found, calls, outcomes) == ([2.0], [[1], [2]], ["bypassed", "bypassed", "hit"])


CHECKED = """
import dataclasses, json, sys
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
calls = []
@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: jax.Array
    def __post_init__(self): assert isinstance(self.x, jax.Array)
@jcache.jit
def step(state):
    calls.append(1)
    return state.x * 2
step(State(jnp.ones(1)))
print(json.dumps([each.outcome for each in jcache.stats().traces.calls]))
"""


@pytest.mark.full
def test_a_class_that_takes_arrays_alone_is_not_made_of_types(tmp_path: Path) -> None:
    """A hit makes no instance of the program's classes for side effects that nobody uses."""
    assert [run(CHECKED, tmp_path).value for _ in range(2)] == [["stored"], ["hit"]]
