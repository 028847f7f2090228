"""The values that a program itself says a result depends on: it gives callables that return them."""

# ruff: noqa: ANN401 - the values are anything

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Final, NamedTuple

from jcache.errors import GraphKeyError, InvalidValue
from jcache.fingerprint.arguments import unfolded

ATTRIBUTE: Final = "__depends_on__"
"""The attribute in which what `jcache.jit` and `jcache.graph` return keeps its dependencies."""


class Dependency(NamedTuple):
    """A callable whose value counts.

    Attributes:
        name: its name in messages.
        call: the callable; it takes no arguments.
    """

    name: str
    call: Callable[[], Any]

    def value(self) -> Any:
        """Return what the callable returns now; where JAX traces, it computes with values all the same.

        Raises:
            GraphKeyError: the callable raised.
        """
        jax = sys.modules.get("jax")
        try:
            with nullcontext() if jax is None else jax.ensure_compile_time_eval():
                return self.call()
        except Exception as error:
            raise GraphKeyError(f"depends_on `{self.name}` raised {type(error).__name__}: {error}.") from error


def parse_depends_on(given: Callable[[], Any] | Iterable[Callable[[], Any]]) -> tuple[Dependency, ...]:
    """Return the dependencies that the option ``depends_on`` of `jcache.jit` and `jcache.graph` names.

    Raises:
        InvalidValue: it is neither a callable nor several of them.
    """
    each = [given] if callable(given) else list(given) if isinstance(given, Iterable) else [given]
    for one in each:
        if not callable(one):
            raise InvalidValue(f"depends_on={one!r} cannot be called: give a function that returns what counts.")
    return tuple(Dependency(_name(one), one) for one in each)


def _name(function: Any) -> str:
    inner = unfolded(function, (), {}).function
    return str(getattr(inner, "__qualname__", None) or type(inner).__qualname__).replace("<locals>.", "")
