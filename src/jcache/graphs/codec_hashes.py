"""The hashes of a codec's functions, which are part of the key of each call.

They are computed again for each call, unless nothing can have changed: the functions reach only other functions of the
program, objects of libraries and plain constants, and all of these are the same objects as before.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable
from operator import is_
from types import FunctionType, ModuleType
from typing import Any, Final

from jcache.fingerprint import fingerprint, jax_options, name_resolution, origins
from jcache.fingerprint.code import meaning
from jcache.fingerprint.encoding import SCALARS

_LABELS: Final = (  # of parts that are looked at here
    "function", "helper ", "global ", "default ", "environment jax_", "environment mesh in effect",
)  # fmt: skip
_OPEN: Final = (globals, eval, exec, vars, os.environ, os.environb, os.getenv, os.getenvb, sys.modules)
_CONTAINERS: Final = (tuple, list, dict, set, frozenset)
_MOST: Final = 200  # objects


class CodecHashes:
    """The hashes of some functions, as they are at each call of this object.

    Args:
        functions: the functions.
    """

    def __init__(self, functions: tuple[Callable[..., Any], ...]) -> None:
        self._functions = functions
        self._known: tuple[tuple[str, ...], list[object], list[str]] | None = None

    def __call__(self) -> list[str]:
        """Return the hashes; raise GraphKeyError where a function has none."""
        options, reached = jax_options.values(), self._reached()
        known = self._known
        if reached is not None and known is not None and known[0] == options and _are_same(known[1], reached):
            return known[2]
        taken = [fingerprint(function) for function in self._functions]
        hashes = [each.hash for each in taken]
        is_constant = all(label.startswith(_LABELS) for each in taken for label in each.parts)
        self._known = (options, reached, hashes) if reached is not None and is_constant else None
        return hashes

    def _reached(self) -> list[object] | None:
        """Return all objects that the functions reach; None if one of them is mutable."""
        found: list[object] = []
        waiting: list[Any] = list(self._functions)
        while waiting:
            function = waiting.pop()
            if not _is_plain(function) or len(found) > _MOST:
                return None
            found += (function, function.__code__, function.__name__, function.__defaults__)
            for lookup in meaning(function.__code__).lookups:
                reached = name_resolution.find(lookup.chain, function.__globals__, vars(builtins))
                value = reached.value
                if type(value) is FunctionType and name_resolution.of_function(value) == origins.USER:
                    if not any(each is value for each in (*found, *waiting)):
                        waiting.append(value)
                elif not _is_constant(reached):
                    return None
                found.append(value)
        return found


def _is_plain(function: Any) -> bool:  # noqa: ANN401
    """Return whether a function is of the program, without a closure, attributes or mutable defaults."""
    return (
        type(function) is FunctionType
        and name_resolution.of_function(function) == origins.USER
        and not (function.__closure__ or function.__kwdefaults__ or function.__dict__)
        and all(type(each) in SCALARS for each in function.__defaults__ or ())
    )


def _is_constant(found: name_resolution.Resolved) -> bool:
    """Return whether an object is immutable, or counts by its name alone."""
    value = found.value
    if value is name_resolution.ABSENT or isinstance(value, name_resolution.Unimported) or found.loader is not None:
        return False
    if any(value is each for each in _OPEN):
        return False
    if type(value) in SCALARS:
        return True
    if isinstance(value, ModuleType):
        return origins.of_module(value) not in {origins.USER, origins.OURS}
    return found.origin not in {origins.USER, origins.OURS} and not isinstance(value, _CONTAINERS)


def _are_same(before: list[object], now: list[object]) -> bool:
    return len(before) == len(now) and all(map(is_, before, now))
