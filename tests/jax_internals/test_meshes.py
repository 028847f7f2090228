"""Functions that have a mesh of devices, for `with_sharding_constraint` and `shard_map`, start warm as well."""

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

PROGRAM = """
import contextlib, io, json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map
import jcache

root, change = sys.argv[1:]
jcache.enable(root, strict=True)
devices, names, spec = np.array(jax.devices()).reshape(2, 2), ("a", "b"), P(None, "b")
exec(change)
mesh = Mesh(devices, names)
inner = NamedSharding(mesh, spec)
x = jax.device_put(jnp.arange(16.0).reshape(4, 4), NamedSharding(mesh, P(names[0])))

def constrained(x):
    print("traced")
    return jax.lax.with_sharding_constraint(x * 2, inner) + 1

def mapped(x):
    print("traced")
    total = shard_map(lambda y: jax.lax.psum(y, names[0]), mesh=mesh, in_specs=P(names[0]), out_specs=P())(x)
    return total, x.sum()

def unplaced(x):
    print("traced")
    return jax.lax.with_sharding_constraint(x * 3, inner)

def from_nothing():
    print("traced")
    return jax.lax.with_sharding_constraint(jnp.arange(16.0).reshape(4, 4), inner), jax.random.key(0)

said = {}
for function, *given in ((constrained, x), (mapped, x), (unplaced, np.asarray(x)), (from_nothing,)):
    jitted = jcache.jit(function)
    before = jitted.explain(*given)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = jitted(*given)
    traced = printed.getvalue().count("traced")
    expected = jax.jit(function)(*given)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), result, expected))
    assert jax.tree.map(lambda leaf: leaf.sharding, result) == jax.tree.map(lambda leaf: leaf.sharding, expected)
    said[function.__name__] = [traced, before.hit or str(before.changes or before.reason)]
print(json.dumps(said))
"""
FOUR = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
FUNCTIONS = ("constrained", "mapped", "unplaced", "from_nothing")


def said(root: Path, change: str = "") -> Any:
    return run(PROGRAM, root, change, env=FOUR).value


def test_a_mesh_is_part_of_the_key(tmp_path: Path) -> None:
    """A second process does not trace; with other axes, devices or partitions it does, and says what has changed.

    The same holds if an argument lies on no device in particular, and the function moves it to the mesh.
    """
    root = tmp_path / "root"
    nothing = f"nothing of this name is in {root}"
    assert said(root) == {name: [1, nothing] for name in FUNCTIONS}
    assert said(root) == {name: [0, True] for name in FUNCTIONS}
    shutil.rmtree(open_root(root).directory(Kind.EXECUTABLES))  # from the stored programs, once
    for _ in range(2):
        assert said(root) == {name: [0, True] for name in FUNCTIONS}
    with Store(open_root(root)) as store:
        assert not verify(store, VerifyRequest(grace_ns=0)).findings


@pytest.mark.parametrize(
    ("change", "label", "of_both"),
    [
        ('spec = P("b", None)', "global inner", False),
        ('spec = P(("a", "b"))', "global inner", False),
        ("devices = devices[::-1]", "global mesh", True),
        ("devices = devices.reshape(4, 1)", "global mesh", True),
        ('names = ("c", "b")', "global mesh", True),
    ],
)
def test_what_changes_a_mesh_is_a_miss(tmp_path: Path, change: str, label: str, of_both: bool) -> None:
    """Other partitions, another order of devices, and another shape or other names of axes are misses."""
    root = tmp_path / "root"
    said(root)
    found = said(root, change)
    assert found["constrained"][0] == 1 and "global inner" in found["constrained"][1]
    assert found["mapped"][0] == 1 and (not of_both or label in found["mapped"][1])
    again = said(root, change)
    assert again["constrained"] == again["mapped"] == [0, True]
    assert said(root)["constrained"] == [0, True]


SPELLED = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import jcache
jcache.enable(sys.argv[1], strict=True)
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))

def same(x): return x + 1
def transposed(x): return x.T, x.sum(0), jnp.zeros((4, 4))

x = jax.device_put(jnp.arange(16.0).reshape(4, 4), NamedSharding(mesh, eval(sys.argv[2])))
for function in (same, transposed):
    results, expected = (jax.tree.leaves(jit(function)(x)) for jit in (jcache.jit, jax.jit))
    for result, other in zip(results, expected, strict=True):
        assert (result.sharding, str(result.sharding.spec)) == (other.sharding, str(other.sharding.spec))
        assert result.tolist() == other.tolist()
print(json.dumps([call.outcome for call in jcache.stats().traces.calls]))
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [("P('a')", "P('a', None)"), ("P('a', None)", "P('a')"), ("P()", "P(None)"), ("P(None, None)", "P()")],
)
def test_a_sharding_is_spelled_as_with_jax_jit(tmp_path: Path, first: str, second: str) -> None:
    """A result's sharding is written as that of the argument, however an earlier process wrote it."""
    stored, _, hit = (set(run(SPELLED, tmp_path / "root", spec, env=FOUR).value) for spec in (first, second, second))
    assert (stored, hit) == ({"stored"}, {"hit"})
