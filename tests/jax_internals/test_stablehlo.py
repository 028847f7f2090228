"""StableHLO modules: what a signature tells apart, which custom calls a module has, and the portable form."""

from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

BEGINNING = """
import json
import jax, jax.numpy as jnp, numpy as np
from jcache.jax_internals import stablehlo as s

def lowered(function, *arguments, **options):
    return jax.jit(function, **options).lower(*arguments).compiler_ir("stablehlo")

def twice(x): return x * 2
def thrice(x): return x * 3
x, y = np.ones(3, np.float32), np.ones(4, np.float32)
"""


def said(program: str) -> Any:
    """Return the value of an expression in a process that has JAX."""
    return run(f"{BEGINNING}\nprint(json.dumps({program}))").value


def test_a_signature_is_of_types_and_not_of_the_program() -> None:
    """Programs with the same arguments and results have one signature; another shape, dtype or donation has another."""
    same, *others = said(
        "[s.signature(m) for m in (lowered(twice, x), lowered(thrice, x), lowered(twice, y), "
        "lowered(twice, x.astype(np.int32)), lowered(twice, x, donate_argnums=0))]"
    )
    assert others[0] == same and len({same, *others[1:]}) == 4


def test_custom_calls_are_known() -> None:
    """The calls of a decomposition are found, JAX promises each of them to every process, and other ones are named."""
    plain, calls, unknown = said(
        "[sorted(s.targets_of(lowered(twice, x))), sorted(s.targets_of(lowered(jnp.linalg.cholesky, np.eye(3)))), "
        "s.unknown_target(frozenset({'mine', 'lapack_spotrf_ffi'}))]"
    )
    assert plain == [] and any("potrf" in each for each in calls) and unknown == "mine"


def test_an_artifact_is_the_same_program() -> None:
    """A module that was read from its portable artifact has the signature, the inputs and the calls of the first."""
    was, now = said(
        "[[s.signature(m), s.inputs_of(m), sorted(s.targets_of(m))] for first in "
        "[lowered(jnp.linalg.cholesky, np.eye(3, dtype=np.float32))] "
        "for m in (first, s.module_of(s.to_artifact(first)))]"
    )
    assert was == now


def test_a_marker_has_the_signature_of_the_program_that_it_stands_for() -> None:
    """The trace in a marker is found, an ordinary module has none, and both have the same signature."""
    marker = "lambda x: s.bind_marker('the trace', [x], [jax.core.ShapedArray(x.shape, x.dtype)])[0]"
    found = said(
        f"[s.trace_of(m) for m in (lowered({marker}, x), lowered(twice, x))] + "
        f"[s.signature(lowered({marker}, x)) == s.signature(lowered(twice, x))]"
    )
    assert found == ["the trace", None, True]
