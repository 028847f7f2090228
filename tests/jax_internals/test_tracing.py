"""The state of JAX that a trace depends on, and the state that forbids a hit."""

from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

BEGINNING = """
import json
import jax, jax.numpy as jnp, numpy as np
from jcache.jax_internals import tracing
"""


def said(program: str, last: str, **environment: str) -> Any:
    """Return the value of an expression after a program."""
    return run(f"{BEGINNING}{program}\nprint(json.dumps({last}))", env=environment).value


def test_options_that_no_trace_depends_on_are_no_settings() -> None:
    """Places of caches and logging are left out; an option that changes numbers is there, with this thread's value."""
    program = """
before = tracing.settings()
jax.config.update("jax_compilation_cache_dir", "/elsewhere")
jax.config.update("jax_log_compiles", True)
same = tracing.settings() == before
with jax.default_matmul_precision("float32"):
    inside = tracing.settings()
after = tracing.settings()
changed = [name for name in before if inside[name] != before[name]]
"""
    assert said(program, "[same, changed, after == before]") == [True, ["jax_default_matmul_precision"], True]


def test_what_forbids_a_hit_has_a_reason() -> None:
    """A program that is observed gets a sentence; a plain one, also under a mesh, gets none."""
    program = """
plain = tracing.reason_not_to_replay()
with jax.disable_jit():
    disabled = tracing.reason_not_to_replay()
with jax.debug_nans(True):
    watched = tracing.reason_not_to_replay()
with jax.sharding.Mesh(np.array(jax.devices()[:1]), "a"):
    meshed = tracing.reason_not_to_replay()
"""
    found = said(program, "[plain, disabled, watched, meshed, tracing.reason_not_to_replay()]")
    assert found == [None, "jit is disabled", "jax_debug_nans is on", None, None]


def test_the_inputs_of_a_trace_are_told_from_other_tracers() -> None:
    """Only all inputs, once and in order, are the inputs; of results, the first that is no argument is computed."""
    program = """
told = []
def f(x, y):
    told.append(tracing.are_tracers([x, y]) and not tracing.are_tracers([x, 1.0]))
    told.extend(tracing.are_inputs(some) for some in ([x, y], [y, x], [x], [x, x], [x, y + 1]))
    told.extend(tracing.first_computed(some, [x, y]) for some in ([x, y], [x, y + 1], [3, x * 2]))
    told.append(tracing.top_level()())
    return x + y
jax.jit(f)(1.0, 2.0)
"""
    found = said(program, "[*told, tracing.top_level()()]")
    assert found == [True, True, False, False, False, False, None, 1, 1, False, True]


def test_an_error_of_jaxs_is_told_from_one_of_the_programs() -> None:
    """The frame that raised decides, and not the frames that called it."""
    program = """
def own(x):
    raise ValueError(x)
found = []
for call in (lambda: jnp.ones(3) @ jnp.ones(4), lambda: jax.jit(own)(1.0)):
    try:
        call()
    except Exception as error:
        found.append(tracing.is_of_jax(error))
"""
    assert said(program, "found") == [True, False]


@pytest.mark.parametrize("function", ["rate", "partial(rate, k=3)", "partial(partial(rate, 1.0), 2)"])
def test_a_function_is_told_the_same_in_errors_of_jax(function: str) -> None:
    """Where tracing fails, JAX names the function and its line, also those of one within a `functools.partial`."""
    program = f"""
from functools import partial
import jcache
def rate(x, k=2, *, is_on=True):
    return float(jnp.sum(jnp.ones(3) * k))
def error_of(jitted):
    try:
        jitted(*([] if "1.0" in {function!r} else [1.0]))
    except Exception as error:
        return str(error)
jcache.enable()
"""
    told, of_jax = said(program, f"[error_of(jcache.jit({function})), error_of(jax.jit({function}))]")
    assert told == of_jax and "function rate at " in told
