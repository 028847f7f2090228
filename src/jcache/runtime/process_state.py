"""State of the process that a function may change while it is traced or built, and that a served call would not change.

These are JAX's options, what numpy does about errors, Python's recursion limit, and the levels of loggers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from jcache.fingerprint import jax_options

_OPTIONS = "JAX's options"
_ERRORS = "what numpy does about errors"
_LIMIT = "the recursion limit"


def taken() -> dict[str, object]:
    """Return the present state, by what it is about."""
    numpy: Any = sys.modules.get("numpy")
    state: dict[str, object] = {_OPTIONS: jax_options.values(), _LIMIT: sys.getrecursionlimit()}
    if hasattr(numpy, "geterr"):
        state[_ERRORS] = numpy.geterr()
    return state | _levels()


def changes_since(before: Mapping[str, object]) -> list[str]:
    """Return what has changed since a state was taken; what was not there then, as a new logger, has not."""
    now = taken()
    return [what for what, value in before.items() if now.get(what, value) != value]


def _levels() -> dict[str, object]:
    """Return the levels of the loggers that the process has."""
    logging: Any = sys.modules.get("logging")
    if not hasattr(logging, "root"):
        return {}
    known = {"the root logger": logging.root} | {f"the logger {n}": each for n, each in _loggers(logging)}
    return {f"the level of {name}": each.level for name, each in known.items() if hasattr(each, "level")}


def _loggers(logging: Any) -> list[tuple[str, object]]:  # noqa: ANN401
    return list(logging.root.manager.loggerDict.items())
