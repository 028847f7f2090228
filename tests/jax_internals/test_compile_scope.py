"""A function is called after each program that a thread has got, once, and knows nothing of other threads."""

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

PROGRAM = """
import json, threading
import jax, numpy as np
from jcache.jax_internals import compile_scope
told = []
inside = []
undo = compile_scope.call_after(lambda: (told.append(threading.current_thread().name), 1 / 0))
def step(number):
    inside.append(compile_scope.is_compiling())
    jax.jit(lambda x: x * number)(np.ones(3, np.float32))
step(2)
thread = threading.Thread(target=step, args=(3,), name="other")
thread.start(); thread.join()
for number in range(2):
    try:
        jax.jit(lambda x: x + number).lower(np.ones(3)).compile({"no_such_option": "1"})
    except Exception:
        told.append("failed")
undo()
step(4)
print(json.dumps([told, inside, compile_scope.is_compiling()]))
"""


def test_it_is_called_after_each_program() -> None:
    """A program that cannot be compiled counts as well, and what the function raises does not matter."""
    told, inside, after = run(PROGRAM).value
    assert told == ["MainThread", "other", "MainThread", "failed", "MainThread", "failed"]
    assert not any(inside) and not after
