"""JAX's registry of pytree classes.

It imports nothing, so that `jcache.fingerprint`, which is in a lower tier, may use it.
"""

import sys
from collections.abc import Mapping
from typing import Any


def registry() -> Mapping[type, Any]:
    """Return JAX's record of each registered class: the functions that flatten and unflatten it.

    It is empty until the program has imported JAX.
    """
    found: Mapping[type, Any] = getattr(sys.modules.get("jax._src.tree_util"), "_registry", {})
    return found
