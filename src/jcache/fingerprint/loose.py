"""Values that a function can reach only by ways that its code does not name, as short digests.

They are no part of a key. Their digests tell whether such a value is the same as when a result was compared.
"""

# ruff: noqa: ANN401 - programs hold anything

import sys
import types
from typing import Any, Final

from jcache.fingerprint import origins
from jcache.fingerprint.bytecode import signature
from jcache.fingerprint.describe import shortened
from jcache.fingerprint.encoding import SCALARS, several, sha256, tagged, text
from jcache.fingerprint.refusals import type_name
from jcache.fingerprint.values import Encoder

_MOST: Final = 10_000  # values in one
_LARGE: Final = 1 << 20  # bytes of an array whose elements are not read


def loose_digest(value: Any) -> str:
    """Return a digest of a value, of its type alone where it cannot be read."""
    try:
        return shortened(sha256(_Loosely().encode(value)))
    except Exception:  # noqa: BLE001  whatever its own code raises
        return shortened(sha256(text(type_name(type(value)))))


class _Loosely(Encoder):
    """Encodes all attributes of an object, and functions, classes and modules by name."""

    def __init__(self) -> None:
        super().__init__()
        self._left = _MOST

    def encode(self, value: Any) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise RecursionError
        scalar = SCALARS.get(type(value))
        if scalar is not None:
            return scalar(value)
        if (getattr(value, "nbytes", None) or 0) > _LARGE:
            return text(f"{type_name(type(value))} {value.shape} {value.dtype}")
        return super().encode(value)

    def function(self, function: types.FunctionType) -> bytes:
        name = f"{function.__module__}.{function.__qualname__}"
        return several(b"function", [text(name), tagged(b"code", signature(function.__code__))])

    def class_(self, cls: type) -> bytes:
        return text(origins.path_of(cls))

    def module(self, module: types.ModuleType) -> bytes:
        return text(module.__name__)

    def named(self, value: Any) -> bytes | None:
        name, home = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
        is_there = isinstance(name, str) and getattr(sys.modules.get(str(home)), name, None) is value
        return text(f"{home}.{name}") if is_there else None

    def is_library(self, cls: type) -> bool:
        return True

    def library(self) -> None:
        pass

    def reading(self, value: Any) -> bytes:
        return text(str(value))

    def meet(self, value: Any) -> None:
        pass

    def set_aside(self, what: str, value: Any) -> None:
        pass
