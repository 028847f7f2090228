"""In which worlds a trace is served, and that a start that compares is like any other."""

from pathlib import Path

import pytest

from tests.helpers.jax_programs import run

COMPARED = """
import functools, json, sys
import jax, jax.numpy as jnp
import jcache
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
traces = jcache.stats().traces
print(json.dumps([results, traces.hits, traces.stored, traces.compared, traces.differing]))
"""


@pytest.mark.jax
def test_what_has_not_changed_compares_equal(tmp_path: Path) -> None:
    """Objects that can be called, partial functions and arguments that are random keys, too."""
    cold, warm = (run(COMPARED, tmp_path / "root") for _ in range(2))
    assert cold.value[1:] == [0, 6, 0, 0]
    assert warm.value == [cold.value[0], 0, 0, 6, 0] and "Warning" not in warm.err


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


@pytest.mark.jax
def test_the_programs_random_numbers_are_left_alone(tmp_path: Path) -> None:
    """Whether a call is compared is drawn from another generator than those that a program has given a seed."""
    assert [run(DRAWN, tmp_path / "root").value for _ in range(2)] == [[True, 0], [True, 1]]


HANDLERS = """
import json, sys, threading
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
stack, wrong = [], []  # as libraries of effect handlers keep it: one for the whole process

def sample(name):
    return stack[-1][name] if stack else 0.0

def model(x):
    stack.append({"a": x * 2})
    try:
        return sample("a") + 1
    finally:
        stack.pop()

step = jcache.jit(model, check="always")
for size in range(1, 6):
    step(jnp.ones(size))
    for _ in range(2_000):
        if sample("a") != 0.0 or stack:
            wrong.append(size)
compared = jcache.stats().traces.compared
print(json.dumps([wrong, [each.name for each in threading.enumerate()], compared]))
"""


@pytest.mark.jax
def test_nothing_of_the_program_runs_in_another_thread(tmp_path: Path) -> None:
    """A library's global stack never holds what a comparison has put there."""
    for compared in (0, 5):
        wrong, threads, counted = run(HANDLERS, tmp_path / "root").value
        assert (wrong, counted) == ([], compared) and "jcache compares" not in threads


RAISING = """
import json, sys, warnings
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1])
changed = int(sys.argv[2]) > 4000
sys.setrecursionlimit(int(sys.argv[2]))  # which nothing tells jcache of

def raised(x):
    if sys.getrecursionlimit() > 4000:
        raise ValueError("now")
    return x * 2

def no_array(x):
    return "text" if sys.getrecursionlimit() > 4000 else x * 2

def interrupted(x):
    if sys.getrecursionlimit() > 4000:
        raise KeyboardInterrupt
    return x * 2

def other_argument(x, y):
    return x if sys.getrecursionlimit() > 4000 else y

def other_structure(x, y):
    return [x, y] if sys.getrecursionlimit() > 4000 else (x, y)

def other_type(x):
    return x.astype(int) if sys.getrecursionlimit() > 4000 else x + 1

def outcome(jit, function, count):
    try:
        return repr(jit(function)(*[jnp.ones(2)] * count))
    except BaseException as error:
        return repr(error)

def checked(function):
    return jcache.jit(function, check="always")

said = {}
for function, count in ((raised, 1), (no_array, 1), (interrupted, 1), (other_argument, 2), (other_structure, 2),
                        (other_type, 1)):
    before = jcache.stats().traces
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        ours = outcome(checked, function, count)
    after = jcache.stats().traces
    said[function.__name__] = [
        ours == outcome(jax.jit, function, count),
        [after.stored - before.stored, after.compared - before.compared, after.differing - before.differing],
        [str(each.message).partition(": ")[2].partition(". ")[0] for each in heard],
    ]
print(json.dumps(said))
"""


@pytest.mark.jax
def test_a_start_in_the_same_world_that_differs_is_refused_from_then_on(tmp_path: Path) -> None:
    """It goes on as with `jax.jit`, and `explain` says what differs; what a call raises is raised."""
    root = tmp_path / "root"
    cold = run(RAISING, root, 4000)
    assert all(same and counts == [1, 0, 0] for same, counts, *_ in cold.value.values())
