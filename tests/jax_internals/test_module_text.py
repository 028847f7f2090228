"""The text of a module is that of its program. Real JAX processes."""

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

PROGRAM = """
import json
import jax, numpy as np
from jcache.jax_internals.module_text import text_digest

def lowered(function):
    return jax.jit(function).lower(np.ones(3, np.float32)).compiler_ir("stablehlo")

def twice(x): return x * 2
def thrice(x): return x * 3

print(json.dumps([text_digest(lowered(function)) for function in (twice, lambda value: value * 2, thrice)]))
"""


def test_the_text_is_of_the_program_and_not_of_its_name() -> None:
    """Equal programs have one digest, whatever their functions are called and wherever they stand."""
    twice, unnamed, thrice = run(PROGRAM).value
    assert twice == unnamed != thrice
