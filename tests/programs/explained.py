"""A program whose keys a test changes, one thing at a time: python tests/programs/explained.py [CHANGE].

It makes its arrays by numpy, so that JAX compiles three programs, whatever their dtypes and shapes are.
"""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

CHANGE = sys.argv[1] if len(sys.argv) > 1 else ""
SIZE = 61 if CHANGE == "shape" else 64
DTYPE = {"dtype": np.float16, "x64": np.float64}.get(CHANGE, np.float32)
CAPTURED = np.arange(8, dtype=np.float32) + (CHANGE == "captured constant")

if CHANGE == "x64":
    jax.config.update("jax_enable_x64", True)
if CHANGE == "matmul precision":
    jax.config.update("jax_default_matmul_precision", "highest")


def helper(x):
    return jnp.sin(x) * 2


def helper_v2(x):
    return jnp.sin(x) * 2


def ordered():
    """Return operations in an order that depends on the hash seed, as programs do that iterate a set."""
    return [getattr(jnp, name) for name in {"sin", "cos", "tan", "exp", "tanh", "sinh", "cosh", "arctan", "log1p"}]


inner = jax.jit(helper_v2 if CHANGE == "renamed helper" else helper)


@partial(jax.jit, static_argnames="layers", donate_argnames="batch" if CHANGE == "donation" else None)
def step(weights, batch, scale, layers=2):
    for _ in range(layers):
        batch = jnp.tanh(inner(batch) @ weights) * scale + CAPTURED[: weights.shape[0]].astype(batch.dtype)
    return batch


@jax.jit
def loss(weights):
    total = weights * (3 if CHANGE == "code" else 2)
    for operation in ordered() if CHANGE == "set" else ():
        total = operation(total)
    return total


@jax.jit
def norm(weights):
    return jnp.sqrt(weights * weights)


if CHANGE == "callback":
    norm = jax.jit(lambda weights: jax.pure_callback(np.sqrt, weights, weights))

weights, batch = np.ones((8, 8), DTYPE), np.ones((SIZE, 8), DTYPE)
scale = 2.0 if CHANGE == "weak type" else np.float32(2)
compiled = loss
if CHANGE == "sharding":
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
    batch = jax.device_put(batch, NamedSharding(mesh, PartitionSpec("x")))
if CHANGE == "compile option":
    compiled = loss.lower(weights).compile({"xla_cpu_enable_fast_min_max": True})
step(weights, batch, scale, layers=3 if CHANGE == "static argument" else 2)
compiled(weights)
norm(weights)
