"""A grid whose derived values are computed once: a flax PyTreeNode, a cached property, and a field that is a cache.

python tests/programs/flax_grid.py SEQUENCE [--print jax|python] [--labelled]

The SEQUENCE is of ``b`` and ``use_b``, or of ``c`` and ``use_c``: the value itself, or a function that uses it.
"""

import argparse
import functools

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

say = print


class Grid(flax.struct.PyTreeNode):
    x: jax.Array
    kind: str = flax.struct.field(pytree_node=False, default="radial")
    cache: dict = flax.struct.field(default_factory=dict)

    @functools.cached_property
    def label(self):
        return f"{self.kind} grid of {self.x.shape[0]} at {id(self)}"

    @functools.cached_property
    def b(self):
        return b(self)

    @property
    def c(self):
        if "c" not in self.cache:
            say("c is computed")
            self.cache["c"] = jnp.sum(self.x)
        return self.cache["c"]


@jax.jit
def b(grid):
    say("b is computed")
    return jnp.sin(grid.x) * 2


@jax.jit
def use_b(grid):
    return grid.b + grid.x


@jax.jit
def use_c(grid):
    return grid.c * grid.x


USES = {"b": lambda grid: grid.b, "c": lambda grid: grid.c, "use_b": use_b, "use_c": use_c}


def main():
    global say
    parser = argparse.ArgumentParser()
    parser.add_argument("sequence", nargs="+", choices=USES)
    parser.add_argument("--print", choices=["jax", "python"], default="python")
    parser.add_argument("--labelled", action="store_true")
    options = parser.parse_args()
    if options.print == "jax":
        say = jax.debug.print
    grid = Grid(np.linspace(0, 1, 5, dtype=np.float32))
    if options.labelled:
        assert grid.kind in grid.label and "label" in vars(grid)
    for name in options.sequence:
        value = USES[name](grid)
        jax.effects_barrier()
        print(name, np.asarray(value).tolist())


if __name__ == "__main__":
    main()
