"""Functions of other libraries that `traces.py` jits, as their users write them, each with its data."""

import jax
import jax.numpy as jnp
import numpy as np


def svi():
    """A step of stochastic variational inference of numpyro's."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    def model(x, y):
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([4]).to_event(1))
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        with numpyro.plate("data", len(x)):
            numpyro.sample("y", dist.Normal(x @ weights, scale), obs=y)

    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4)).astype(np.float32)
    y = x @ np.arange(4, dtype=np.float32)
    inference = SVI(model, AutoNormal(model), numpyro.optim.Adam(1e-2), Trace_ELBO())
    state = inference.init(jax.random.PRNGKey(0), x, y)

    def step(state, x, y):
        print("traced")
        return inference.update(state, x, y)

    return step, (state, x, y)


def jraph():
    """A training step of a network of jraph's on a batch of graphs."""
    import jraph as jg
    import optax

    def network(weights, graph):
        embed = jg.GraphMapFeatures(lambda e: e @ weights["edge"], lambda n: n @ weights["node"])
        passes = jg.InteractionNetwork(
            update_edge_fn=lambda edge, sent, received: jax.nn.relu((edge + sent + received) @ weights["message"]),
            update_node_fn=lambda node, received: jax.nn.relu((node + received) @ weights["update"]),
        )
        for _ in range(4):
            graph = passes(embed(graph) if graph.nodes.shape[-1] != 8 else graph)
        return graph.nodes.sum(-1)

    rng = np.random.default_rng(0)
    graphs = [
        jg.GraphsTuple(
            nodes=rng.normal(size=(6, 3)).astype(np.float32),
            edges=rng.normal(size=(9, 2)).astype(np.float32),
            senders=rng.integers(0, 6, 9),
            receivers=rng.integers(0, 6, 9),
            n_node=np.array([6]),
            n_edge=np.array([9]),
            globals=np.zeros((1, 1), np.float32),
        )
        for _ in range(4)
    ]
    batch = jg.batch_np(graphs)
    shapes = {"edge": (2, 8), "node": (3, 8), "message": (8, 8), "update": (8, 8)}
    weights = {name: jnp.asarray(rng.normal(size=shape), jnp.float32) * 0.3 for name, shape in shapes.items()}
    optimizer = optax.adam(1e-3)

    def step(weights, state, graph):
        print("traced")
        value, gradients = jax.value_and_grad(lambda w: jnp.mean((network(w, graph) - 1) ** 2))(weights)
        updates, state = optimizer.update(gradients, state, weights)
        return optax.apply_updates(weights, updates), state, value

    return step, (weights, optimizer.init(weights), jax.tree.map(jnp.asarray, batch))


def jaxopt():
    """A fit by L-BFGS of jaxopt's, whole."""
    import jaxopt as jo

    def loss(weights, x, y):
        return jnp.mean((jnp.tanh(x @ weights["a"]) @ weights["b"] - y) ** 2)

    solver = jo.LBFGS(fun=loss, maxiter=20)

    def fit(weights, x, y):
        print("traced")
        return solver.run(weights, x=x, y=y).params

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(64, 4)), jnp.float32)
    return fit, ({"a": jnp.ones((4, 8)) * 0.1, "b": jnp.ones(8) * 0.1}, x, x.sum(1))


def lineax():
    """A linear solve of lineax's, and its gradient, with its checks."""
    import lineax as lx

    def loss(matrix, vector):
        operator = lx.MatrixLinearOperator(matrix, lx.positive_semidefinite_tag)
        return jnp.sum(lx.linear_solve(operator, vector, solver=lx.CG(rtol=1e-5, atol=1e-5)).value ** 2)

    def step(matrix, vector):
        print("traced")
        return jax.value_and_grad(loss)(matrix, vector)

    return step, (jnp.eye(6) * 3 + 1, jnp.arange(6.0))


def optimistix():
    """A least-squares fit of optimistix's, and its gradient, with its checks."""
    import optimistix as ox

    def residuals(weights, given):
        x, y = given
        return weights[0] * jnp.exp(weights[1] * x) - y

    def step(start, x, y):
        print("traced")
        solver = ox.LevenbergMarquardt(rtol=1e-5, atol=1e-5)
        return jax.jacfwd(lambda y: ox.least_squares(residuals, solver, start, args=(x, y)).value)(y)

    x = jnp.linspace(0.0, 1.0, 16)
    return step, (jnp.array([1.0, 0.1]), x, 2 * jnp.exp(0.5 * x))


def brax():
    """A step of brax's inverted pendulum, with the spring pipeline."""
    from brax import envs

    environment = envs.get_environment("inverted_pendulum", backend="spring")
    state = jax.jit(environment.reset)(jax.random.PRNGKey(0))

    def step(state, action):
        print("traced")
        return environment.step(state, action)

    return step, (state, jnp.zeros(environment.action_size))


def chex():
    """A training step on a dataclass of chex's, with its assertions."""
    import chex as cx
    import optax

    @cx.dataclass
    class Training:
        weights: cx.ArrayTree
        state: cx.ArrayTree

    optimizer = optax.sgd(1e-2, momentum=0.9)
    weights = {"a": jnp.ones((8, 32)) * 0.1, "b": jnp.ones((32, 1)) * 0.1}

    def step(training, x, y):
        print("traced")
        cx.assert_rank([x, y], 2)
        cx.assert_equal_shape_prefix([x, y], 1)

        def loss(weights):
            return jnp.mean((jax.nn.relu(x @ weights["a"]) @ weights["b"] - y) ** 2)

        gradients = jax.grad(loss)(training.weights)
        updates, state = optimizer.update(gradients, training.state)
        return training.replace(weights=optax.apply_updates(training.weights, updates), state=state)

    return step, (Training(weights=weights, state=optimizer.init(weights)), jnp.ones((16, 8)), jnp.ones((16, 1)))


def mlp():
    """A training step of a small network that is written without a library."""

    def loss(weights, x, y):
        for w, b in weights:
            x = jnp.tanh(x @ w + b)
        return jnp.mean((x - y) ** 2)

    def step(weights, x, y):
        print("traced")
        gradients = jax.grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    weights = [(jnp.ones((8, 8)) * 0.1, jnp.zeros(8)) for _ in range(3)]
    return step, (weights, jnp.ones((16, 8)), jnp.zeros((16, 8)))


PROGRAMS = {each.__name__: each for each in (svi, jraph, jaxopt, lineax, optimistix, brax, chex, mlp)}
