"""A JAX program of nine executables that compile fast, for tests that need a cache and not what is in it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def predict(weights, x):
    return jnp.tanh(x @ weights)


def loss(weights, x, y):
    return jnp.mean((predict(weights, x) - y) ** 2)


@partial(jax.jit, static_argnames="steps")
def train(weights, x, y, *, steps):
    def step(weights, _):
        value, gradient = jax.value_and_grad(loss)(weights, x, y)
        return weights - 0.05 * gradient, value

    return jax.lax.scan(step, weights, length=steps)


@jax.jit
def evaluate(weights, x, y):
    return loss(weights, x, y)


def main():
    x = np.linspace(-3, 3, 8, dtype=np.float32)[:, None]
    y = np.sin(x)
    weights = np.full((1, 1), 0.5, np.float32)
    weights, _ = train(weights, x, y, steps=20)
    y = jnp.negative(jnp.abs(jnp.sin(predict(weights, x))))
    jnp.maximum(y, jnp.add(y, y)).astype(np.int32)
    print(f"loss {evaluate(weights, x, y):.4f} after 20 steps")


if __name__ == "__main__":
    main()
