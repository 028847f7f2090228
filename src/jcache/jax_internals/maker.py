"""What the executables of this process are made by, as a store of entries files them.

This module needs the standard library and JAX alone: the recorder of `jcache run` loads it where the program's Python
has no jcache. It imports nothing of JAX that the program has not imported, and starts no backend.
"""

import sys

if False:  # for the type checker: typing is not needed to run
    from typing import Any

_GPU = ("cuda", "rocm")


def maker() -> "tuple[str, str, str]":
    """Return version of jaxlib, platform and device of the default backend; empty where it is not known."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    version = str(getattr(sys.modules.get("jaxlib.version"), "__version__", ""))
    if not getattr(bridge, "_backends", None):
        return version, "", ""
    try:
        backend = bridge.get_backend()
        platform = str(backend.platform)
        if platform == "gpu":
            about = str(getattr(backend, "platform_version", "")).lower()
            platform = next((one for one in _GPU if one in about), platform)
        if platform not in _GPU:
            return version, platform, "cpu" if platform == "cpu" else ""
        device = backend.local_devices()[0]
        return version, platform, str(getattr(device, "compute_capability", "") or "")
    except Exception:  # noqa: BLE001  a store that is asked in the wrong place answers that there is nothing
        return version, "", ""
