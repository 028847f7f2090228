"""Binding of arguments to the names of parameters, with defaults, as a call would bind them."""

# ruff: noqa: ANN401 - arguments are anything

import functools
import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from jcache.fingerprint import attributes
from jcache.fingerprint.bytecode import without_address
from jcache.fingerprint.name_resolution import of_function
from jcache.fingerprint.origins import USER


class Call(NamedTuple):
    """Callable and the arguments of its call."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def unfolded(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """Return a call without the partials and bound methods around its function: they only add arguments."""
    call = Call(function, tuple(args), dict(kwargs))
    while True:
        function = call.function
        if type(function) is functools.partial:
            given = {**function.keywords, **call.kwargs}
            call = Call(function.func, (*function.args, *call.args), given)
        elif type(function) is MethodType:
            call = Call(function.__func__, (function.__self__, *call.args), call.kwargs)
        else:
            return call


def bound(call: Call) -> list[tuple[str, Any]]:
    """Return the names and values of all parameters.

    If the parameters are unknown or do not fit the call, return the arguments as the call has them: positional ones by
    number. The name of a keyword argument that is bound to no parameter ends in ``=``, because a positional-only
    parameter may have the same name.
    """
    if type(call.function) is FunctionType:
        found = _bound(call.function, call.args, dict(call.kwargs))
        if found is not None:
            return found
    return [*((str(number), value) for number, value in enumerate(call.args)), *_keywords(call.kwargs)]


def defaults_of(function: FunctionType) -> dict[str, Any]:
    """Return the defaults of a function's parameters: of positional ones in their order, then of others by name."""
    found, given, code = dict[str, Any](), function.__defaults__, function.__code__
    if given:
        count = code.co_argcount
        found.update(zip(code.co_varnames[max(count - len(given), 0) : count], given[-count:], strict=False))
    if function.__kwdefaults__:
        found.update(sorted(function.__kwdefaults__.items(), key=lambda each: without_address(each[0])))
    return found


def _bound(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]] | None:
    code = function.__code__
    count, more = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names, defaults = code.co_varnames, defaults_of(function)
    found = list(zip(names[:count], args, strict=False))
    for at in range(len(found), more):
        name = names[at]
        if name in kwargs and at >= code.co_posonlyargcount:
            found.append((name, kwargs.pop(name)))
        elif name in defaults:
            found.append((name, defaults[name]))
        else:
            return None
    found = [(without_address(name), value) for name, value in found]
    if not more and args and attributes.is_of_linen(type(args[0])) and of_function(function) != USER:
        found, args = [("self", args[0])], args[1:]  # a method of flax, around which is a function of flax
    return _rest(code.co_flags, names[more:], found, args[count:], kwargs)


def _rest(
    flags: int, names: tuple[str, ...], found: list[tuple[str, Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[str, Any]] | None:
    if flags & inspect.CO_VARARGS:
        found.append((f"*{names[0]}", args))
    elif args:
        return None
    if kwargs and not flags & inspect.CO_VARKEYWORDS:
        return None
    found.extend(_keywords(kwargs))
    return found


def _keywords(kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(f"{name}=", value) for name, value in sorted(kwargs.items())]
