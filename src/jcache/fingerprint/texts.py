"""Values that come back from a text: bytes, paths, types of arrays, loggers, and locks that nobody holds."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import pathlib
import sys
import threading
from typing import Any, Final

_BYTES: Final = "bytes"
_COMPLEX: Final = "complex"
_FLOAT: Final = "float"
_PATH: Final = "path"
_LOCK: Final = "lock"
_LOGGER: Final = "logger"
_DTYPE: Final = "dtype"
_KINDS: Final[dict[type, str]] = {
    bytes: _BYTES,
    complex: _COMPLEX,
    float: _FLOAT,  # one that is not finite, which JSON lacks
    type(pathlib.Path()): _PATH,
    type(threading.Lock()): _LOCK,
}


def written(value: Any) -> list[str] | None:
    """Return the name of a value's kind and a text; None if a value has none."""
    kind = _KINDS.get(type(value))
    logging, numpy = sys.modules.get("logging"), sys.modules.get("numpy")
    if kind == _LOCK:
        return None if value.locked() else [kind, ""]
    if kind == _PATH:
        return [kind, str(value)]
    if kind is not None:
        return [kind, value.hex() if kind == _BYTES else repr(value)]
    if logging is not None and type(value) is logging.Logger:
        return [_LOGGER, value.name] if logging.getLogger(value.name) is value else None
    if numpy is not None and issubclass(type(value), numpy.dtype):
        return [_DTYPE, value.str] if value.fields is None and numpy.dtype(value.str) == value else None
    return None


def read(kind: str, text: str) -> Any:
    """Return a value; raise KeyError, TypeError or ValueError if there is none of this kind and text."""
    modules: Any = sys.modules
    if kind in {_LOGGER, _DTYPE}:
        return modules["logging"].getLogger(text) if kind == _LOGGER else modules["numpy"].dtype(text)
    readers: Any = {
        _BYTES: bytes.fromhex, _COMPLEX: complex, _FLOAT: float, _PATH: pathlib.Path, _LOCK: lambda _: threading.Lock()
    }  # fmt: skip
    return readers[kind](text)
