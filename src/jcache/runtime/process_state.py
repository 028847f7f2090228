"""State of the process that a function may change while it is traced or built, and that a served call would not change.

These are settings of JAX, numpy, Python and its standard library: options, limits, filters of warnings, the levels of
loggers, handlers of signals, and the names of ``sys`` and ``builtins``.
"""

from __future__ import annotations

import builtins
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from jcache.fingerprint import jax_options

_ABSENT: Final = object()
_FILTERS: Final = "the filters of warnings"
_MODULES: Final = "the modules that are imported"
_WITHOUT_FILTERS: Final = ("jax.", "jaxlib.", "jcache.")  # which import more modules while they trace
_LAST: Final = "last_"  # names of sys that an interactive Python sets after an error
_STATES: Final[Mapping[str, Callable[[], object]]] = {
    "JAX's options": jax_options.values,
    "what numpy does about errors": lambda: _of("numpy", "geterr"),
    "how numpy prints arrays": lambda: repr(_of("numpy", "get_printoptions")),
    "the recursion limit": sys.getrecursionlimit,
    "how often threads are switched": sys.getswitchinterval,
    _FILTERS: lambda: [*warnings.filters],
    _MODULES: lambda: {name for name in [*sys.modules] if not name.startswith(_WITHOUT_FILTERS)},
    "which levels of logs are disabled": lambda: _of("logging", "root.manager.disable"),
    "the context of decimal numbers": lambda: _decimals(),
}
"""Functions that return a state, by what it is about."""


def taken() -> dict[str, object]:
    """Return the present state, by what it is about."""
    settings = {what: state() for what, state in _STATES.items()}
    return settings | _levels() | _signals() | _names()


def changes_since(before: Mapping[str, object]) -> list[str]:
    """Return what has changed since a state was taken, but for what modules bring that were imported meanwhile.

    That may be a new logger, a context of decimal numbers, or filters of warnings.
    """
    now = taken()
    left = {_MODULES} if now[_MODULES] == before[_MODULES] else {_MODULES, _FILTERS}
    known = {what: value for what, value in before.items() if value is not _ABSENT and what not in left}
    return [what for what, value in known.items() if now.get(what, value) != value]


def _of(module: str, path: str) -> Any:  # noqa: ANN401
    """Return a value of a module, or what it returns; `_ABSENT` if the module is not imported."""
    value: Any = sys.modules.get(module, _ABSENT)
    for name in path.split("."):
        value = getattr(value, name, _ABSENT)
    return value() if callable(value) else value


def _decimals() -> object:
    """Return what the arithmetic of decimal numbers does, without what has happened in it."""
    context: Any = _of("decimal", "getcontext")
    return context if context is _ABSENT else (context.prec, context.rounding, {**context.traps})


def _levels() -> dict[str, object]:
    """Return the levels of the loggers that the process has, and whether they log and pass on what they log."""
    logging: Any = sys.modules.get("logging")
    if not hasattr(logging, "root"):
        return {}
    known = {"the root logger": logging.root} | {f"the logger {n}": each for n, each in _loggers(logging)}
    return {
        f"the level of {name}": (each.level, each.propagate, each.disabled)
        for name, each in known.items()
        if isinstance(each, logging.Logger)
    }


def _loggers(logging: Any) -> list[tuple[str, object]]:  # noqa: ANN401
    return list(logging.root.manager.loggerDict.items())


def _signals() -> dict[str, object]:
    """Return the handlers of signals."""
    signal: Any = sys.modules.get("_signal")  # which makes no enums of what it returns
    numbers = range(1, signal.NSIG) if signal else ()
    return {f"the handler of signal {each}": signal.getsignal(each) for each in numbers}


class _Values(dict[str, object]):
    """Values by their names; two of these are equal if they have the very same values."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Values) or self.keys() != other.keys():
            return False
        return all(value is other[name] for name, value in self.items())

    __hash__ = None


def _names() -> dict[str, object]:
    """Return what all code finds in ``sys`` and ``builtins``."""
    return {
        f"`{module.__name__}`": _Values(each for each in [*vars(module).items()] if not each[0].startswith(_LAST))
        for module in (sys, builtins)
    }
