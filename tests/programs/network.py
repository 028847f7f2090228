"""A small network from its start to its end: some steps of training, as users write them.

python tests/programs/network.py jax|jcache|run PROGRAM

`jcache` enables the cache of `$JCACHE_DIR`; the others leave that to the environment. PROGRAM is `layers`, `linen`, a
program of `traces.py`, of which the first two results are computed, or `torax` for the basic configuration of Torax.
"""

import itertools
import sys

if sys.argv[1] == "jcache":
    import jcache

    jcache.enable()

import jax
import jax.numpy as jnp

SIZES = (8, 64, 64, 64, 1)


def layers():
    """Return the weights of a network and its output, both without a library."""
    keys = jax.random.split(jax.random.PRNGKey(0), len(SIZES))
    weights = [
        (jax.random.normal(key, shape) * 0.1, jnp.zeros(shape[1]))
        for key, shape in zip(keys, itertools.pairwise(SIZES), strict=False)
    ]

    def output(weights, x):
        for matrix, bias in weights[:-1]:
            x = jax.nn.relu(x @ matrix + bias)
        return x @ weights[-1][0] + weights[-1][1]

    return weights, output


def linen():
    """Return the same of flax."""
    from flax import linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            for size in SIZES[1:-1]:
                x = nn.relu(nn.Dense(size)(x))
            return nn.Dense(SIZES[-1])(x)

    network = Network()
    return network.init(jax.random.PRNGKey(0), jnp.ones((1, SIZES[0]))), network.apply


def train(weights, output):
    """Train a network for some steps, and print the loss."""

    @jax.jit
    def step(weights, x, y):
        """Return the loss, and the weights after a step."""
        loss, gradients = jax.value_and_grad(lambda weights: jnp.mean((output(weights, x) - y) ** 2))(weights)
        return loss, jax.tree.map(lambda weight, gradient: weight - 0.01 * gradient, weights, gradients)

    x, y = jnp.ones((32, SIZES[0])), jnp.ones((32, SIZES[-1]))
    for _ in range(5):
        loss, weights = step(weights, x, y)
    print(float(loss))


if sys.argv[2] in {"layers", "linen"}:
    train(*{"layers": layers, "linen": linen}[sys.argv[2]]())
elif sys.argv[2] == "torax":
    import torax_basic

    del sys.argv[1:]
    torax_basic.main()
else:
    from traces import PROGRAMS

    function, arguments = PROGRAMS[sys.argv[2]]()
    step = jax.jit(function)
    for _ in range(2):
        jax.block_until_ready(step(*arguments))
