"""Whether an object of a recipe can change."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import enum
import sys
from typing import Any, Final

from jcache.fingerprint.attributes import is_of_linen

_CONSTANTS: Final = (int, float, complex, str, bytes, frozenset, range, slice)


def is_constant(value: Any) -> bool:
    """Return whether neither a value nor any part of it can change."""
    numpy, jax = sys.modules.get("numpy"), sys.modules.get("jax")
    if type(value) in _CONSTANTS or isinstance(value, enum.Enum):
        return True
    if numpy is not None and isinstance(value, numpy.generic):
        return True
    return jax is not None and isinstance(value, jax.Array) and not is_tracer(value)


def is_frozen(value: Any) -> bool:
    """Return whether an instance cannot change, or nobody changes it, as modules of linen."""
    parameters: Any = getattr(type(value), "__dataclass_params__", None)
    return (
        type(value).__name__ == "ShapeDtypeStruct"
        or is_of_linen(type(value))
        or (parameters is not None and bool(parameters.frozen))
    )


def is_tracer(value: Any) -> bool:
    """Return whether a value stands for an array while JAX traces; no other process has it."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)
