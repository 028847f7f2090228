"""What is installed for an interpreter, from the metadata; a program of its own, with the standard library alone.

``python _installed.py`` prints it as JSON, so that it can be asked of an interpreter that has no jcache. Nothing of
what it looks for is imported.
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
    """Version of Python, whether zstandard can be imported, and versions of the packages that matter to JAX's keys."""
    versions = {}
    for name in NAMES:
        try:
            versions[name] = metadata.version(name)
        except (metadata.PackageNotFoundError, OSError, ValueError, TypeError, KeyError):  # also of torn metadata
            continue
    return {
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "zstandard": util.find_spec("zstandard") is not None,
        "versions": {name: version for name, version in versions.items() if isinstance(version, str)},
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look()))
