"""Trains a small network to learn a sine: a JAX program as JAX programs are, for trying jcache on.

python tests/programs/train.py [--steps N] [--width N]
"""

import argparse
from functools import partial

import jax
import jax.numpy as jnp


def init(key, widths):
    keys = jax.random.split(key, len(widths) - 1)
    return [
        {"w": jax.random.normal(k, (m, n)) / jnp.sqrt(m), "b": jnp.zeros(n)}
        for k, m, n in zip(keys, widths[:-1], widths[1:], strict=True)
    ]


def predict(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


@partial(jax.jit, static_argnames="steps")
def train(params, x, y, *, steps):
    def step(params, _):
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, gradients), value

    return jax.lax.scan(step, params, length=steps)


@jax.jit
def evaluate(params, x, y):
    return loss(params, x, y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    x = jnp.linspace(-3, 3, 256)[:, None]
    y = jnp.sin(x)
    params = init(jax.random.key(0), [1, options.width, options.width, 1])
    params, _ = train(params, x, y, steps=options.steps)
    print(f"loss {evaluate(params, x, y):.4f} after {options.steps} steps")


if __name__ == "__main__":
    main()
