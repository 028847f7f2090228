"""The options of JAX that `jcache.enable` sets for each preset, and the ones that the environment overrides.

Each option belongs to JAX, and has an environment variable of its name in capitals. The user who runs the program sets
such a variable, so it wins over a preset; so does a value that the program itself has set.
"""

import os
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from jcache.frozen import Frozen

Value = bool | int | float | str


class Preset(StrEnum):
    """A program's choice of settings for JAX's cache and compiler.

    Attributes:
        BALANCED: every executable is stored, however small and fast to compile; the compiler's options stay.
        MAX_PERFORMANCE: the same, with ``jax_optimization_level="O2"`` (jax >= 0.6.2): XLA's compilers for GPUs
            and TPUs spend more time on faster executables. On the CPU this changes nothing but the keys.
        FAST_COMPILE: the same, with ``jax_disable_most_optimizations``: less time to compile, for slower executables
            whose results differ in the last bits. For development.

    The other two change the keys: an entry that was stored under one preset is not hit under another.
    """

    BALANCED = "balanced"
    MAX_PERFORMANCE = "max_performance"
    FAST_COMPILE = "fast_compile"


ENABLE_OPTION: Final = "jax_enable_compilation_cache"
FALSE_TEXTS: Final = ("n", "no", "f", "false", "off", "0")  # as JAX reads a variable; every other text is true
RUN_CACHE: Final = "JCACHE_RUN_CACHE"  # the directory of executables, under `jcache run`
RUN_BOUND: Final = "JCACHE_RUN_MAX_SIZE"  # the bound that `jcache run` has put into JAX's variable
OFF_BY_RUN: Final = "n"  # the value by which `jcache run` turns JAX's cache off: a rare spelling of false

STORE_EVERYTHING: Final[Mapping[str, Value]] = Frozen(
    {
        ENABLE_OPTION: True,
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,  # not 0, for which JAX uses its own minimum
    }
)
_DEFAULTS: Final[dict[str, Value]] = {
    ENABLE_OPTION: True,
    "jax_persistent_cache_min_compile_time_secs": 1.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_optimization_level": "UNKNOWN",
    "jax_disable_most_optimizations": False,
}
JAX_DEFAULTS: Final[Mapping[str, Value]] = Frozen(_DEFAULTS)  # the same in jax 0.4.31 to 0.12
SETTINGS: Final[Mapping[Preset, Mapping[str, Value]]] = Frozen(
    {
        Preset.BALANCED: STORE_EVERYTHING,
        Preset.MAX_PERFORMANCE: Frozen({**STORE_EVERYTHING, "jax_optimization_level": "O2"}),
        Preset.FAST_COMPILE: Frozen({**STORE_EVERYTHING, "jax_disable_most_optimizations": True}),
    }
)


def is_off_by_run(environment: Mapping[str, str]) -> bool:
    """Return whether `jcache run` has turned JAX's cache off for processes that do not check what JAX reads from it."""
    return environment.get(ENABLE_OPTION.upper()) == OFF_BY_RUN and bool(environment.get(RUN_CACHE))


def overridden(preset: Preset, environment: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the options of a preset that the environment sets, and that jcache therefore does not set."""
    ours = {ENABLE_OPTION} if is_off_by_run(environment) else set()
    return frozenset(option for option in SETTINGS[preset] if environment.get(option.upper()) and option not in ours)
