"""A trace and a graph, as commit b5c6261 stored them in tests/data/b5c6261.tar.gz: `python forms.py ROOT`.

Prints JSON: the results of a call by position and of one by name, how often the function was traced for them, and how
often the graph was built.
"""

import contextlib
import io
import json
import sys

import jax.numpy as jnp

import jcache


def loss(pred, label):
    print("traced")
    return pred - 5 * label


@jcache.graph
def grown(size, *, rate):
    print("built")
    return [rate * i for i in range(size)]


def main(root):
    jcache.enable(root)
    pred, label = jnp.arange(1.0, 5.0), jnp.ones(4)
    jitted = jcache.jit(loss)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        results = [jitted(pred, label).tolist(), jitted(pred=pred, label=label).tolist()]
        grown(3, rate=0.5)
    told = printed.getvalue()
    print(json.dumps({"results": results, "traced": told.count("traced"), "built": told.count("built")}))


if __name__ == "__main__":
    main(sys.argv[1])
