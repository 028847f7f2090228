"""A square root that refuses negative numbers, by equinox's errors in compiled code.

python tests/programs/equinox_checked.py NUMBER...
"""

import re
import sys

import equinox as eqx
import jax.numpy as jnp
import numpy as np


@eqx.filter_jit
def root(x):
    return jnp.sqrt(eqx.error_if(x, x < 0, "x must not be negative"))


def main():
    for text in sys.argv[1:]:
        try:
            print(root(np.float32(text)).item())
        except RuntimeError as error:
            print("refused:", re.search("Error: (.*)", str(error))[1])


if __name__ == "__main__":
    main()
