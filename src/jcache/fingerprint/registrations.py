"""How JAX flattens the instances of a class: the functions that it was registered with."""

from typing import Any

from jcache.jax_internals.registry import registry


def registered(cls: type) -> tuple[Any, ...]:
    """Return the functions that flatten and unflatten the instances of a class; none if JAX has none for it."""
    return tuple(registry().get(cls, ()))
