"""What is known to stand in the way of keeping traces and executables, each a program that starts warm all the same.

They were met when Torax was exported by hand (`jax.export`, `serialize_executable`), and each of them stopped it.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from jcache.store.store import Store
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.jax_programs import run

pytestmark = pytest.mark.jax

HEAD = """
import contextlib, io, json, sys
import jax, jax.numpy as jnp, numpy as np
import jcache
jcache.enable(sys.argv[1], strict=True)
"""
TAIL = """
step = jcache.jit(step)
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    results = [step(*arguments()) for _ in range(2)]
explained = step.explain(*arguments())
flat = [[np.asarray(leaf).tolist() for leaf in jax.tree.leaves(each)] for each in results]
assert flat[0] == flat[1]
print(json.dumps({"traced": printed.getvalue().count("traced"), "flat": flat[0], "shown": show(results[0]),
                  "hit": explained.hit or explained.reason}))
"""
PLAIN = """
def show(result):
    return None
"""
LINEAR_ALGEBRA = (
    PLAIN
    + """
def arguments():
    return np.eye(4, dtype=np.float32) * 3 + 1, np.arange(4.0, dtype=np.float32)[::-1].copy()

def step(a, b):
    print("traced")
    return jnp.linalg.solve(a, b), jnp.linalg.eigh(a)[0], jnp.linalg.svd(a)[1]
"""
)
SORTING = (
    PLAIN
    + """
def arguments():
    return (np.asarray([3.0, 1.0, 2.0], np.float32),)

def step(x):
    print("traced")
    return jnp.sort(x), jnp.argsort(x), jnp.median(x), jax.lax.top_k(x, 2)
"""
)
FLOAT_KEYS = """
def show(result):
    return repr(jax.tree.map(lambda leaf: leaf.tolist(), result))

def arguments():
    return ({0.5: jnp.ones(2), -1.25: {2: jnp.zeros(2), 10: None}},)

def step(tree):
    print("traced")
    return {1.5: tree[0.5] + 1, 0.25: [tree[-1.25][2], {(1, 2.0): tree[0.5]}]}
"""
LAZY_NODES = """
import dataclasses

@dataclasses.dataclass
class Point:
    x: object
    y: object

@dataclasses.dataclass
class Outcome:
    value: object
    name: str = ""

def register(cls, fields, meta=()):
    with contextlib.suppress(ValueError):  # it is
        jax.tree_util.register_dataclass(cls, fields, meta)

def show(result):
    return [type(result).__name__, type(result.value).__name__, result.name]

def arguments():
    register(Point, ["x", "y"])
    register(Outcome, ["value"], ["name"])
    return (Point(jnp.ones(2), jnp.arange(2.0)),)

def step(point):
    print("traced")
    return Outcome(Point(point.x * 2, point.y + 1), "moved")
"""
LATE_NODES = LAZY_NODES.replace('    register(Outcome, ["value"], ["name"])\n', "").replace(
    '("traced")\n', '("traced")\n    register(Outcome, ["value"], ["name"])\n'
)
UNSTABLE_HASHES = """
import enum

class Kind(enum.Enum):
    ONE, TWO = "one", "two"

@jax.tree_util.register_pytree_node_class
class Node:
    def __init__(self, children, names):
        self.children, self.names = children, names

    def tree_flatten(self):
        return self.children, self.names

    @classmethod
    def tree_unflatten(cls, names, children):
        return cls(children, names)

NAMES = (frozenset({"a", "bb", "ccc", "dddd"}), "text", None, Kind.TWO, ("x", 1.5))

def show(result):
    return [sorted(result.names[0]), str(result.names[1:])]

def arguments():
    return (Node((jnp.ones(2), {"z": jnp.zeros(1), "a": jnp.ones(1)}), NAMES),)

def step(node):
    print("traced")
    return Node((node.children[0] + len(node.names[0]), node.children[1]), node.names)
"""

OBJECTS = """
import functools, typing

@functools.partial(jax.tree_util.register_dataclass, data_fields=["value"], meta_fields=["beside"])
class Node:
    def __init__(self, value, beside):
        self.value, self.beside = value, beside

class Scale:
    def __init__(self, factor):
        self.factor = factor

    def times(self, x):
        return x * self.factor

class Pair(typing.NamedTuple):
    first: object
    second: object

def adding(k):
    calls = []
    def add(x):
        calls.append(x)
        return x + k, len(calls)
    return add

def pair(k):
    def up(x): return x + k
    def down(x): return x - k
    return Pair(up, down)

KNOWN, ADD = Scale(2), adding(3)

def show(result):
    known, add, made, power, both, again = result.beside
    same = known.__self__ is KNOWN, add is ADD, again is made
    return [*same, made(1), made(1), power(3), both.first(1), both.second(1)]

def arguments():
    return (jnp.ones(2),)

def step(x):
    print("traced")
    made, both = adding(5), pair(7)
    return Node(x * 2, (KNOWN.times, ADD, made, functools.partial(pow, 2), both, made))
"""
HELD_ELSEWHERE = OBJECTS.replace("    calls = []\n", "    LISTS.append(calls := [])\n").replace(
    "KNOWN, ADD =", "LISTS = []\nKNOWN, ADD ="
)
TRACERS = OBJECTS.replace(
    "adding(5), pair(7)", "adding(5), pair(7)\n    both = Pair(lambda y: y + len(x), lambda y: y)"
)


def said(program: str, root: Path, **env: object) -> Any:
    return run(HEAD + program + TAIL, root, env=env).value


SEEDED = """
import json, random, sys
import jcache
jcache.enable(sys.argv[1], strict=True)
import jax, jax.numpy as jnp, numpy as np
random.seed(1)
np.random.seed(0)

@jcache.graph
def order(n):
    return np.random.permutation(n)

@jcache.jit
def noisy(x):
    return x + np.random.normal(size=2)

@jcache.jit
def scaled(x):
    return x * random.random()

@jcache.jit
def seeded(x):
    random.seed(3)
    np.random.seed(3)
    return x * random.random() + np.random.normal()

own, alone, count = np.random.default_rng(1), np.random.default_rng(2), 0

@jcache.jit
def shared(x):
    return x + own.normal()

@jcache.jit
def alone_drawn(x):
    return x + alone.normal()

@jcache.jit
def counted(x):
    global count
    count += 1
    return x + count

@jcache.jit
def outer(x):
    return shared(x) + own.normal()

drawn = [order(5).tolist(), order(5).tolist(), noisy(jnp.zeros(2)).tolist(), float(scaled(1.0)), float(seeded(1.0))]
drawn += [float(outer(1.0)), float(shared(1.0)), float(alone_drawn(1.0)), float(jax.jit(lambda x: -shared(x))(1.0))]
drawn += [float(counted(1.0)), float(jax.grad(lambda x: counted(x) * x)(1.0)), count, alone.normal(), own.normal()]
hits = sorted(each.name for each in jcache.stats().traces.calls if each.outcome == "hit")
print(json.dumps([[drawn, np.random.normal(), random.random()], hits]))
"""
ALIKE = (
    PLAIN
    + """
class Equal:
    def __init__(self, n):
        self.n = n
    def __eq__(self, other):
        return True
    def __hash__(self):
        return 1

@jax.tree_util.register_pytree_node_class
class Node:
    def __init__(self, x, more):
        self.x, self.more = x, more
    def tree_flatten(self):
        return (self.x,), self.more
    @classmethod
    def tree_unflatten(cls, more, children):
        return cls(children[0], more)

ONE, OTHER = Equal(1), Equal(2)

def show(node):
    return node.more.n

def arguments():
    return (Node(jnp.zeros(2), ONE),)

def step(node):
    print("traced")
    return Node(node.x, OTHER)
"""
)


def check_clean(root: Path) -> None:
    with Store(open_root(root)) as store:
        assert not verify(store, VerifyRequest(grace_ns=0)).findings


@pytest.mark.parametrize("program", [LINEAR_ALGEBRA, SORTING], ids=["LAPACK", "sorting"])
def test_executables_that_are_hard_to_keep(tmp_path: Path, program: str) -> None:
    """LAPACK is there for who never lowered any of it, and what sorts is kept before it first runs, in both tiers."""
    root = tmp_path / "root"
    cold = said(program, root)
    assert (cold["traced"], cold["hit"]) == (1, True)
    assert said(program, root) == cold | {"traced": 0}
    shutil.rmtree(open_root(root).directory(Kind.EXECUTABLES))
    assert said(program, root) == cold | {"traced": 0}  # from the stored program
    assert said(program, root) == cold | {"traced": 0}
    check_clean(root)


@pytest.mark.parametrize(
    "program", [FLOAT_KEYS, LAZY_NODES, UNSTABLE_HASHES], ids=["float keys", "lazy nodes", "unstable hashes"]
)
def test_structures_that_are_hard_to_keep(tmp_path: Path, program: str) -> None:
    """Dictionaries have any keys, classes are registered late, and no hash of one process means anything in another."""
    root = tmp_path / "root"
    cold = said(program, root, PYTHONHASHSEED=1)
    assert cold["traced"] == 1
    assert cold["hit"] is True
    for seed in (2, 3):  # each is a world of its own, with the same program
        assert said(program, root, PYTHONHASHSEED=seed) == cold
        assert said(program, root, PYTHONHASHSEED=seed) == cold | {"traced": 0}
    check_clean(root)


@pytest.mark.whole
def test_objects_beside_the_leaves_of_a_result_are_made_again(tmp_path: Path) -> None:
    """What the function reaches by a name is itself; what it has made is made once, with its closures and state."""
    root = tmp_path / "root"
    cold = said(OBJECTS, root)
    assert (cold["traced"], cold["hit"]) == (1, True)
    assert cold["shown"] == [True, True, True, [6, 1], [6, 2], 8, 8, -6]
    assert said(OBJECTS, root) == cold | {"traced": 0}
    check_clean(root)


@pytest.mark.parametrize("program", [HELD_ELSEWHERE, TRACERS], ids=["held elsewhere", "tracers"])
def test_objects_that_a_later_process_would_not_have_are_no_reason_to_fail(tmp_path: Path, program: str) -> None:
    """A list that something else holds, too, and a closure over a tracer: such a function is traced each time."""
    for _ in range(2):
        assert said(program, tmp_path / "root")["traced"] == 1
    check_clean(tmp_path / "root")


def test_a_generator_that_the_program_has_seeded_goes_on_as_without_jcache(tmp_path: Path) -> None:
    """A trace is served with the state in which its generator is left; a graph that draws is built each time."""
    cold, _ = run(SEEDED, tmp_path / "root").value
    for start in range(3):
        drawn, hits = run(SEEDED, tmp_path / "root").value
        assert drawn == cold
        assert hits == sorted(["alone_drawn", "shared"] + ["noisy", "scaled", "seeded"] * (start > 0))
    check_clean(tmp_path / "root")


def test_an_object_that_only_calls_itself_equal_to_one_of_an_argument_is_another(tmp_path: Path) -> None:
    """By its own ``__eq__`` it is the same; by its content it is not."""
    for traced in (1, 0):
        told = said(ALIKE, tmp_path / "root")
        assert (told["traced"], told["shown"]) == (traced, 2)
    check_clean(tmp_path / "root")


def test_a_class_that_only_tracing_registers(tmp_path: Path) -> None:
    """Who has not traced does not know the class, so it is traced in each process, and returned all the same."""
    root = tmp_path / "root"
    cold = said(LATE_NODES, root)
    assert (cold["traced"], cold["shown"]) == (1, ["Outcome", "Point", "moved"])
    for _ in range(2):
        assert said(LATE_NODES, root) | {"hit": None} == cold | {"hit": None}
    check_clean(root)


@pytest.mark.full
@pytest.mark.smoke(since="0.6")
def test_nothing_of_jax_export_is_needed(tmp_path: Path) -> None:
    """jax does not install `flatbuffers`, which `jax.export` needs to serialize; traces are kept and served without."""
    without = "import sys; sys.modules['flatbuffers'] = None\n"
    program = HEAD + SORTING + TAIL
    cold = run(without + program, tmp_path / "root").value
    assert (cold["traced"], cold["hit"]) == (1, True)
    assert run(without + program, tmp_path / "root").value == cold | {"traced": 0}


COLLECTING = """
import gc
began = []
gc.callbacks.append(lambda phase, info: began.append(tracing) if phase == "start" else None)
tracing = False

def show(result):
    return [began.count(True), gc.isenabled()]

def arguments():
    return (jnp.ones(3),)

def step(x):
    global tracing
    print("traced")
    tracing = True
    kept = [[] for _ in range(100_000)]  # with the collector on, many collections
    tracing = False
    return x + 1
"""


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_no_garbage_is_collected_while_tracing(tmp_path: Path, before: str) -> None:
    """Which takes a third of the time and finds nothing; afterwards the collector is as it was."""
    shown = said(COLLECTING.replace("tracing = False\n", f"tracing = False\ngc.{before}()\n", 1), tmp_path / "root")
    assert shown["shown"] == [0, before == "enable"]


AFTERWARDS = (
    PLAIN
    + """
import gc

def show(result):
    return gc.isenabled()

def arguments():
    return (jnp.ones(3),)

def step(x):
    print("traced")
    return x * 2
"""
)
FAILING = (
    AFTERWARDS
    + """
def failing(x):
    raise ValueError(gc.isenabled())

with contextlib.suppress(ValueError):
    jcache.jit(failing)(jnp.ones(3))
"""
)


@pytest.mark.parametrize("program", [AFTERWARDS, FAILING], ids=["hit", "error"])
def test_the_collector_is_on_afterwards(tmp_path: Path, program: str) -> None:
    """It is after a miss, a hit, and a function that raises."""
    assert [said(program, tmp_path / "root")["shown"] for _ in range(2)] == [True, True]
