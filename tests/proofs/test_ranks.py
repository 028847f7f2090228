"""Calls on devices of several processes: as with JAX, warm, and traced by all processes or by none."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from jcache.layout import Kind
from jcache.store.roots import open_root
from tests.conftest import version_of
from tests.helpers.ranks import run_ranks
from tests.runtime.test_enable import clean

pytestmark = [
    pytest.mark.jax,
    pytest.mark.full,
    pytest.mark.skipif(version_of("jax") < [0, 6], reason="it stores no trace without absl"),
]
PROGRAM = """
import contextlib, io
from functools import partial
import jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
whose, root = sys.argv[1:3]
if whose == "jax":
    jit = jax.jit
else:
    import jcache
    from jcache.jax_internals import rank_votes
    rank_votes._PATIENCE_S = 30.0  # on a busy machine
    jcache.enable(root, write="all", strict=True)
    jit = jcache.jit
mesh = Mesh(np.array(jax.devices()), ("d",))
split, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())
place = lambda value, where: jax.make_array_from_callback(value.shape, where, lambda index: value[index])
x = place(np.arange(8, dtype=np.float32) / 8, split)
w = place(np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8), whole)

@jit
def total(x):
    print("traced", "total")
    return jnp.sin(x).sum() * x

@jit
def step(w, x):
    print("traced", "step")
    value, slope = jax.value_and_grad(lambda w: ((w @ x - 1) ** 2).mean())(w)
    return value, {"w": w - 0.1 * slope}

@partial(jit, static_argnames="times")
def often(x, *, times):
    print("traced", "often")
    return jax.lax.scan(lambda carry, _: (carry * 0.9 + carry.sum(), carry[0]), x, None, length=times)

@partial(jit, donate_argnums=0)
def given_away(y):
    print("traced", "given_away")
    return y * 2 + y.max()

@partial(jit, out_shardings=split)
def made(seed):
    print("traced", "made")
    return jax.random.normal(jax.random.PRNGKey(seed), (8,))

@partial(jit, in_shardings=(whole, split), out_shardings=whole)
def placed(w, x):
    print("traced", "placed")
    return w @ x

@partial(jit, static_argnames="log")
def logged(x, log):
    print("traced", "logged")
    return x.sum()

@jit
def constrained(scale):
    print("traced", "constrained")
    return jax.lax.with_sharding_constraint(jnp.arange(8.0) * scale, split)

@jit
def ranked(y):
    print("traced", "ranked")
    return y * (1 + jax.process_index())

@jit
def ranked_by_devices(y):
    from jax import local_devices
    print("traced", "ranked_by_devices")
    return y + local_devices()[0].id

@jit
def alone(y):
    print("traced", "alone")
    return y * 3 - y.min()

def plain(value):
    return [np.asarray(shard.data).tolist() for leaf in jax.tree.leaves(value) for shard in leaf.addressable_shards]

results = {}
with contextlib.redirect_stdout(io.StringIO()) as printed:
    results |= {
        "total": plain(total(x)),
        "step": plain(step(w, x)),
        "often": plain(often(x, times=3)) + plain(often(x, times=4)),
        "given_away": plain(given_away(place(np.ones(8, np.float32), split))),
        "made": plain(made(7)),
        "placed": plain(placed(w, x)),
        "logged": plain(logged(x, log=rank == 0)),
        "constrained": plain(constrained(2.0)),
        "ranked": plain(ranked(np.ones(3, np.float32))),
        "ranked_by_devices": plain(ranked_by_devices(np.ones(3, np.float32))),
    }
    if rank == int(sys.argv[3]):
        results["alone"] = plain(alone(np.arange(4, dtype=np.float32)))
print(json.dumps([results, printed.getvalue().split()[1::2]]))
"""
ALWAYS_TRACED = {"constrained"}  # neither arguments nor options tell that its devices belong to several processes
SHARED = {"total", "step", "often", "given_away", "made", "placed", "logged"}


def started(whose: str, roots: list[Path], alone: int, *words: str) -> list[Any]:
    """Return for each rank its results and the functions that it has traced; one rank calls one function alone."""
    return run_ranks(PROGRAM, [(whose, root, alone, *words) for root in roots])


def damage(root: Path, chance: Random) -> None:
    """Remove some entries of a rank, and change a byte of others; what nobody reads stays damaged."""
    places = [open_root(root).directory(kind) for kind in (Kind.TRACES, Kind.EXECUTABLES)]
    for path in sorted(path for place in places for path in place.iterdir() if path.is_file()):
        act = chance.choice(["nothing"] * 8 + ["remove", "change"])
        if path.name.endswith("-atime") or path.stat().st_size == 0:
            continue
        if act == "remove":
            path.unlink()
        elif act == "change":
            data = bytearray(path.read_bytes())
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.chmod(0o600)
            path.write_bytes(data)


def test_ranks_with_a_root_each(tmp_path: Path, chance: Random, full: bool) -> None:
    """Whatever is lost or damaged on one of them, both have JAX's results, and both trace a function or none does.

    Three starts later, none traces it.
    """
    roots = [tmp_path / "a", tmp_path / "b"]
    expected = started("jax", roots, 1)
    cold, warm = started("jcache", roots, 1), started("jcache", roots, 1)
    assert [each[0] for each in cold] == [each[0] for each in warm] == [each[0] for each in expected]
    assert [set(each[1]) for each in warm] == [ALWAYS_TRACED, ALWAYS_TRACED]
    for number in range(20 if full else 2):
        for root in roots if number % 2 else roots[1:]:
            damage(root, chance)
        damaged = started("jcache", roots, 1)
        assert [each[0] for each in damaged] == [each[0] for each in expected]
        one, other = (set(each[1]) & SHARED for each in damaged)
        assert one == other
        later = [started("jcache", roots, 1) for _ in range(3)]  # one mends traces, the next one their programs
        assert [set(each[1]) for each in later[-1]] == [ALWAYS_TRACED, ALWAYS_TRACED]


@pytest.mark.contract
def test_ranks_with_one_root(tmp_path: Path) -> None:
    """The second start is served if both have the same command, and a rank that calls a function alone never waits.

    With a command each, the processes are compared first, and the third start is served.
    """
    roots = [tmp_path / "root"] * 2
    expected = started("jax", roots, 0)
    for alone, words in ((0, ()), (1, ("--fast",))):
        for number in range(2):
            found = started("jcache", roots, alone, *words)
            assert found[0][0].items() <= {**expected[0][0], "alone": found[0][0].get("alone")}.items()
            assert not SHARED & {*found[0][1], *found[1][1]} or number == 0
    clean(roots[0])
