"""What libraries do while a function is traced, and what only counts, is no change, unless something looks at it."""

from pathlib import Path

import pytest

from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
HEAD = """
import json, sys
import jax, jax.numpy as jnp
import jcache
jcache.enable(sys.argv[1], strict=True)
x, traced = jnp.ones(3), 0
"""
TAIL = """
result = jcache.jit(step, check="never")(x)
print(json.dumps([traced, result.tolist(), [call.reason for call in jcache.stats().traces.calls]]))
"""
SCHEDULE = """
import optax
schedule = optax.warmup_cosine_decay_schedule(0.0, 1.0, 2, 10)
def step(x):
    global traced
    traced += 1
    return x * schedule(2)
"""
LAZY = """
def step(x):
    global traced
    traced += 1
    return x * jnp.exp(jax.scipy.stats.norm.logpdf(0.0) - jax.scipy.stats.norm.logpdf(0.0))
"""
IMPORTING = """
def step(x):
    global traced
    traced += 1
    import scipy.special
    return x * scipy.special.gamma(2)
"""


@pytest.mark.parametrize(
    "program",
    [SCHEDULE, LAZY, IMPORTING],
    ids=[
        "makes a float of a number in its closure",
        "imports a module when it is asked for",
        "runs what it has written",
    ],
)
def test_what_a_library_does_is_no_change(tmp_path: Path, program: str) -> None:
    """A schedule of optax, `jax.scipy` where only jax is imported, and SciPy, which the function itself imports."""
    if program is SCHEDULE:
        pytest.importorskip("optax")
    first, *later = [run(HEAD + program + TAIL, tmp_path / "root").value for _ in range(3)]
    assert first == [1, [1.0] * 3, ["nothing of this name was there"]]
    assert later == [[0, [1.0] * 3, [None]]] * 2


def test_of_which_it_has_made_a_float_is_no_change_for_the_next_shape(tmp_path: Path) -> None:
    """A schedule that has run in one process is the same after a hit in another one, for all that is called after it.

    What the function counts is left out all the same.
    """
    pytest.importorskip("optax")
    program = (
        HEAD
        + SCHEDULE
        + "step = jcache.jit(step, check='never')\nstep(jnp.ones((2, 2)))"
        + TAIL.replace('jcache.jit(step, check="never")', "step")
    )
    assert [run(program, tmp_path / "root").value[0] for _ in range(3)] == [2, 0, 0]


OWN_SCHEDULE = """
def made(steps):
    def schedule():
        nonlocal steps
        steps = float(steps)
        return steps
    return schedule
schedule = made(1)
def step(x):
    global traced
    traced += 1
    return x * schedule()
"""


def test_what_the_user_does_so_is_set_again(tmp_path: Path) -> None:
    """A number in the user's own closure that tracing makes a float of is one after a hit, too."""
    for reason in ("nothing of this name was there", None):
        traced, result, [why] = run(HEAD + OWN_SCHEDULE + TAIL, tmp_path / "root").value
        assert (traced, result, why) == (1, [1.0] * 3, reason)  # what it has counted is set again as well


COMMUNICATING = """
log = []
def build(x):
    log.append("built")
    return x + 1
def report(x):
    return x * len(log)
build, report = jcache.jit(build, check="never"), jcache.jit(report, check="never")
print(json.dumps([build(x).tolist(), report(x).tolist()]))
"""
FOUND = """
n = float(sys.argv[2])
@jax.tree_util.register_pytree_node_class
class Scaled:
    def __init__(self, x):
        self.x = x
    def tree_flatten(self):
        return (self.x * n,), None
    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)
def step(x):
    global n
    n += 1.0
    return jax.tree.leaves({"a": Scaled(x)})[0]
print(json.dumps(jcache.jit(step, check="never")(x).tolist()))
"""


def test_what_code_looks_at_that_is_found_only_while_it_runs(tmp_path: Path) -> None:
    """A registered class may look at what the function counts with."""
    for n in (1, 1, 2):
        assert run(HEAD + FOUND, tmp_path / "root", n).value == [n + 1.0] * 3


ATTRIBUTE = """
import functools
value = float(sys.argv[2])
def helper(x):
    return x
kinds = {"jax": jax.jit(helper), "jcache": jcache.jit(helper), "partial": functools.partial(helper),
         "lru": functools.lru_cache(helper)}
for each in kinds.values():
    each.scale = value
first, second, third, fourth = kinds.values()
def step(x):
    global traced
    traced += 1
    return x * first.scale + second.scale + third.scale + fourth.scale
result = jcache.jit(step, check="never")(x)
print(json.dumps([traced, result.tolist()]))
"""


def test_attributes_of_what_wraps_a_function_count(tmp_path: Path) -> None:
    """Be it jitted, partial or cached."""
    said = [run(HEAD + ATTRIBUTE, tmp_path / "root", value).value for value in (1, 1, 2)]
    assert said == [[1, [4.0] * 3], [0, [4.0] * 3], [1, [8.0] * 3]]


PATCHED = """
import functools
import jax.scipy.special
if sys.argv[2] == "patched":
    jax.scipy.special.logsumexp = functools.partial(jax.scipy.special.logsumexp, b=3.0)
def step(x):
    global traced
    traced += 1
    return x * jax.scipy.special.logsumexp(x)
result = jcache.jit(step, check="never")(x)
print(json.dumps([traced, round(float(result[0]), 3)]))
"""


def test_a_partial_in_the_place_of_a_librarys_function_counts(tmp_path: Path) -> None:
    """By what it is of, for it has no name."""
    said = [run(HEAD + PATCHED, tmp_path / "root", how).value for how in ("plain", "plain", "patched")]
    assert said == [[1, 2.099], [0, 2.099], [1, 3.197]]


MAPPED = """
import json, sys
from functools import partial
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
import jcache
jcache.enable(sys.argv[1], strict=True)
traced = 0
mesh = Mesh(np.array(jax.devices()), ("d",))
mapped = partial(jax.shard_map, mesh=mesh, in_specs=P("d"), out_specs=P("d"))

@jcache.jit
@mapped
def step(x):
    global traced
    traced += 1
    return x + jax.lax.psum(x, "d")

summed = mapped(lambda x: x * jax.lax.psum(x, "d"), axis_names={"d"})

@jcache.jit
def last(x):
    global traced
    traced += 1
    return jnp.sin(summed(x))

results = [each(jnp.arange(8.0)).tolist() for each in (step, last)]
print(json.dumps([traced, results, [call.outcome for call in jcache.stats().traces.calls]]))
"""


def test_what_shard_map_has_made_before(tmp_path: Path) -> None:
    """A function that it has wrapped keeps the names of the axes from its first call on, which is no change.

    The two functions share a counter, which takes one more start.
    """
    cold, _, warm = (run(MAPPED, tmp_path / "root", env=FOUR).value for _ in range(3))
    assert cold == [2, cold[1], ["stored"] * 2] and warm == [0, cold[1], ["hit"] * 2]
