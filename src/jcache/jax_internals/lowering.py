"""Detect programs that have primitives with lowering rules of the user's.

JAX calls a lowering rule after the code that a function runs has been recorded, and a served program is never lowered,
so changes in a rule would go unnoticed. The functions import JAX, so that importing this module costs nothing.
"""

# ruff: noqa: ANN401 - JAX's internals have no stable types

import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from jcache.fingerprint.name_resolution import is_made_of_users
from jcache.fingerprint.weak_map import WeakIdentities

_MAX_FOUND: Final = 64


class _ThreadFindings(threading.local):
    """The programs with such rules that this thread has lowered, and the names of the primitives."""

    def __init__(self) -> None:
        self.found: deque[tuple[Any, str]] = deque(maxlen=_MAX_FOUND)


_thread = _ThreadFindings()
_known: Final[WeakIdentities[tuple[list[Any], bool]]] = WeakIdentities()


def note_own_rules(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return JAX's function that lowers equations, except that it notes primitives with rules of the user's."""

    def jaxpr_subcomp(ctx: Any, jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        for primitive in {equation.primitive for equation in jaxpr.eqns}:
            if _is_users(primitive):
                _thread.found.append((ctx.module, primitive.name))
        return original(ctx, jaxpr, *args, **kwargs)

    return jaxpr_subcomp


def own_rule(module: Any) -> str | None:
    """Return the reason why a lowered program must not be stored because of its rules, None if there is none."""
    for lowered, name in _thread.found:
        if lowered.operation == module.operation:
            return f"it uses the primitive {name!r}, whose lowering is the program's own"
    return None


def _is_users(primitive: Any) -> bool:
    rules = _rules(primitive)
    known = _known.get(primitive)
    if known is None or known[0] != rules:
        made_of = [primitive, *filter(callable, vars(primitive).copy().values()), *_unfolded(rules)]
        known = rules, any(is_made_of_users(each) for each in made_of)
        _known.put(primitive, known)
    return known[1]


def _rules(primitive: Any) -> list[Any]:
    from jax._src.interpreters import mlir

    tables: list[Any] = [mlir._lowerings, *mlir._platform_specific_lowerings.copy().values()]
    entries = (table[primitive] for table in tables if primitive in table)
    return [getattr(entry, "rule", entry) for entry in entries]


def _unfolded(rules: Iterable[Any]) -> list[Any]:
    """Return rules, and the functions among the arguments of partial rules."""
    found: list[Any] = []
    for rule in rules:
        found.append(rule)
        if isinstance(rule, partial):
            found += filter(callable, (*rule.args, *rule.keywords.values()))
    return found
