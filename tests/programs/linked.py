"""A program with a graph, and two traced functions, of which one uses the graph and a file: linked.py [ROWS]."""

import sys

import jax.numpy as jnp
import numpy as np

import jcache


@jcache.graph
def table(n):
    return {"rates": np.arange(float(n))}


def long(x):
    """Takes so long to trace that looking it up pays; XLA is given none of it."""
    for _ in range(600):
        jnp.sin(x)
    return x


@jcache.jit(check="never")
def step(x):
    print("step is traced")
    with open("factor.txt") as file:
        factor = float(file.read())
    return long(x) * factor + table(3)["rates"]


@jcache.jit(check="never")
def plain(x):
    print("plain is traced")
    return long(x) * 2


if __name__ == "__main__":
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    print(np.asarray(step(np.full((rows, 3), 3, np.float32))).tobytes()[:12].hex())
    if rows == 8:
        print(float(plain(np.float32(4))))
