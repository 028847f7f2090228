"""What code asks of something through the functions of the user's to which it passes it."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, Final

from jcache.fingerprint import name_resolution, origins
from jcache.fingerprint.asks import COMPARED, GLOBAL, METHOD, PASSED, Passed, is_within
from jcache.fingerprint.code import meaning_of

_ASKS_BY_NAME: Final = (getattr, hasattr, isinstance, issubclass, callable, type, id, functools.partial)
_PASS_ON: Final = frozenset({"jax", "jaxlib", "flax", "equinox", origins.OURS})
_RECEIVERS: Final = {("self",), ("cls",)}
Methods = Mapping[str, Sequence[FunctionType]]
Seen = frozenset[tuple[CodeType, str]]
_NO_METHODS: Final[Methods] = MappingProxyType({})
_NONE: Final[Seen] = frozenset()


def followed(
    function: FunctionType, name: str, passed: Passed, methods: Methods = _NO_METHODS, seen: Seen = _NONE
) -> Iterator[tuple[str, str | None]]:
    """Yield the names of what a function passes on, and of items in it, each with what it is asked for there.

    Args:
        function: the function.
        name: the name of what it passes.
        passed: to what it passes that.
        methods: the functions of the user's that may be methods, by their names.
        seen: parameters that have been looked at.
    """
    if passed.kind == METHOD:
        found: Sequence[Any] = methods.get(passed.chain[0], [])
        if not found:
            yield name, PASSED
    else:
        found = [_found(function, passed)]
    for each in found:
        is_users = type(each) is FunctionType and name_resolution.of_function(each) == origins.USER
        parameter = _parameter(each.__code__, passed) if is_users else None
        if parameter is None:
            yield name, PASSED if is_users or _passes_on(each) else COMPARED
        elif (each.__code__, parameter) not in seen:
            yield from _of_parameter(each, parameter, name, methods, seen | {(each.__code__, parameter)})


def _of_parameter(
    function: FunctionType, parameter: str, name: str, methods: Methods, seen: Seen
) -> Iterator[tuple[str, str | None]]:
    for inner, asks in meaning_of(function).asks().of_parameters.items():
        for each in asks if is_within(inner, parameter) else ():
            derived = name + inner[len(parameter) :]
            if isinstance(each, Passed):
                yield from followed(function, derived, each, methods, seen)
            else:
                yield derived, each


def _found(function: FunctionType, passed: Passed) -> Any:
    """Return what a function passes something to; None if that is not known."""
    if passed.kind == GLOBAL:
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


def _parameter(code: CodeType, passed: Passed) -> str | None:
    """Return the name of the parameter that takes an argument; None if it goes to ``*args`` or ``**kwargs``."""
    names, argument = code.co_varnames, passed.argument
    if isinstance(argument, int):
        argument += passed.kind == METHOD and names[:1] in _RECEIVERS
        return names[argument] if argument < code.co_argcount else None
    takes = names[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    return argument if argument in takes else None
