"""The first result of a jitted function in this process: under `jax.jit` with JAX's own cache, or under `jcache.jit`.

python tests/programs/traces.py jax|jcache DIRECTORY PROGRAM

Prints JSON: seconds of the first result from the call to its end, by the clock and of the CPU, how often the function
was traced, a digest of the results of two calls, and what `explain` says.
"""

import contextlib
import hashlib
import io
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from trace_libraries import PROGRAMS as LIBRARIES

WIDTH = 16


def small():
    """A function of a few operations."""

    def step(x):
        print("traced")
        return jnp.tanh(x) * 2 + 1

    return step, (jnp.arange(4.0),)


def layers():
    """A training step of twelve layers, unrolled, with its gradient and Adam."""

    def layer(weights, x):
        h = jax.nn.gelu(x @ weights["a"]) @ weights["b"]
        q, k, v = x @ weights["q"], x @ weights["k"], x @ weights["v"]
        return x + h + jax.nn.softmax(q @ k.T / 4) @ v

    def loss(weights, x):
        for each in weights:
            x = layer(each, x)
        return (x**2).mean()

    def step(weights, moments, x):
        print("traced")
        value, gradients = jax.value_and_grad(loss)(weights, x)
        moments = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments, gradients)
        return value, jax.tree.map(lambda w, m: w - 0.01 * m / (1 + jnp.abs(m)), weights, moments), moments

    weights = [{name: jnp.asarray(np.full((WIDTH, WIDTH), 0.1, np.float32)) for name in "abqkv"} for _ in range(12)]
    return step, (weights, jax.tree.map(jnp.zeros_like, weights), jnp.ones((8, WIDTH)))


def equinox():
    """A training step of a network of Equinox, partitioned as `equinox.filter_jit` does it."""
    import equinox as eqx
    import optax

    arrays, static = eqx.partition(eqx.nn.MLP(8, 4, 64, 4, key=jax.random.PRNGKey(0)), eqx.is_array)
    optimizer = optax.adam(1e-3)

    def loss(arrays, x, y):
        return jnp.mean((jax.vmap(eqx.combine(arrays, static))(x) - y) ** 2)

    def step(arrays, state, x, y):
        print("traced")
        value, gradients = jax.value_and_grad(loss)(arrays, x, y)
        updates, state = optimizer.update(gradients, state, arrays)
        return value, eqx.apply_updates(arrays, updates), state

    return step, (arrays, optimizer.init(arrays), jnp.ones((32, 8)), jnp.ones((32, 4)))


def diffrax():
    """A solve of an oscillator of van der Pol with adaptive steps, and its gradient."""
    import diffrax as dfx

    def field(t, y, stiffness):
        x, v = y
        return jnp.array([v, stiffness * (1 - x**2) * v - x])

    def loss(stiffness, y):
        solution = dfx.diffeqsolve(
            dfx.ODETerm(field),
            dfx.Tsit5(),
            t0=0.0,
            t1=3.0,
            dt0=0.1,
            y0=y,
            args=stiffness,
            saveat=dfx.SaveAt(ts=jnp.linspace(0.0, 3.0, 20)),
            stepsize_controller=dfx.PIDController(rtol=1e-4, atol=1e-6),
            throw=False,
        )
        return jnp.sum(solution.ys**2)

    def step(stiffness, y):
        print("traced")
        return jax.value_and_grad(loss)(stiffness, y)

    return step, (jnp.float32(1.5), jnp.array([2.0, 0.0]))


def numpyro():
    """Steps of a NUTS kernel on a linear regression."""
    import numpyro.distributions as dist
    from numpyro import sample
    from numpyro.infer import NUTS

    x = np.linspace(-1, 1, 30).astype(np.float32)

    def model(x, y):
        slope = sample("slope", dist.Normal(0.0, 10.0))
        offset = sample("offset", dist.Normal(0.0, 10.0))
        noise = sample("noise", dist.HalfNormal(1.0))
        sample("y", dist.Normal(slope * x + offset, noise), obs=y)

    kernel = NUTS(model)
    state = kernel.init(jax.random.PRNGKey(0), 10, None, (x, 2 * x + 1), {})

    def step(state, x, y):
        print("traced")
        return kernel.sample(state, (x, y), {})

    return step, (state, x, 2 * x + 1)


def linen():
    """A training step of a network of flax's linen, with flax's train state."""
    import optax
    from flax import linen as nn
    from flax.training.train_state import TrainState

    class Network(nn.Module):
        width: int

        @nn.compact
        def __call__(self, x):
            for _ in range(3):
                x = nn.LayerNorm()(nn.relu(nn.Dense(self.width)(x)))
            return nn.Dense(1)(x)

    def step(state, x, y):
        print("traced")

        def loss(params):
            return jnp.mean((state.apply_fn({"params": params}, x) - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=gradients), value

    network = Network(32)
    params = network.init(jax.random.PRNGKey(0), jnp.ones((1, 8)))["params"]
    state = TrainState.create(apply_fn=network.apply, params=params, tx=optax.adam(1e-3))
    return step, (state, jnp.ones((32, 8)), jnp.ones((32, 1)))


def training():
    """A whole training that makes its network and its optimizer itself, and returns flax's train state."""
    import optax
    from flax import linen as nn
    from flax.training.train_state import TrainState

    def train(key, x):
        print("traced")
        start = nn.initializers.orthogonal(1.0)
        network = nn.Sequential((nn.Dense(8, kernel_init=start), nn.tanh, nn.Dense(1)))
        rate = optax.linear_schedule(1e-2, 0.0, 100)
        optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(rate, eps=1e-5))
        state = TrainState.create(apply_fn=network.apply, params=network.init(key, x), tx=optimizer)

        def update(state, _):
            loss, gradients = jax.value_and_grad(lambda params: jnp.mean(network.apply(params, x) ** 2))(state.params)
            return state.apply_gradients(grads=gradients), loss

        return jax.lax.scan(update, state, None, 3)

    return train, (jax.random.PRNGKey(0), jnp.ones((4, 3)))


def nnx():
    """A training step of a network of flax's nnx, split into its graph and its state."""
    from flax import nnx as fnx

    class Network(fnx.Module):
        def __init__(self, rngs):
            self.first = fnx.Linear(8, 32, rngs=rngs)
            self.last = fnx.Linear(32, 1, rngs=rngs)

        def __call__(self, x):
            return self.last(fnx.relu(self.first(x)))

    graph, state = fnx.split(Network(fnx.Rngs(0)))

    def step(state, x, y):
        print("traced")

        def loss(state):
            return jnp.mean((fnx.merge(graph, state)(x) - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(state)
        return jax.tree.map(lambda w, g: w - 0.1 * g, state, gradients), value

    return step, (state, jnp.ones((32, 8)), jnp.ones((32, 1)))


def checked():
    """Return a function with a check of Equinox's, which calls back to the host unless EQX_ON_ERROR turns that off."""
    import equinox as eqx

    def step(x):
        print("traced")
        return jnp.sqrt(eqx.error_if(x, x < 0, "x must not be negative"))

    return step, (jnp.float32(4.0),)


def linear_algebra():
    """Compute with LAPACK and sorting, which this process does not lower elsewhere."""

    def step(a, b):
        print("traced")
        return jnp.linalg.solve(a, b), jnp.linalg.eigh(a)[0], jnp.linalg.svd(a)[1], jnp.argsort(b), jnp.median(b)

    return step, (jax.device_put(np.eye(6, dtype=np.float32) * 3 + 1), jax.device_put(np.arange(6.0, dtype=np.float32)))


PROGRAMS = LIBRARIES | {
    each.__name__: each
    for each in (small, layers, equinox, diffrax, numpyro, linen, training, nnx, checked, linear_algebra)
}


def main():
    whose, directory, name = sys.argv[1:]
    if whose == "jax":
        jax.config.update("jax_compilation_cache_dir", directory)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        jit = jax.jit
    else:
        import jcache

        jcache.enable(directory, strict=True)
        jit = jcache.jit
    function, arguments = PROGRAMS[name]()
    step = jit(function)
    jax.block_until_ready(arguments)
    digest = hashlib.sha256()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        cpu, wall = time.process_time(), time.perf_counter()
        first = jax.block_until_ready(step(*arguments))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        again = step(*arguments)
    for leaf in jax.tree.leaves((first, again)):
        digest.update(f"{leaf.dtype}{leaf.shape}{leaf.weak_type}".encode() + np.asarray(leaf).tobytes())
    said = {"wall": wall, "cpu": cpu, "traced": printed.getvalue().count("traced"), "digest": digest.hexdigest()}
    if whose == "jcache":
        said |= {"explanation": str(step.explain(*arguments))}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
