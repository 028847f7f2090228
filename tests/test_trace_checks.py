"""Tests for `jcache.trace_checks`: whatever is served can be compared, and what has not changed is not accused."""

from pathlib import Path

import pytest

from tests.helpers.jax_programs import run

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


DRAWN = """
import json, random, sys
import jax.numpy as jnp, numpy as np
import jcache
jcache.enable(sys.argv[1], strict=True)
random.seed(0)
np.random.seed(0)
before = random.getstate(), np.random.get_state()[1].tolist()
jcache.jit(lambda x: x + 1)(jnp.ones(3))
after = random.getstate(), np.random.get_state()[1].tolist()
print(json.dumps([before == after, jcache.stats().traces.hits]))
"""


def test_the_programs_random_numbers_are_left_alone(tmp_path: Path) -> None:
    """Whether a call is compared is drawn from another generator than those that a program has given a seed."""
    assert [run(DRAWN, tmp_path / "root").value for _ in range(2)] == [[True, 0], [True, 1]]


ENDING = """
import atexit, json, sys, threading, time
began = threading.Event()

def say_who_is_left():
    print(json.dumps([began.is_set(), "jcache compares" in {each.name for each in threading.enumerate()}]))
atexit.register(say_who_is_left)  # called last

import jax, jax.numpy as jnp
import jcache
from jcache import _stablehlo
jcache.enable(sys.argv[1], strict=True)

digest = _stablehlo.text_digest

def never_ends(lowered):
    if threading.current_thread() is threading.main_thread():
        return digest(lowered)
    began.set()
    while True:
        time.sleep(0.001)

_stablehlo.text_digest = never_ends
jcache.jit(lambda x: jnp.sin(x) * 2, check="always")(jnp.arange(3.0))
began.wait(60 if jcache.stats().traces.hits else 0)
"""


def test_a_comparison_ends_with_the_process(tmp_path: Path) -> None:
    """In whatever it is, and before the interpreter goes: a thread within JAX would take the process with it then."""
    cold, warm = (run(ENDING, tmp_path / "root") for _ in range(2))
    assert (cold.value, warm.value) == ([False, False], [True, False])
    assert "Traceback" not in warm.err
