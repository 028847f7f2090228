"""Types of results that name a mesh, as JAX gives them to functions of arguments with `Explicit` axes."""

import json
from pathlib import Path
from typing import Any

import pytest

from jcache.errors import DamagedEntry
from jcache.jax_internals.avals import Axes, Place, Result
from jcache.traces.format import Trace
from tests.helpers.jax_programs import run

real = pytest.mark.jax
FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}

BEGINNING = """
import json, os, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import jcache

root, sizes, kinds, *change = sys.argv[1:]
if jax.__version_info__ < (0, 6):
    print(json.dumps(None))
    raise SystemExit
jcache.enable(root, strict=True)
sizes = json.loads(sizes)
names = ("a", "b")[: len(sizes)]
devices = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
if change == ["devices"]:
    devices = np.flip(devices)
kinds = tuple(getattr(jax.sharding.AxisType, kind) for kind in json.loads(kinds))
mesh = Mesh(devices, names, axis_types=kinds)

def at(*spec, **more):
    return NamedSharding(mesh, P(*spec), **more)

def put(spec, array=None):
    return jax.device_put(jnp.arange(16.0).reshape(4, 4) if array is None else array, spec)

def told(result):
    leaves, structure = jax.tree.flatten(result)
    kinds = [(leaf.sharding, jax.typeof(leaf), leaf.committed) for leaf in leaves]
    data = [jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf for leaf in leaves]
    return structure, kinds, [np.asarray(each).tolist() for each in data]
"""

CALLS = """
def double(x): return x * 2
def total(x): return (x**2).sum()
def several(x, w): return {"x": x, "w": [x + 1, w.T], "n": x > 3, "zeros": jnp.zeros(3), "key": jax.random.key(1)}
def product(x, w): return x @ w, x.mean(0)
def scanned(x, w): return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), c.sum()), x, length=3)
def slope(w, x): return jax.grad(lambda w: jnp.tanh(x @ w).sum())(w)
def moved(x): return jax.device_put(x, at(None, names[-1]))
def opened(keys): return keys, jax.random.key_data(keys)
fixed = put(at(names[-1]), jnp.arange(4.0))
def constant(x): return x * 2, fixed, fixed + 1

x, w, keys = put(at("a")), put(at()), put(at("a"), jax.random.split(jax.random.key(0), 4))
calls = [(double, x), (total, x), (several, x, w), (product, x, w), (scanned, x, w), (slope, w, x), (moved, x),
         (opened, keys), (constant, x)]
promised = []
for function, *given in calls:
    jitted = jcache.jit(function, check=os.environ.get("CHECK", "never"))
    promised.append(jitted.explain(*given).hit)
    assert told(jitted(*given)) == told(jax.jit(function)(*given)), function
    assert told(jitted(*given)) == told(jax.jit(function)(*given)), function

def chained(jit):
    twice, whole, multiplied = jit(double), jit(total), jit(product)
    return [whole(multiplied(twice(x), w)[0]), jax.jit(lambda x: twice(x) + 1)(x), jax.vmap(twice)(x),
            jax.jit(jax.grad(lambda x: whole(twice(x))))(x)]

assert told(chained(jcache.jit)) == told(chained(jax.jit))
traces = jcache.stats().traces
print(json.dumps([promised, [call.outcome for call in traces.calls if call.outcome != "bypassed"], traces.compared,
                  traces.differing]))
"""

REFUSED = """
def own(x): return jax.device_put(x, at("a"))
def hosted(x): return jax.device_put(x, at("a", memory_kind="pinned_host"))
jitted = jcache.jit({"own": own, "hosted": hosted}[change[0]])
given = np.arange(16.0) if change == ["own"] else put(at("a"), jnp.arange(16.0))
try:
    jitted(given)
except ValueError:  # this JAX has no such memory here
    print(json.dumps(None))
else:
    explained = jitted.explain(given)
    print(json.dumps([[call.outcome for call in jcache.stats().traces.calls], explained.hit, explained.reason]))
"""

CONSTANT = """
fixed = put(at("a") if change == ["a"] else at(), jnp.arange(4.0))
def constant(x): return x * 2, fixed, fixed + 1
given = put(at(), jnp.arange(4.0))
assert told(jcache.jit(constant)(given)) == told(jax.jit(constant)(given))
print(json.dumps([call.outcome for call in jcache.stats().traces.calls]))
"""


def said(
    program: str, root: Path, sizes: tuple[int, ...], kinds: tuple[str, ...], *change: str, env: Any = FOUR
) -> Any:
    told = run(BEGINNING + program, root, json.dumps(sizes), json.dumps(kinds), *change, env=env).value
    if told is None:
        pytest.skip("this JAX cannot")
    return told


@real
@pytest.mark.parametrize(
    ("sizes", "kinds", "env"),
    [
        ((1,), ("Explicit",), {}),
        ((4,), ("Explicit",), FOUR),
        ((2, 2), ("Explicit", "Explicit"), FOUR),
        ((2, 2), ("Explicit", "Auto"), FOUR),
    ],
)
def test_results_on_a_mesh_are_what_jax_jit_gives(
    tmp_path: Path, sizes: tuple[int, ...], kinds: tuple[str, ...], env: Any
) -> None:
    """A second process hits with the same values, types, shardings and committedness, and tracing again agrees."""
    promised, outcomes, *_ = said(CALLS, tmp_path / "root", sizes, kinds, env=env)
    assert not any(promised) and set(outcomes[: len(promised)]) == {"stored"}
    promised, outcomes, *_ = said(CALLS, tmp_path / "root", sizes, kinds, env=env)
    assert all(promised) and set(outcomes) == {"hit"}
    promised, outcomes, compared, differing = said(
        CALLS, tmp_path / "root", sizes, kinds, env={**env, "CHECK": "always"}
    )
    assert compared >= len(promised) and differing == 0


@real
def test_other_devices_of_a_mesh_have_the_trace_too(tmp_path: Path) -> None:
    """For the same mesh with its devices in another order, the same traces have other executables."""
    root, kinds = tmp_path / "root", ("Explicit", "Explicit")
    said(CALLS, root, (2, 2), kinds)
    _, outcomes, *_ = said(CALLS, root, (2, 2), kinds, "devices")
    assert outcomes.count("hit") >= len(outcomes) - 2  # `moved` names the mesh itself, and `fixed` is the same


@real
def test_where_a_constant_lies_is_part_of_the_key(tmp_path: Path) -> None:
    """A constant that is divided in another way gives results of other types, so the key is another one."""
    outcomes = [said(CONSTANT, tmp_path, (4,), ("Explicit",), spec)[0] for spec in ("a", "", "a", "")]
    assert outcomes == ["stored", "stored", "hit", "hit"]


@real
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("own", "it names a mesh whose axes are not all `Auto`, and none of its arguments lies on that mesh"),
        ("hosted", "it returns arrays whose types say more than shape, dtype and mesh"),
    ],
)
def test_what_cannot_be_told_of_types_is_refused_at_once(tmp_path: Path, name: str, reason: str) -> None:
    """If jcache cannot describe a type, the first process says so, stores nothing, and promises no hit."""
    assert said(REFUSED, tmp_path, (4,), ("Explicit",), name) == [["not_stored"], False, reason]


def test_a_trace_is_read_as_it_was_written() -> None:
    """A type without a mesh is written as three fields, as before types had meshes."""
    place = Place(Axes(("a", "b"), (2, 2), ("Explicit", "Auto")), (("a", "b"), None, "a"))
    results = (Result((3,), "float32", is_weak=False), Result((4, 1, 2), "int8", is_weak=True, place=place))
    trace = Trace((0, 2), results, ["*"], ("target",))
    written = json.loads(trace.payload())
    assert written["results"][0] == [[3], "float32", False]
    assert Trace.of(memoryview(trace.payload())) == trace


@pytest.mark.parametrize(
    "place",
    [
        [],
        1,
        [[["a"], [2]], ["a"]],
        [[["a"], ["2"], ["Auto"]], ["a"]],
        [[["a"], [2], [3]], []],
        [[["a"], [2], ["Auto"]], [1]],
    ],
)
def test_a_trace_with_another_grammar_is_damaged(place: Any) -> None:
    """Meshes and specs that do not follow the grammar are damage."""
    trace = json.loads(Trace((), (), ["*"], ()).payload()) | {"results": [[[4], "float32", False, place]]}
    with pytest.raises(DamagedEntry):
        Trace.of(memoryview(json.dumps(trace).encode()))
