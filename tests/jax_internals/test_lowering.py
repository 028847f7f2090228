"""Primitives whose lowering rules are the program's own."""

from pathlib import Path

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax


LOWERED = """
import json, sys
import jax, jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import mlir
import jcache
jcache.enable(sys.argv[1], strict=True)

def rule(x):
    return getattr(jnp, sys.argv[2])(x)

mine = Primitive("mine")
mine.def_abstract_eval(lambda x: x)
mlir.register_lowering(mine, mlir.lower_fun(getattr(jnp, sys.argv[3]), multiple_results=False))
if sys.argv[3] == "abs":
    mlir.register_lowering(mine, mlir.lower_fun(rule, multiple_results=False), platform="cpu")

@jcache.jit(check="never")
def inner(x):
    return jax.lax.scan(lambda carry, _: (jax.jit(mine.bind)(carry), None), x, length=1)[0] + 1

@jcache.jit(check="never")
def other(x):
    return jnp.abs(x) + 1

x = jnp.zeros(3)
found = [inner(x).tolist(), other(x).tolist()]
print(json.dumps([inner.explain(x).reason, other.explain(x).hit, found[0]]))
"""


@pytest.mark.parametrize("rules", [[("sin", "abs"), ("cos", "abs")], [("abs", "sin"), ("abs", "cos")]])
def test_a_lowering_rule_of_the_programs_own_is_not_overlooked(tmp_path: Path, rules: list[tuple[str, str]]) -> None:
    """A function that uses a primitive of the program's own is traced in each process; other functions are served."""
    for names, value in zip(rules, ([1.0] * 3, [2.0] * 3), strict=True):
        for _ in range(2):
            reason, is_hit, found = run(LOWERED, tmp_path / "root", *names).value
            assert reason == "it uses the primitive 'mine', whose lowering is the program's own"
            assert is_hit
            assert found == value
