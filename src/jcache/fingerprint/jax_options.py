"""Options of JAX that decide what its functions compute, as parts of a fingerprint; JAX is not imported for them."""

import functools
import os
import sys
from collections.abc import Mapping
from typing import Final

from jcache.fingerprint.encoding import sha256, text
from jcache.jax_internals.registry import mesh_in_effect

_OPTIONS: Final[Mapping[str, str]] = {
    "jax_enable_x64": "False",
    "jax_default_matmul_precision": "None",
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_default_prng_impl": "threefry2x32",
    "jax_enable_custom_prng": "False",
    "jax_threefry_partitionable": "True",
    "jax_random_seed_offset": "0",
    "jax_high_dynamic_range_gumbel": "False",
    "jax_default_dtype_bits": "None",
    "jax_default_device": "None",
    "jax_disable_jit": "False",
    "jax_debug_nans": "False",
    "jax_debug_infs": "False",
    "jax_exec_time_optimization_effort": "0.0",
    "jax_memory_fitting_effort": "0.0",
    "jax_platforms": "None",
}
"""The options, with their defaults. The environment sets them until JAX is imported."""
_TRUTHS: Final = {"1": "True", "0": "False"}
_NO_MESH: Final = "none"
_USUAL: Final = (*_OPTIONS.values(), _NO_MESH)
_VARIABLES: Final = frozenset(option.upper().encode() for option in _OPTIONS)
_LABELS: Final = (*(f"environment {option}" for option in _OPTIONS), "environment mesh in effect")


def values() -> tuple[str, ...]:
    """Return the values of the options in this thread, or those that JAX will import with, and the mesh in effect."""
    config = getattr(sys.modules.get("jax"), "config", None)
    if config is not None:
        return (
            *[str(getattr(config, option, usual)) for option, usual in _OPTIONS.items()],
            mesh_in_effect() or _NO_MESH,
        )
    known = vars(os.environ).get("_data") if os.name == "posix" and type(os.environ) is os._Environ else None
    if known is not None and known.keys().isdisjoint(_VARIABLES):  # `io` need not record this read
        return _USUAL
    return (*[_set(option, usual) for option, usual in _OPTIONS.items()], _NO_MESH)


@functools.lru_cache(64)
def digests(taken: tuple[str, ...]) -> dict[str, tuple[bytes, str]]:
    """Return the digest and the text of each of the values that `values` returned, by the label of its part."""
    return {label: (sha256(text(value)), value) for label, value in zip(_LABELS, taken, strict=True)}


def _set(option: str, usual: str) -> str:
    value = os.environ.get(option.upper(), usual)
    return _TRUTHS.get(value, value) if usual in _TRUTHS.values() else value
