"""What code asks of something through the functions of the user's to which it passes it."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, Final

from jcache.fingerprint import name_resolution, origins
from jcache.fingerprint.asks import is_within
from jcache.fingerprint.code import meaning_of
from jcache.fingerprint.receivers import COMPARED, GLOBAL, METHOD, NAMED, PASSED, Passed

_ASKS_BY_NAME: Final = (getattr, hasattr, isinstance, issubclass, callable, type, id)
_PASS_ON: Final = frozenset({"jax", "jaxlib", "flax", "equinox", origins.OURS})
_RECEIVERS: Final = {("self",), ("cls",)}
Methods = Mapping[str, Sequence[FunctionType]]
Seen = Mapping[tuple[CodeType, str], str]
_NO_METHODS: Final[Methods] = MappingProxyType({})
_NONE: Final[Seen] = MappingProxyType({})


def followed(
    function: FunctionType, name: str, passed: Passed, methods: Methods = _NO_METHODS, seen: Seen = _NONE
) -> Iterator[tuple[str, str | None]]:
    """Yield the names of what a function passes on, and of items in it, each with what it is asked for there.

    Args:
        function: the function.
        name: the name of what it passes.
        passed: to what it passes that.
        methods: the functions of the user's that may be methods, by their names.
        seen: parameters that have been looked at, each with the name of what it was then.
    """
    is_known = passed.kind != METHOD and (not passed.wrapper or _is_wrapper(function, passed.wrapper))
    found = methods.get(passed.chain[0], []) if passed.kind == METHOD else [_found(function, passed)]
    if not is_known:
        yield name, PASSED
    for each in found:
        is_users = type(each) is FunctionType and name_resolution.of_function(each) == origins.USER
        taking = _parameters(each.__code__, passed) if is_users else []
        if not taking:
            yield name, PASSED if is_users else _asked_by(each, passed.chain[-1])
        for parameter in taking:
            before = seen.get((each.__code__, parameter))
            if before is None:
                known = {**seen, (each.__code__, parameter): name}
                yield from _of_parameter(each, parameter, name, methods, known)
            elif before != name:  # an item of what the function is passed, and so on
                yield name, None


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


def _asked_by(value: Any, name: str) -> str:
    """Return what a callable asks of what it is passed, which is no function of the user's.

    Known to read no more than attributes by their names are what JAX makes of functions, functions of JAX, flax and
    equinox, and a class of the user's; and of Python's functions those that ask for an attribute by a name, if code
    calls them by their own names.
    """
    if any(value is each for each in _ASKS_BY_NAME):
        return NAMED if name == value.__name__ else COMPARED
    if value is None or value is functools.partial:
        return PASSED
    home = value.__module__ if isinstance(value, type | FunctionType) else type(value).__module__
    origin = origins.of_module_named(str(home))
    return PASSED if (isinstance(value, type) and origin == origins.USER) or origin in _PASS_ON else COMPARED


def _parameters(code: CodeType, passed: Passed) -> list[str]:
    """Return the names of the parameters that may take an argument; none if it goes to ``*args`` or ``**kwargs``."""
    names, argument = code.co_varnames, passed.argument
    if isinstance(argument, int):
        shifts = {False} if passed.kind != METHOD else {True} if names[:1] in _RECEIVERS else {False, True}
        return [names[argument + shift] for shift in shifts if argument + shift < code.co_argcount]
    takes = names[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]
    return [argument] if argument in takes else []


def _is_wrapper(function: FunctionType, chain: tuple[str, ...]) -> bool:
    """Return whether a name is that of `functools.partial`, or of one of JAX's functions that make another function."""
    live: Any = function
    found = name_resolution.find(chain, function.__globals__, live.__builtins__).value
    jax: Any = sys.modules.get("jax")
    return found is functools.partial or (found is not None and found is getattr(jax, chain[-1], None))
