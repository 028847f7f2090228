"""Dependencies that a program declares: callables without arguments whose values count in the key."""

# ruff: noqa: ANN401 - the values are anything

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Final, NamedTuple

from jcache.errors import GraphKeyError, InvalidValue
from jcache.fingerprint.arguments import unfolded

ATTRIBUTE: Final = "__depends_on__"
"""Attribute in which the functions made by `jcache.jit` and `jcache.graph` keep their dependencies."""


class Dependency(NamedTuple):
    """Callable without arguments whose value counts, and its name in messages."""

    name: str
    call: Callable[[], Any]

    def value(self) -> Any:
        """Return the callable's present value, a concrete one even while JAX is tracing.

        Raises:
            GraphKeyError: the callable raised an exception.
        """
        jax = sys.modules.get("jax")
        try:
            with nullcontext() if jax is None else jax.ensure_compile_time_eval():
                return self.call()
        except Exception as error:
            raise GraphKeyError(f"depends_on `{self.name}` raised {type(error).__name__}: {error}.") from error


def parse_depends_on(given: Callable[[], Any] | Iterable[Callable[[], Any]]) -> tuple[Dependency, ...]:
    """Return the dependencies in the option ``depends_on``: one callable, or several.

    Raises:
        InvalidValue: one of them cannot be called.
    """
    each = [given] if callable(given) else list(given) if isinstance(given, Iterable) else [given]
    for one in each:
        if not callable(one):
            raise InvalidValue(f"depends_on={one!r} cannot be called: give a function that returns what counts.")
    return tuple(Dependency(_name(one), one) for one in each)


def _name(function: Any) -> str:
    inner = unfolded(function, (), {}).function
    return str(getattr(inner, "__qualname__", None) or type(inner).__qualname__).replace("<locals>.", "")
