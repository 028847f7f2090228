"""A program with a graph, and two traced functions, of which one uses the graph and a file: linked.py [ROWS]."""

import sys

import jax.numpy as jnp
import numpy as np

import jcache


@jcache.graph
def table(n):
    return {"rates": np.arange(float(n))}


@jcache.jit(check="never")
def step(x):
    print("step is traced")
    with open("factor.txt") as file:
        factor = float(file.read())
    for _ in range(40):
        x = jnp.sin(x) * factor
    return x + table(3)["rates"]


@jcache.jit(check="never")
def plain(x):
    print("plain is traced")
    return x * 2


if __name__ == "__main__":
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    print(np.asarray(step(np.full((rows, 3), 3, np.float32))).tobytes()[:12].hex())
    if rows == 8:
        print(float(plain(np.float32(4))))
