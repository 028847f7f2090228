"""Functions that set what other functions and other code use: a table that is made once, a flag, a memo, a closure.

python tests/programs/set_again.py jax|jcache ROOT
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

import jcache

WHOSE, ROOT = sys.argv[1:]
first, MEMO, SHAPES, SEEN = True, {}, {}, {"f": None}


class Layer:
    made = None

    def __init__(self, width):
        self.width, self.table, self.is_built, self.rate = width, None, False, None

    def weights(self):
        if self.table is None:
            self.table = np.linspace(0.0, 1.0, self.width)
        return self.table

    def __call__(self, x):
        if not self.is_built:
            self.rate, self.is_built = 0.5 * self.width, True
        return jnp.sum(x) * self.weights() * self.rate


class Model:
    def __init__(self):
        self.layers = [Layer(2), Layer(3)]
        self.shape = None

    def __call__(self, x):
        self.shape = self.shape or x.shape
        for layer in self.layers:
            x = jnp.sum(layer(x)) + self.shape[0]
        return x


def power(n):
    if n not in MEMO:
        MEMO[n] = np.arange(float(n)) ** 2
    return MEMO[n]


def switch():
    is_on = False

    def turn(x):
        nonlocal is_on
        is_on = not is_on
        return x + is_on

    def state():
        return is_on

    return turn, state


def once(x):
    global first
    if first:
        first, SEEN["f"] = False, "once"
    SHAPES[x.shape] = str(x.dtype)
    return x * 2


def after_it(x):
    return x * (3 if first else 4) + len(SHAPES)


def of_class(x):
    if Layer.made is None:
        Layer.made = (x.shape[0], "made")
    return x + Layer.made[0]


model, (turn, is_on) = Model(), switch()
CALLS = [
    ("model", model, 2), ("model", model, 5), ("rates", lambda x: x * model.layers[1].rate, 2),
    ("table", lambda x: x[:2] * model.layers[0].weights(), 2), ("power", lambda x: x * power(x.shape[0]), 3),
    ("power", None, 2), ("powers", lambda x: x + sum(map(np.sum, MEMO.values())), 3), ("after", after_it, 2),
    ("once", once, 2), ("once", None, 3), ("after", None, 3), ("after again", lambda x: after_it(x) + 0, 2),
    ("turn", turn, 2), ("turn", None, 3), ("turn", None, 4), ("is on", lambda x: x * is_on(), 2),
    ("of class", of_class, 4), ("of class", None, 2), ("made", lambda x: x * Layer.made[0], 2),
]  # fmt: skip


def main():
    jcache.enable(ROOT, strict=True)
    entry = jax.jit if WHOSE == "jax" else jcache.jit
    known, results = {}, []
    for name, function, width in CALLS:
        known[name] = known[name] if function is None else entry(function)
        results.append(np.asarray(known[name](jnp.ones(width))).tolist())
    state = [[each.table.tolist(), each.is_built, each.rate] for each in model.layers]
    memo = [[key, value.tolist()] for key, value in MEMO.items()]
    others = [model.shape, first, SEEN, is_on(), Layer.made, memo, [[*key, value] for key, value in SHAPES.items()]]
    outcomes = [[call.name, str(call.outcome), call.reason] for call in jcache.stats().traces.calls]
    print(json.dumps({"results": results, "state": [*state, *others], "outcomes": outcomes}))


main()
