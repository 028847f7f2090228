"""What `jcache.jit` keeps alive: no argument, and nothing of a function that the program has dropped."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

DROPPED = """
import gc, json, os, sys, weakref
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
gc.disable()  # what is dropped goes at once, or not before it is collected

def closure(x):
    return lambda: x * 2

def refused_closure(x):
    return lambda: x * 2 + (os.putenv("_JCACHE_TEST", "1") or 0)

def of(make):
    x = jnp.arange(10.0)
    function = make(x)
    jitted, held = jcache.jit(function), weakref.ref(x)
    del x
    seen = [held() is not None]
    function(), jitted(), jitted()
    del function
    jitted()
    seen.append(held() is not None)
    del jitted
    return [*seen, held() is None]

class Model:
    def __init__(self):
        self.table = jnp.ones(10)

def step(x, model=None, more=0.0):
    return {"x": x["a"] * 2 + more, "b": x["b"]}

def refused_step(x, model=None, more=0.0):
    return {"x": x["a"] * 2 + more + (os.putenv("_JCACHE_TEST", "1") or 0)}

def arguments(function):
    model = Model()
    given = [jnp.ones(4), jnp.ones(5), jnp.ones(()), model, model.table]
    held = [*map(weakref.ref, given)]
    jitted = jcache.jit(function, static_argnames="model")
    result = jitted({"a": given[0], "b": given[1]}, more=given[2])
    jitted({"a": given[0], "b": given[1]}, more=given[2])
    del given, result, model
    return [reference() is None for reference in held], jitted

dropped = [of(make) for make in (closure, refused_closure)]
kept = [arguments(function) for function in (step, refused_step)]
outcomes = [call.outcome for call in jcache.stats().traces.calls]
print(json.dumps([dropped, [each[0] for each in kept], outcomes]))
"""


def test_what_the_program_has_dropped_is_gone(tmp_path: Path) -> None:
    """A function that is stored, served or refused keeps no argument of a call, and goes at once with what it holds."""
    for outcomes in (["stored", "not_stored"], ["hit", "bypassed"]):
        dropped, kept, told = run(DROPPED, tmp_path / "root").value
        assert dropped == [[True, True, True]] * 2
        assert kept == [[True] * 5] * 2
        assert told == outcomes * 2


GROWN = """
import gc, json, sys, tracemalloc
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)

def make(number):
    def step(x):
        return {"a": x * number, "b": [x, x + number]}
    return step

def grown(jit, numbers):
    gc.collect()
    objects, size = len(gc.get_objects()), tracemalloc.get_traced_memory()[0]
    for number in numbers:
        jit(make(float(number)))(x)
    gc.collect()
    return [
        (len(gc.get_objects()) - objects) / len(numbers), (tracemalloc.get_traced_memory()[0] - size) / len(numbers)
    ]

x = jnp.ones(4)
if sys.argv[2] == "measure":
    tracemalloc.start()
for jit in (jax.jit, jcache.jit):
    grown(jit, range(1000, 1010))
print(json.dumps([grown(jit, range(50)) for jit in (jax.jit, jcache.jit)]))
"""


def test_a_function_that_was_served_is_freed(tmp_path: Path) -> None:
    """Of fifty functions that are served and dropped nothing stays but a line for the report of the process."""
    run(GROWN, tmp_path / "root", "fill")
    said: Any = run(GROWN, tmp_path / "root", "measure").value
    print(said)
    (theirs, their_bytes), (ours, our_bytes) = said
    assert ours <= theirs + 10 and our_bytes <= their_bytes + 4096
