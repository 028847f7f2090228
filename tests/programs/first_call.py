"""CPU seconds of a first call that is traced and compiled: first_call.py jax|jcache ROOT mlp|operations|refused."""

import json
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jcache

whose, root, name = sys.argv[1:]
jcache.enable(root, strict=True)
jit = jax.jit if whose == "jax" else jcache.jit


def loss(params, x, y):
    for layer in params:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.mean((x - y) ** 2)


def mlp(params, x, y):
    value, grads = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def refused(params, x, y):
    with open(os.path.join(root, "written"), "w") as file:  # which a served trace would not do
        file.write("traced")
    return mlp(params, x, y)


def operations(params, x, y):
    for number in range(50):
        x = jnp.sin(x) * 1.5 + jnp.where(x > number, x, 0.5) - number
    return x


def other(x):
    return jnp.cos(x) + jnp.sum(x)


params = [{"w": np.full((32, 32), 0.01, np.float32), "b": np.zeros(32, np.float32)} for _ in range(3)]
x, y = np.ones((8, 32), np.float32), np.ones((8, 32), np.float32)
jit(other)(x)  # what is imported or opened once
function = jit({"mlp": mlp, "operations": operations, "refused": refused}[name])
before = time.process_time()
jax.block_until_ready(function(params, x, y))
seconds = time.process_time() - before
calls = () if whose == "jax" else jcache.stats().traces.calls[-1:]
print(json.dumps({"cpu": seconds, "outcomes": [str(call.outcome) for call in calls]}))
