"""JAX's registry of pytree classes, whether JAX is tracing, the mesh in effect, and the number of this process.

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


def is_tracing() -> bool:
    """Return whether JAX is tracing or transforming in this thread."""
    is_clean = getattr(sys.modules.get("jax._src.core"), "trace_state_clean", None)
    return is_clean is not None and not is_clean()


def rank() -> str:
    """Return which process of a program this is, such as ``1 of 4``; empty in a program of one process."""
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    count = getattr(state, "num_processes", None) or 1
    return f"{getattr(state, 'process_id', 0)} of {count}" if count > 1 else ""


def mesh_in_effect() -> str:
    """Return what tells this thread's mesh from others, also one of the deprecated ``with mesh:``; empty for none."""
    module: Any = sys.modules.get("jax._src.mesh")
    within = getattr(getattr(module, "thread_resources", None), "env", None)
    concrete, abstract = (getattr(module, f"get_{kind}_mesh", lambda: None)() for kind in ("concrete", "abstract"))
    if abstract is not None and abstract == getattr(concrete, "abstract_mesh", None):
        abstract = None
    meshes = ("with ", getattr(within, "physical_mesh", None)), ("", concrete), ("", abstract)
    return "; ".join(f"{how}{mesh} {_devices(mesh)}" for how, mesh in meshes if not getattr(mesh, "empty", True))


def _devices(mesh: Any) -> list[int]:  # noqa: ANN401  a type of JAX
    devices = getattr(mesh, "devices", None) if type(mesh).__name__ == "Mesh" else None
    return [] if devices is None else [each.id for each in devices.flat]
