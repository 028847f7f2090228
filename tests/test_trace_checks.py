"""Tests for `jcache.trace_checks`: whatever is served can be compared, and what has not changed is not accused."""

from pathlib import Path

import pytest

from tests.jax_programs import run

pytestmark = pytest.mark.jax

COMPARED = """
import functools, json, sys
import jax, jax.numpy as jnp
import jcache
from jcache.trace_checks import wait_for_checks
jcache.enable(sys.argv[1], strict=True)

class Scaled:
    def __call__(self, x):
        return x * 2.0

def scaled(by, x):
    return x * by

functions = [Scaled(), functools.partial(scaled, 2.0), lambda x: x * 3.0, jnp.sin, jax.grad(lambda x: (x * x).sum())]
results = [jcache.jit(function, check="always")(jnp.arange(3.0)).tolist() for function in functions]
draw = jcache.jit(lambda key: jax.random.normal(key, (3,)), check="always")
results.append(draw(jax.random.key(0)).tolist())
wait_for_checks()
traces = jcache.stats().traces
print(json.dumps([results, traces.hits, traces.compared, traces.differing]))
"""


def test_what_has_not_changed_compares_equal(tmp_path: Path) -> None:
    """Objects that can be called, partial functions and arguments that are random keys, too."""
    cold, warm = (run(COMPARED, tmp_path / "root") for _ in range(2))
    results, hits, compared, differing = warm.value
    assert results == cold.value[0] and hits == 6 and differing == 0
    assert compared >= 5  # jax 0.4 cannot say that an array has a weak type
    assert "Warning" not in warm.err
