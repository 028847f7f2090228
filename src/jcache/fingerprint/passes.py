"""What code asks of something through the functions of the user's to which it passes it."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, Final

from jcache.fingerprint import name_resolution, origins
from jcache.fingerprint.asks import COMPARED, PASSED, Passed, is_within
from jcache.fingerprint.code import meaning_of

_ASKS_BY_NAME: Final = (getattr, hasattr, isinstance, issubclass, callable, type, id, functools.partial)
_PASS_ON: Final = frozenset({"jax", "jaxlib", "flax", "equinox", origins.OURS})
Seen = frozenset[tuple[CodeType, str]]
_NONE: Final[Seen] = frozenset()


def followed(function: FunctionType, name: str, passed: Passed, seen: Seen = _NONE) -> Iterator[tuple[str, str | None]]:
    """Yield the names of what a function passes on, and of items in it, each with what it is asked for there.

    Args:
        function: the function.
        name: the name of what it passes.
        passed: to what it passes that.
        seen: parameters that have been looked at.
    """
    found = _found(function, passed)
    is_users = type(found) is FunctionType and name_resolution.of_function(found) == origins.USER
    callee = found if is_users else None
    parameter = None if callee is None else _parameter(callee.__code__, passed.argument)
    if callee is None or parameter is None:
        yield name, PASSED if is_users or _passes_on(found) else COMPARED
    elif (callee.__code__, parameter) not in seen:
        seen |= {(callee.__code__, parameter)}
        for inner, asks in meaning_of(callee).asks().of_parameters.items():
            for each in asks if is_within(inner, parameter) else ():
                derived = name + inner[len(parameter) :]
                if isinstance(each, Passed):
                    yield from followed(callee, derived, each, seen)
                else:
                    yield derived, each


def _found(function: FunctionType, passed: Passed) -> Any:
    """Return what a function passes something to; None if that is not known."""
    if passed.is_global:
        live: Any = function  # some versions of typeshed lack `__builtins__`
        return name_resolution.find(passed.chain, function.__globals__, live.__builtins__).value
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    name, *attributes = passed.chain
    return name_resolution.content_of(cells[name]) if name in cells and not attributes else None


def _passes_on(value: Any) -> bool:
    """Return whether a callable is known to read no more of what it is passed than attributes by their names.

    That is a class of the user's, what JAX makes of functions, a function of JAX, flax or equinox, or one of Python's
    that asks for an attribute by a name: what computes that counts anyway.
    """
    if value is None or any(value is each for each in _ASKS_BY_NAME):
        return True
    home = value.__module__ if isinstance(value, type | FunctionType) else type(value).__module__
    origin = origins.of_module_named(str(home))
    return (isinstance(value, type) and origin == origins.USER) or origin in _PASS_ON


def _parameter(code: CodeType, argument: int | str) -> str | None:
    """Return the name of the parameter that takes an argument; None if it goes to ``*args`` or ``**kwargs``."""
    if isinstance(argument, int):
        return code.co_varnames[argument] if argument < code.co_argcount else None
    takes = code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    return argument if argument in takes else None
