"""The versions of JAX at which a behaviour changed that jcache depends on.

The recorder of `jcache run` loads this module in every program that imports JAX, so it imports nothing.
"""

NEWEST_TESTED = (0, 12)  # the newest jax that jcache was tested with

# with default settings; `path_keys` knows the others
KEYS_WITH_PATHS = (0, 4, 36)  # from here on, every key depends on the path of the cache directory
KEYS_WITHOUT_PATHS = (0, 11)  # from here on, no key does

CALLBACKS_NUMBERED = (0, 6, 0)  # before, a program and its key hold the addresses of its host callbacks
CALLBACKS_BOUND_ON_LOADING = (0, 8, 1)  # before, jaxlib gives no host callbacks to an executable that it loads
CALLBACKS_CACHED_BY_JAX = (0, 11, 0)  # from here on, JAX itself stores and loads programs with host callbacks

ZSTD_OF_PYTHON = (0, 7, 1)  # from here on, JAX compresses with Python's own zstd module, where there is one (3.14)


def can_bind_callbacks(version: "tuple[int, ...]") -> bool:
    """Return whether jcache can have JAX of this version cache programs with host callbacks."""
    return CALLBACKS_BOUND_ON_LOADING <= version < CALLBACKS_CACHED_BY_JAX
