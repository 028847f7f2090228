"""Conversion of jax arrays to numpy arrays and back; JAX is imported only for a graph that has some."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jcache.errors import Unresolved
from jcache.formats.pytrees.grammar import Unsupported

if TYPE_CHECKING:
    import numpy as np

# ruff: noqa: ANN401 - JAX's internals have no stable types


def to_numpy(array: Any) -> tuple[np.ndarray[Any, Any], dict[str, object] | None]:
    """Return an array's data, and the node of an array of random keys, None for an array of numbers.

    Raises:
        Unsupported: it cannot be stored.
    """
    import numpy as np

    jax = sys.modules["jax"]
    if isinstance(array, jax.core.Tracer):
        raise Unsupported("is a value that JAX is tracing and has no numbers yet", "call it outside of `jax.jit`")
    if array.is_deleted():
        raise Unsupported("was deleted or donated", "return one that was not")
    if not array.is_fully_addressable or len(array.devices()) != 1:
        raise Unsupported("lies on more than one device")
    if not jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return np.asarray(array), None
    spec = jax.random.key_impl(array)
    implementation = spec if isinstance(spec, str) else getattr(getattr(spec, "_impl", None), "name", None)
    with jax.ensure_compile_time_eval():  # also within a function that JAX is tracing
        data = jax.random.key_data(array)
    try:
        known = isinstance(implementation, str) and keys_of(data, implementation).dtype == array.dtype
    except Unresolved:
        known = False
    if not known:
        raise Unsupported("holds random keys of an implementation that JAX does not know by name")
    return np.asarray(data), {"$key": [implementation, list(data.shape)]}


def from_numpy(view: np.ndarray[Any, Any], *, weak: bool) -> Any:
    """Return a jax array of numbers.

    Raises:
        Unresolved: this JAX, in its configuration, has no such array.
    """
    import jax

    if jax.dtypes.canonicalize_dtype(view.dtype) != view.dtype:
        raise Unresolved(f"A jax array of {view.dtype} needs JAX's option `jax_enable_x64`.")
    with jax.ensure_compile_time_eval():
        array = jax.device_put(view)  # `jax.numpy.asarray` may compile a program
        if weak:
            array = _weakened(array)
    if array.dtype != view.dtype or bool(array.weak_type) is not weak:
        raise Unresolved(f"This JAX makes no {'weakly typed ' if weak else ''}array of {view.dtype}.")
    return array


def _weakened(array: Any) -> Any:
    """Return the same array with a weak type, which JAX's public functions give to Python's numbers only."""
    try:
        return type(array)(array.aval.update(weak_type=True), array.sharding, [array], committed=False)
    except (AttributeError, TypeError):
        return array  # the caller refuses it


def keys_of(data: Any, implementation: str) -> Any:
    """Return an array of random keys.

    Raises:
        Unresolved: this JAX has no such keys.
    """
    import jax

    try:
        with jax.ensure_compile_time_eval():
            return jax.random.wrap_key_data(jax.device_put(data), impl=implementation)
    except (ValueError, TypeError, AttributeError) as error:
        raise Unresolved(f"This JAX has no random keys of the implementation '{implementation}'.") from error
