"""Torax's basic configuration, and a digest of all that it computes.

python tests/programs/torax_basic.py [CHANGES]

The CHANGES to the configuration are JSON.
"""

import hashlib
import json
import sys

import numpy as np
import torax
from torax.examples import basic_config


def digest(tree):
    found = hashlib.sha256()
    for node in tree.subtree:
        for name, variable in sorted(node.variables.items()):
            values = np.asarray(variable.values)
            if values.dtype.kind in "biuf":
                found.update(f"{node.path}/{name} {values.dtype} {values.shape}".encode() + values.tobytes())
    return found.hexdigest()


def main():
    changes = json.loads(sys.argv[1]) if sys.argv[1:] else {}
    config = torax.ToraxConfig.from_dict(basic_config.CONFIG | changes)
    tree, history = torax.run_simulation(config, progress_bar=False)
    print(history.sim_error.name, len(history.times), digest(tree))


if __name__ == "__main__":
    main()
