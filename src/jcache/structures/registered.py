"""What a program has registered its classes of pytrees with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import FunctionType, MethodType

from jcache.errors import NotStorable
from jcache.fingerprint import digest_of


def registered_by(cls: type) -> list[str]:
    """A digest of the functions that a class was registered with; nothing if these are methods of its own.

    Raises:
        NotStorable: they have none.
    """
    functions = list(functions_of(cls))
    digest = digest_of(functions) if functions else b""
    if digest is None:
        raise NotStorable(f"{cls.__qualname__} is taken apart by functions that have no key")
    return [digest.hex()] if digest else []


def functions_of(cls: type) -> Iterator[object]:
    """What the program has registered to take instances apart and to put them together, but for methods of theirs."""
    from jax._src import tree_util

    waiting = list(getattr(tree_util, "_registry", {}).get(cls, ()))
    while waiting:
        function = waiting.pop(0)
        if isinstance(function, partial):
            waiting.append(function.func)
        elif isinstance(function, MethodType) and function.__self__ is not cls:
            yield function
        elif isinstance(function, FunctionType):
            if (function.__module__ or "").startswith("jax."):  # around the program's functions, if it has given any
                waiting.extend(cell.cell_contents for cell in function.__closure__ or ())
            elif not function.__code__.co_filename.startswith("<generated_"):  # equinox's, made of the fields
                yield function
