"""Jaxprs that JAX keeps are found, without the function being traced, and evaluated where it would be traced."""

import pytest

from tests.helpers.jax_programs import run

pytestmark = [pytest.mark.jax, pytest.mark.smoke]
PROGRAM = """
import json
import jax, jax.numpy as jnp
from jcache.jax_internals import jaxprs, stablehlo
told, lowered = [], []

def jitted(function):
    def trace(*args, **kwargs):
        jaxprs.check()
        told.append(function.__name__)
        return function(*args, **kwargs)
    return jax.jit(trace, static_argnames="n")

@jitted
def plain(x, n=2): return {"a": x * n + jnp.sin(x), "b": (x, None)}

@jitted
def witnessed(x): return stablehlo.bind_witness(x + 1, lowered.append), x

x = jnp.arange(3.0)
before = jaxprs.known_of(plain, (x,), {"n": 3}), list(told)
right = plain(x, n=3)
known = jaxprs.known_of(plain, (x,), {"n": 3})
again = jax.jit(lambda x: jaxprs.evaluated(known, [x]))(x)
others = [jaxprs.known_of(plain, *call) for call in [((x,), {"n": 4}), ((x[:2],), {"n": 3}), ((x,), {})]]
witnessed(x)
found = jaxprs.known_of(witnessed, (x,), {})
count = len(lowered)
values = jax.jit(lambda x: jaxprs.evaluated(found, [x]))(x)
is_same = jax.tree_util.tree_all(jax.tree_util.tree_map(lambda one, other: bool((one == other).all()), right, again))
names = [str(each.primitive) for each in found.jaxpr.eqns]
values = [value.tolist() for value in values]
print(json.dumps([before, known.number, is_same, others, told, values, count, len(lowered), names]))
"""


def test_what_jax_keeps_is_found_and_nothing_else() -> None:
    """A jaxpr is known for the same arguments and static values, and has no witness."""
    before, number, is_same, others, told, values, first, then, names = run(PROGRAM).value
    assert before == [None, []] and number == 1 and is_same
    assert others == [None, None, None] and told == ["plain", "witnessed"]
    assert values == [[1.0, 2.0, 3.0], [0.0, 1.0, 2.0]] and first == then == 1
    assert names == ["add"]
