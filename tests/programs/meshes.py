"""Functions that are called under meshes in effect, chosen at random: under `jax.jit`, or under `jcache.jit`.

python tests/programs/meshes.py jax|jcache DIRECTORY SEED FUNCTIONS

Each function is called in two contexts. Prints JSON: for each call its results (bytes, type, sharding, devices,
whether it is committed) or its error, how often the function was traced, and what `explain` says.
"""

import contextlib
import functools
import io
import itertools
import json
import os
import random
import sys
import types
import warnings

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

SIZE = 8


def product(x, y):
    print("traced")
    return jnp.sin(x) @ y


def constrained(x, y):
    print("traced")
    return jax.lax.with_sharding_constraint(jnp.cos(x), P("x", None)) @ y


def several(x, y):
    print("traced")
    return {"made": jnp.ones((SIZE, SIZE)).at[0].set(3.0), "sum": x.sum(), "given": y}


def mapped(x, y):
    print("traced")

    def summed(a, b):
        return jax.lax.psum(a.sum() + b.sum(), ("x", "y"))

    return jax.shard_map(summed, in_specs=(P("x", "y"), P("x", "y")), out_specs=P())(x, y)


def resharded(x, y):
    print("traced")
    return jax.sharding.reshard(x * 2, P(None, "y")) + y


def differentiated(x, y):
    print("traced")
    return jax.grad(lambda a: (jnp.tanh(a) @ y).sum())(x), jax.vmap(jnp.dot)(x, y)


def scanned(x, y):
    print("traced")
    return jax.lax.scan(lambda carry, row: (carry + row, carry * row), jnp.zeros(SIZE), x), y[0]


def drawn(x, y):
    print("traced")
    return jax.random.normal(jax.random.key(0), (SIZE, SIZE)) + x - y


def naming(x, y):
    """Asks for the mesh."""
    print("traced")
    abstract = getattr(jax.sharding, "get_abstract_mesh", lambda: "")()
    return x.sum() * len(str(abstract)) + y


def nested(x, y):
    print("traced")
    return jax.jit(constrained)(x, jax.jit(lambda a: a * 2)(y))


FUNCTIONS = (product, constrained, several, mapped, resharded, differentiated, scanned, drawn, naming, nested)
OPTIONS = ({}, {"out_shardings": P("x")}, {"in_shardings": (P("x"), P("y"))}, {"donate_argnums": 0})


def meshes():
    """Return meshes of the same axes, by kind; a JAX without kinds of axes has but one kind."""
    grid = np.array(jax.devices()).reshape(2, 2)
    made = {"plain": Mesh(grid, ("x", "y")), "reversed": Mesh(grid[::-1, ::-1], ("x", "y"))}
    if kinds := getattr(jax.sharding, "AxisType", None):
        made["explicit"] = Mesh(grid, ("x", "y"), axis_types=(kinds.Explicit,) * 2)
        made["mixed"] = Mesh(grid, ("x", "y"), axis_types=(kinds.Explicit, kinds.Auto))
    return made


def contexts(made):
    """Return functions that put a mesh in effect, by name."""
    found = {"none": contextlib.nullcontext}
    for name, mesh in made.items():
        if name in {"plain", "reversed"}:
            found[f"with {name}"] = lambda mesh=mesh: mesh
        for setter in ("set_mesh", "use_mesh"):
            if put := getattr(jax, setter, getattr(jax.sharding, setter, None)):
                found[f"{setter} {name}"] = lambda mesh=mesh, put=put: put(mesh)
        if put := getattr(jax.sharding, "use_abstract_mesh", None):
            found[f"abstract {name}"] = lambda mesh=mesh, put=put: put(mesh.abstract_mesh)
    return found


def places(made):
    """Return functions that put an array somewhere, by name."""
    there = {"last device": jax.devices()[3], "plain": NamedSharding(made["plain"], P("x", "y"))}
    if "explicit" in made:
        there["explicit"] = NamedSharding(made["explicit"], P("x", None))
    found = {name: functools.partial(jax.device_put, device=place) for name, place in there.items()}
    return found | {"host": lambda x: x, "any device": jnp.asarray}


def described(value):
    """Return all that a result is, as JSON can have it."""
    bits = np.asarray(value).tobytes().hex()
    devices = sorted(device.id for device in value.sharding.device_set)
    return [bits, str(value.aval), str(value.sharding), devices, value._committed]


def calls(jit, name, function, place, options, contexts):
    """Return for a call in each context its results, how often it was traced, and the explanation."""
    own = types.FunctionType(function.__code__, globals(), name)  # no two functions share what JAX or jcache keeps
    own.__qualname__, own.__module__ = name, function.__module__
    step = jit(own, **options)
    values = np.arange(2.0 * SIZE * SIZE, dtype=np.float32).reshape(2, SIZE, SIZE) / 100
    for context in contexts:
        traced, why = 0, None
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                with context():
                    results = jax.tree_util.tree_map(described, step(*map(place, values)))
                    traced = printed.getvalue().count("traced")
                    why = str(step.explain(*map(place, values))) if hasattr(step, "explain") else None
            except Exception as error:  # noqa: BLE001 - an error is compared, too
                results = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        yield results, traced, why


def main():
    whose, directory, seed, count = sys.argv[1:]
    warnings.simplefilter("ignore")
    jit = jax.jit
    if whose == "jcache":
        import jcache

        jcache.enable(directory, strict=True)
        jit = jcache.jit
    made = meshes()
    in_effect, somewhere, chance = contexts(made), places(made), random.Random(int(seed))
    chosen = list(itertools.product(in_effect, FUNCTIONS, somewhere, OPTIONS))
    chance.shuffle(chosen)
    said = {}
    for number, (context, function, place, options) in enumerate(chosen[: int(count)]):
        name, both = f"{function.__name__}_{number}", (context, chance.choice(list(in_effect)))
        done = calls(jit, name, function, somewhere[place], options, map(in_effect.get, both))
        for which, where, each in zip(("first", "then"), both, done, strict=True):
            said[f"{name}, {place}, {options}, {which} {where}"] = each
    print(json.dumps(said))


if __name__ == "__main__":
    main()
