"""JAX's transformations in small programs: what each of them computes, on two devices where there are two.

python tests/programs/transforms.py
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

FLOAT = jnp.result_type(float)  # of 32 bits, or 64 with jax_enable_x64


def pendulum():
    """A while loop with a step that adapts: the angle of a pendulum after ten seconds."""

    def slope(state):
        angle, speed = state
        return jnp.stack([speed, -jnp.sin(angle)])

    def step(carry):
        t, dt, state = carry
        dt = jnp.minimum(dt, 10 - t)
        euler = state + dt * slope(state)
        heun = state + dt / 2 * (slope(state) + slope(euler))
        error = jnp.max(jnp.abs(heun - euler))
        good = error < 1e-3
        return jnp.where(good, t + dt, t), dt * jnp.where(good, 1.3, 0.5), jnp.where(good, heun, state)

    @jax.jit
    def solve(state):
        start = jnp.zeros((), FLOAT), jnp.full((), 0.1, FLOAT), state
        return jax.lax.while_loop(lambda carry: carry[0] < 10, step, start)[2]

    return solve(np.array([1, 0], FLOAT))


def scan():
    """A logistic map and its running mean."""

    @jax.jit
    def run(x):
        def step(carry, n):
            x, mean = carry
            x = 3.9 * x * (1 - x)
            return (x, mean + (x - mean) / n), mean

        return jax.lax.scan(step, (x, x), jnp.arange(1, 50))[0][1]

    return run(FLOAT.type(0.3))


@jax.custom_vjp
def clipped(x):
    return x**2


clipped.defvjp(lambda x: (x**2, x), lambda x, g: (jnp.clip(2 * x * g, -1, 1),))


def gradients():
    """Compute gradients of a function with a custom rule, for each row."""
    return jax.jit(jax.vmap(jax.grad(lambda row: jnp.sum(clipped(row)))))(np.arange(6, dtype=FLOAT).reshape(2, 3) / 4)


def callback():
    """Compute parts with numpy: programs that differ only in the called function."""

    def called(function):
        return jax.jit(lambda x: jax.pure_callback(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1)

    x = np.arange(4, dtype=FLOAT)
    return jnp.stack([called(function)(x) for function in (np.cumsum, np.flip, np.square)])


def narrow():
    """Compute in bfloat16."""
    return jax.jit(lambda x: (x @ x.T).astype(jnp.bfloat16))(np.arange(6, dtype=jnp.bfloat16).reshape(2, 3))


def donated():
    """An argument that its result takes the place of."""
    add = jax.jit(lambda total, x: total + x, donate_argnums=0)
    total = jax.device_put(np.zeros(3, FLOAT))
    for number in range(3):
        total = add(total, np.full(3, number, FLOAT))
    return total


def sharded():
    """Give each device a part of the rows, and every device the sum."""
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    spec = PartitionSpec("rows")

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=spec, out_specs=spec)
    def centred(x):
        return x - jax.lax.pmean(x.mean(), "rows")

    return centred(np.arange(8, dtype=FLOAT).reshape(4, 2))


def linear_algebra():
    """Solved by LAPACK."""
    a = np.array([[4, 1], [1, 3]], FLOAT)
    return jax.jit(lambda a, b: jnp.linalg.solve(a, b) + jnp.sort(jnp.linalg.eigvalsh(a)))(a, np.ones(2, FLOAT))


def main():
    for part in (pendulum, scan, gradients, callback, narrow, donated, sharded, linear_algebra):
        print(part.__name__, jax.device_get(part()).tolist())


if __name__ == "__main__":
    main()
