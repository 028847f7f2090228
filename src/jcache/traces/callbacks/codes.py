"""The code of nested functions, found in a module by qualified name and digest."""

# ruff: noqa: ANN401 - modules hold anything

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from jcache.errors import NotStorable, Unresolved
from jcache.fingerprint.bytecode import signature
from jcache.fingerprint.describe import vars_of
from jcache.fingerprint.name_resolution import content_of

_MAX_DEPTH: Final = 6


def digest_of(code: CodeType) -> str:
    """Return the digest of a code object, which does not depend on its lines in the file."""
    return signature(code).hex()[:32]


def place_of(function: FunctionType) -> tuple[str, str, str, int]:
    """Return the place of a function's code, by which `code_at` finds it in another process.

    Returns:
        The name of the module, the qualified name, the digest, and the number among codes with this name and digest.

    Raises:
        NotStorable: the code would not be found there.
    """
    name, code = str(function.__globals__.get("__name__")), function.__code__
    module = sys.modules.get(name)
    digest = digest_of(code)
    if module is not None and function.__globals__ is vars(module):
        for number, found in enumerate(_codes(module, code.co_qualname, digest)):
            if found is code:
                return name, code.co_qualname, digest, number
    raise NotStorable(f"the code of `{code.co_qualname}` cannot be found again in `{name}`")


def code_at(name: str, qualname: str, digest: str, number: int) -> tuple[CodeType, dict[str, Any]]:
    """Return the code at a place, and the globals of its module.

    Raises:
        Unresolved: the module is not imported, or has no such code.
    """
    module = sys.modules.get(name)
    if not isinstance(module, ModuleType):
        raise Unresolved(f"`{name}`, which has `{qualname}`, is not imported.")
    for at, found in enumerate(_codes(module, qualname, digest)):
        if at == number:
            return found, vars(module)
    raise Unresolved(f"`{qualname}` of `{name}` is another one, or gone.")


def _codes(module: ModuleType, qualname: str, digest: str) -> Iterator[CodeType]:
    own = vars(module)
    top = qualname.partition(".")[0]
    seen: set[int] = set()
    for value in [own[top]] if top in own else own.copy().values():
        for code in _within(value, module.__name__, seen, _MAX_DEPTH):
            if code.co_qualname == qualname and digest_of(code) == digest:
                yield code


def _within(value: Any, home: str, seen: set[int], depth: int) -> Iterator[CodeType]:
    """Yield the code objects in a value, with those nested in them.

    Args:
        value: the value of a global, or a part of it.
        home: the name of the module; of classes, only those of this module are searched.
        seen: the ids of values and codes that were searched already.
        depth: how many levels may be searched.
    """
    if id(value) in seen or depth == 0:
        return
    seen.add(id(value))
    if isinstance(value, FunctionType):
        yield from _nested(value.__code__, seen)
        below = [*filter(callable, map(content_of, value.__closure__ or ())), *vars(value).copy().values()]
    elif isinstance(value, type):
        below = [*vars(value).copy().values()] if value.__module__ == home else []
    elif isinstance(value, staticmethod | classmethod | MethodType):
        below = [value.__func__]
    elif isinstance(value, property):
        below = [value.fget, value.fset, value.fdel]
    elif isinstance(value, functools.partial):
        below = [value.func]
    else:
        below = [] if isinstance(value, ModuleType) else [each for each in vars_of(value).values() if callable(each)]
    for each in below:
        yield from _within(each, home, seen, depth - 1)


def _nested(code: CodeType, seen: set[int]) -> Iterator[CodeType]:
    if id(code) not in seen:
        seen.add(id(code))
        yield code
        for each in code.co_consts:
            if isinstance(each, CodeType):
                yield from _nested(each, seen)
