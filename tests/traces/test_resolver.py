"""What JAX traces in the place of a function: the function itself, or one operation that stands for its trace."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

BEGINNING = """
import functools, gc, json, os, sys, weakref
import jax, jax.numpy as jnp
import jcache
from jcache.store import roots
from jcache.traces.arguments import holds_arguments
from jcache.traces.format import program_key
from jcache.traces.resolver import Resolver
jcache.enable(sys.argv[1], strict=True)
traced = []

def step(x, n=1):
    traced.append(n)
    return {"x": x * n + 1}

def resolver(function=step, **options):
    return Resolver(function, options)

@holds_arguments
def call(resolver, *args, **kwargs):
    return resolver.jitted(*args, **kwargs)

def first(resolver, *args, **kwargs):
    result = call(resolver, *args, **kwargs)
    return result, *resolver.settle()

x = jnp.ones(3)
"""


def said(program: str, root: Path) -> Any:
    return run(BEGINNING + program, root).value


def test_a_function_is_traced_once_and_then_stood_in_for(tmp_path: Path) -> None:
    """The first process traces and stores; in the next one the function does not run, and its result is the same."""
    program = """
ours = resolver(static_argnames="n")
(result, one, reason), settled = first(ours, x, n=2), ours.is_settled()
again, nothing, _ = first(ours, x, n=2)
print(json.dumps([traced, result["x"].tolist(), one.stored is not None, reason, settled, nothing is None,
                  again["x"].tolist()]))
"""
    cold, warm = (said(program, tmp_path / "root") for _ in range(2))
    assert cold == [[2], [3.0] * 3, False, None, True, True, [3.0] * 3]
    assert warm == [[], [3.0] * 3, True, None, True, True, [3.0] * 3]


def test_what_was_compiled_is_settled_afterwards(tmp_path: Path) -> None:
    """Until then nothing is stored; the reason why a trace must not be stored is told, and remembered for `explain`."""
    program = """
table = None
def lazily(x):
    global table
    table = bytearray(b"abc") if table is None else table
    return x * len(table)
def plain(x): return x + 1
stored, lazy = resolver(plain), resolver(lazily)
call(stored, x)
before = [stored.is_settled(), stored.lookup.explain((x,), {}).hit]
stored.settle()
_, pending, reason = first(lazy, x)
key = pending.key
found = lazy.lookup.refused.get(key) == reason
print(json.dumps([before, stored.lookup.explain((x,), {}).hit, reason, found]))
"""
    before, hit, reason, remembered = said(program, tmp_path / "root")
    assert before == [False, False] and hit
    assert "tracing it changes its key: global table" in reason and remembered


def test_an_error_of_the_function_is_no_reason_to_call_it_again(tmp_path: Path) -> None:
    """What it raises while it is traced is the program's, and what was pending is given up."""
    program = """
def raising(x): raise ValueError("the program's own")
ours = resolver(raising)
try:
    call(ours, x)
except ValueError as error:
    told = [str(error), ours.may_trace_instead(error, ((x,), {})), ours.is_settled()]
print(json.dumps(told))
"""
    assert said(program, tmp_path / "root") == ["the program's own", False, True]


def test_a_replay_that_fails_before_it_runs_is_traced_instead(tmp_path: Path) -> None:
    """Where the executable has gone and its StableHLO cannot be read, the call may be made anew, and traces then."""
    program = """
ours = resolver()
told = []
for _ in range(2):
    try:
        result, *_ = first(ours, x)
        told.append(result["x"].tolist())
    except Exception as error:
        told.append(ours.may_trace_instead(error, ((x,), {})))
print(json.dumps([told, traced]))
"""
    root = tmp_path / "root"
    assert said(program, root) == [[[2.0] * 3] * 2, [1]]
    for path in (root / "executables").glob("*-cache"):
        path.unlink()
    for path in (root / "traces-v1").glob("*.stablehlo-*-cache"):
        path.unlink()
    assert said(program, root) == [[True, [2.0] * 3], [1]]


def test_a_resolver_keeps_no_function_alive(tmp_path: Path) -> None:
    """Neither it nor what JAX keeps of a trace holds on to a function that the program has let go."""
    program = """
def made():
    table = jnp.arange(3.0)
    def adding(x): return x + table.sum()
    return adding
function = made()
alive, ours = weakref.ref(function), resolver(function)
first(ours, x)
del function, ours
print(json.dumps(alive() is None))
"""
    assert said(program, tmp_path / "root") is True


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("step", "step"),
        ("functools.partial(functools.partial(step, n=2))", "step"),
        ("type('Call', (), {'__call__': lambda self, x: x})()", "<unnamed function>"),
    ],
)
def test_the_program_has_the_name_that_jax_gives_it(tmp_path: Path, function: str, name: str) -> None:
    """A partial has its function's name, and an object none; what JAX lowers is the same as with `jax.jit`."""
    program = (
        f"function = {function}"
        + """
ours = resolver(function)
texts = {jitted.lower(x).as_text() for jitted in (jax.jit(function), ours.jitted)}
print(json.dumps([len(texts), ours.jitted.__name__]))
"""
    )
    assert said(program, tmp_path / "root") == [1, name]
