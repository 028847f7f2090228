"""The effects of programs, by name. The functions import JAX, so that importing this module costs nothing."""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import sys
from collections.abc import Iterable
from typing import Any

from jcache.errors import NotStorable


def names_of(effects: Iterable[Any]) -> tuple[str, ...]:
    """Return the names under which JAX has some effects; raise `NotStorable` for one that is not JAX's own."""
    return tuple(sorted(map(_name_of, effects)))


def named(names: Iterable[str]) -> list[Any]:
    """Return the effects of some names; raise `NotStorable` for one that this JAX does not have."""
    return [_named(name) for name in names]


def _name_of(effect: Any) -> str:
    module = type(effect).__module__
    for name, value in vars(sys.modules[module]).copy().items() if module.startswith("jax.") else ():
        if value is effect:
            return f"{module}:{name}"
    raise NotStorable(f"it has the effect {effect}")


def _named(text: str) -> Any:
    module, _, name = text.partition(":")
    effect = vars(sys.modules[module]).get(name) if module.startswith("jax.") and module in sys.modules else None
    if effect is None or _name_of(effect) != text:
        raise NotStorable(f"this JAX has no effect {text}")
    return effect
