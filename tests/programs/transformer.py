"""One training step of a small transformer, its layers unrolled: entries as large as real programs have them.

python tests/programs/transformer.py LAYERS
"""

import sys

import jax
import jax.numpy as jnp

WIDTH, HEADS, LENGTH = 128, 4, 32


def init_layer(key):
    keys = jax.random.split(key, 6)
    shapes = {"q": (1, 1), "k": (1, 1), "v": (1, 1), "o": (1, 1), "up": (1, 4), "down": (4, 1)}
    return {
        name: jax.random.normal(k, (WIDTH * rows, WIDTH * columns)) * 0.02
        for (name, (rows, columns)), k in zip(shapes.items(), keys, strict=True)
    }


def normalize(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def layer(p, x):
    def heads(weights):
        return (normalize(x) @ weights).reshape(*x.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)

    q, k, v = heads(p["q"]), heads(p["k"]), heads(p["v"])
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH)))
    weights = jax.nn.softmax(jnp.where(mask, q @ k.swapaxes(-1, -2) / 8.0, -1e9))
    x = x + (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ p["o"]
    return x + jax.nn.gelu(normalize(x) @ p["up"]) @ p["down"]


def loss(layers, x, y):
    for p in layers:
        x = layer(p, x)
    return ((x - y) ** 2).mean()


@jax.jit
def train_step(layers, momentum, x, y, rate):
    value, gradient = jax.value_and_grad(loss)(layers, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
    return jax.tree.map(lambda w, m: w - rate * m, layers, momentum), momentum, value


layers = [init_layer(jax.random.key(i)) for i in range(int(sys.argv[1]))]
x = jax.random.normal(jax.random.key(0), (4, LENGTH, WIDTH))
y = jnp.roll(x, 1, axis=1)
_, _, value = train_step(layers, jax.tree.map(jnp.zeros_like, layers), x, y, 0.1)
print(f"loss {value:.3f}")
