"""Print which packages an interpreter has, from their metadata: a separate program that needs no jcache.

``python child_versions.py`` prints it as JSON. The program needs the standard library alone and imports none of the
packages.
"""

import json
import sys
from importlib import metadata, util

_PLUGINS = (
    *(f"jax-cuda{major}-plugin" for major in (11, 12, 13, 14)),
    *(f"jax-rocm{major}-plugin" for major in (6, 60, 61, 62, 7, 70, 8)),
    "libtpu",
    "libtpu-nightly",
)
_NVIDIA = tuple(
    f"nvidia-{part}{suffix}"
    for part in ("cuda-runtime", "cudnn")
    for suffix in ("", "-cu11", "-cu12", "-cu13", "-cu14")
)
NAMES = ("jax", "jaxlib", *_PLUGINS, *_NVIDIA)


def look() -> dict[str, object]:
    """Return Python's version, whether zstandard can be imported, and versions of packages that affect JAX's keys."""
    versions = {}
    for name in NAMES:
        try:
            versions[name] = metadata.version(name)
        except (metadata.PackageNotFoundError, OSError, ValueError, TypeError, KeyError):  # missing or torn metadata
            continue
    return {
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "zstandard": util.find_spec("zstandard") is not None,
        "versions": {name: version for name, version in versions.items() if isinstance(version, str)},
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look()))
