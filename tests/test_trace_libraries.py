"""What libraries do while they are traced is no change of the user's: the second process does not trace."""

from pathlib import Path

import pytest

from tests.jax_programs import run

pytestmark = pytest.mark.jax

HEAD = """
import json, sys
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
x, traced = jnp.ones(3), 0
"""
TAIL = """
result = jcache.jit(step, check="never")(x)
print(json.dumps([traced, result.tolist(), [call.reason for call in jcache.stats().traces.calls]]))
"""
SCHEDULE = """
import optax
schedule = optax.warmup_cosine_decay_schedule(0.0, 1.0, 2, 10)
def step(x):
    global traced
    traced += 1
    return x * schedule(2)
"""
LAZY = """
def step(x):
    global traced
    traced += 1
    return x * jnp.exp(jax.scipy.stats.norm.logpdf(0.0) - jax.scipy.stats.norm.logpdf(0.0))
"""
IMPORTING = """
def step(x):
    global traced
    traced += 1
    import scipy.special
    return x * scipy.special.gamma(2)
"""


@pytest.mark.parametrize(
    "program",
    [SCHEDULE, LAZY, IMPORTING],
    ids=[
        "makes a float of a number in its closure",
        "imports a module when it is asked for",
        "runs what it has written",
    ],
)
def test_what_a_library_does_is_no_change(tmp_path: Path, program: str) -> None:
    """A schedule of optax, `jax.scipy` where only jax is imported, and SciPy, which the function itself imports."""
    first, *later = [run(HEAD + program + TAIL, tmp_path / "root").value for _ in range(3)]
    assert first == [1, [1.0] * 3, ["nothing of this name was there"]]
    assert later == [[0, [1.0] * 3, [None]]] * 2


OWN_SCHEDULE = """
def made(steps):
    def schedule():
        nonlocal steps
        steps = float(steps)
        return steps
    return schedule
schedule = made(1)
def step(x):
    global traced
    traced += 1
    return x * schedule()
"""


def test_what_the_user_does_so_is_one(tmp_path: Path) -> None:
    """A number in the user's own closure that tracing makes a float of is refused, and says so."""
    for _ in range(2):
        traced, result, [reason] = run(HEAD + OWN_SCHEDULE + TAIL, tmp_path / "root").value
        assert (traced, result) == (1, [1.0] * 3)
        assert "tracing it changes its key: closure steps of made.<locals>.schedule 1 → 1.0" in reason
