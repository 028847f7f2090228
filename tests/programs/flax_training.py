"""Trains the same small network twice, as flax has it: with linen and a train state, and with nnx and its optimizer.

python tests/programs/flax_training.py [--steps N]
"""

import argparse
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from flax.training.train_state import TrainState


class Classifier(nn.Module):
    width: int = 16

    @nn.compact
    def __call__(self, x, *, train):
        x = nn.LayerNorm()(nn.relu(nn.Dense(self.width)(x)))
        return nn.Dense(3)(nn.Dropout(0.1, deterministic=not train)(x))


@partial(jax.jit, donate_argnames="state")
def linen_step(state, x, y, key):
    def loss(params):
        logits = state.apply_fn({"params": params}, x, train=True, rngs={"dropout": key})
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    value, gradients = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=gradients), value


def train_linen(x, y, steps):
    model = Classifier()
    keys = jax.random.split(jax.random.key(1), steps + 1)
    params = model.init(keys[0], x, train=False)["params"]
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adamw(1e-2))
    for key in keys[1:]:
        state, value = linen_step(state, x, y, key)
    return value


class Mlp(nnx.Module):
    def __init__(self, *, rngs):
        self.hidden = nnx.Linear(4, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.out = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x):
        return self.out(nnx.relu(self.norm(self.hidden(x))))


@nnx.jit
def nnx_step(model, optimizer, x, y):
    def loss(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    value, gradients = nnx.value_and_grad(loss)(model)
    optimizer.update(model, gradients)
    return value


def train_nnx(x, y, steps):
    model = Mlp(rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(1e-1, momentum=0.9), wrt=nnx.Param)
    for _ in range(steps):
        value = nnx_step(model, optimizer, x, y)
    return value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    x = jax.random.normal(jax.random.key(0), (32, 4))
    y = jnp.argmax(x, axis=1) % 3
    print("linen", train_linen(x, y, options.steps).item())
    print("nnx", train_nnx(x, y, options.steps).item())


if __name__ == "__main__":
    main()
