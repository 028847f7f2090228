"""A training step, a solve or a sampler of a library, with one change: explained_libraries.py LIBRARY [CHANGE]."""

import sys
from functools import partial

import jax
import jax.numpy as jnp

LIBRARY = sys.argv[1]
CHANGE = sys.argv[2] if len(sys.argv) > 2 else ""
SIZE = 61 if CHANGE == "shape" else 64
DTYPE = jnp.float16 if CHANGE == "dtype" else jnp.float32
FACTOR = 2.0 if CHANGE == "captured constant" else 1.0
STEPS = 3 if CHANGE == "static argument" else 2
if CHANGE == "x64":
    jax.config.update("jax_enable_x64", True)


def squashed(x):
    return jnp.tanh(x) * FACTOR


def squashed_v2(x):
    return jnp.tanh(x) * FACTOR


helper = jax.jit(squashed_v2 if CHANGE == "renamed helper" else squashed)


def activated(x):
    """Return the values after some functions, whose order depends on the hash seed where a set is iterated."""
    for name in {"tanh", "sin", "cos", "exp", "sinh", "arctan"} if CHANGE == "set" else ["tanh", "sin"]:
        x = getattr(jnp, name)(x)
    return x


def flax_step(key, x, y):
    import flax.linen as nn
    import optax

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = activated(nn.Dense(16, dtype=DTYPE, param_dtype=DTYPE)(helper(x)))
            return nn.Dense(1, dtype=DTYPE, param_dtype=DTYPE)(x)

    model, optimizer = Model(), optax.adam(1e-3)
    params = model.init(key, x)
    state = optimizer.init(params)

    @partial(jax.jit, static_argnames="steps")
    def step(params, state, x, y, steps):
        for _ in range(steps):
            gradients = jax.grad(lambda params: ((model.apply(params, x)[:, 0] - y) ** 2).mean())(params)
            updates, state = optimizer.update(gradients, state, params)
            params = optax.apply_updates(params, updates)
        return params

    step(params, state, x, y, STEPS)


def equinox_step(key, x, y):
    import equinox as eqx
    import optax

    model = eqx.nn.MLP(8, 1, 16, 2, activation=helper, key=key, dtype=DTYPE)
    optimizer = optax.sgd(1e-2)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def step(model, state, x, y, steps):
        for _ in range(steps):
            loss = eqx.filter_grad(lambda model: ((activated(jax.vmap(model)(x))[:, 0] - y) ** 2).mean())
            updates, state = optimizer.update(loss(model), state, model)
            model = eqx.apply_updates(model, updates)
        return model

    step(model, state, x, y, STEPS)


def diffrax_solve(key, x, y):
    import diffrax

    @partial(jax.jit, static_argnames="steps")
    def solve(start, steps):
        term = diffrax.ODETerm(lambda t, y, args: activated(helper(-y)))
        times = diffrax.SaveAt(ts=jnp.linspace(0, 1, steps))
        return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0, 1, 0.1, start, saveat=times).ys

    solve(x, STEPS)


def numpyro_nuts(key, x, y):
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    def model(x, y):
        weights = numpyro.sample("weights", dist.Normal(jnp.zeros(8, DTYPE), FACTOR).to_event(1))
        numpyro.sample("y", dist.Normal(activated(helper(x)) @ weights, 1.0), obs=y)

    MCMC(NUTS(model), num_warmup=5 * STEPS, num_samples=5, progress_bar=False).run(key, x, y)


key = jax.random.PRNGKey(0)
x = jax.random.normal(key, (SIZE, 8)).astype(DTYPE)
run = {"flax": flax_step, "equinox": equinox_step, "diffrax": diffrax_solve, "numpyro": numpyro_nuts}[LIBRARY]
run(key, x, (x.sum(1) * 2).astype(DTYPE))
