"""The CPU seconds of a program's first steps with a warm cache, JAX's own or jcache's; printed as one number.

python first_step.py jax|jcache DIRECTORY training|scan|attention
"""

import runpy
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

HERE = Path(__file__).parent


def training():
    """A small network trained by 50 steps, and its 19 executables."""
    sys.argv[1:] = ["--steps", "50"]
    return lambda: runpy.run_path(str(HERE / "train.py"), run_name="__main__")


def scan():
    """A stiff oscillator: implicit steps, each with Newton's iteration, and the gradient of where it ends."""

    def field(state, stiffness):
        x, v = state
        return jnp.array([v, stiffness * (1 - x * x) * v - x])

    @jax.jit
    def end(stiffness):
        def step(state, _):
            def newton(guess, _):
                residual = lambda new: new - state - 0.01 * field(new, stiffness)  # noqa: E731
                return guess - jnp.linalg.solve(jax.jacfwd(residual)(guess), residual(guess)), None

            new, _ = jax.lax.scan(newton, state, length=3)
            return new, new[0]

        _, path = jax.lax.scan(step, jnp.array([2.0, 0.0]), length=200)
        return jnp.sum(path**2)

    return lambda: jax.block_until_ready(jax.value_and_grad(end)(5.0))


def attention():
    """A step of a small transformer, unrolled over its layers."""
    width, layers = 64, 4
    draw = np.random.default_rng(0)
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    weights = [{n: draw.normal(size=s).astype(np.float32) * 0.1 for n, s in shapes.items()} for _ in range(layers)]
    tokens = draw.normal(size=(8, 32, width)).astype(np.float32)

    def forward(weights, x):
        for layer in weights:
            q, k, v = jnp.split(x @ layer["qkv"], 3, axis=-1)
            x = x + jax.nn.softmax(q @ k.swapaxes(-1, -2) / 8) @ v @ layer["out"]
            x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
        return jnp.mean(x**2)

    @jax.jit
    def step(weights, x):
        value, gradients = jax.value_and_grad(forward)(weights, x)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    return lambda: jax.block_until_ready(step(weights, tokens))


def main():
    whose, directory, program = sys.argv[1:]
    first_step = {"training": training, "scan": scan, "attention": attention}[program]()
    np.asarray(jax.devices())  # the backend starts
    began = time.process_time()
    if whose == "jcache":
        import jcache

        jcache.enable(directory, strict=True)
    else:
        jax.config.update("jax_compilation_cache_dir", directory)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    enabled = time.process_time()
    first_step()
    print(time.process_time() - enabled, enabled - began)


main()
