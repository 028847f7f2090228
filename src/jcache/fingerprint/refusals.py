"""Values that count by their type alone, and values that cannot be fingerprinted."""

import io
import sys
import types
import weakref
from typing import Any, Final

WAY_OUT: Final = "give its class `__cache_key__`, call `jcache.register_key`, or pass in what it is made of"
_BESIDE: Final = frozenset(
    {"_thread", "threading", "logging", "asyncio", "_asyncio", "concurrent", "contextvars", "_contextvars", "socket",
     "_socket", "ssl", "subprocess", "multiprocessing", "queue", "_queue", "tqdm", "rich", "loguru", "structlog"}
)  # fmt: skip
_BESIDE_TYPES: Final = (types.FrameType, types.TracebackType)
_WITH_CONTENT: Final = (BaseException, tuple, list, dict)
_STAGES: Final = ("Lowered", "Compiled")  # of `jax.stages`
_GENERATORS: Final = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class Refused(Exception):
    """Error for a value that cannot be fingerprinted.

    Args:
        value: the value.
        reason: why, as the end of a sentence.
        way_out: what to do instead.

    Attributes:
        path: how the value is reached from the one that was to be encoded, such as ``.a[0]``.
    """

    def __init__(self, value: Any, reason: str, way_out: str = WAY_OUT) -> None:  # noqa: ANN401
        super().__init__(reason)
        self.reason = reason
        self.type_name = type_name(type(value))
        self.path = ""
        self.way_out = way_out

    def below(self, step: str) -> "Refused":
        """Return this error with a step put before its path, as the holder of the value sees it."""
        self.path = step + self.path
        return self


def type_name(cls: type) -> str:
    """Return the name of a class as messages show it."""
    module = getattr(cls, "__module__", "builtins")
    name = getattr(cls, "__qualname__", cls.__name__)
    return name if module == "builtins" else f"{name} in {module}"


def is_beside(value: Any) -> bool:  # noqa: ANN401
    """Return whether a value serves threads, logging, connections or the like, so that its type alone counts."""
    kind = type(value)
    if kind in _BESIDE_TYPES:
        return True
    homes = {str(each.__module__).partition(".")[0] for each in kind.__mro__}
    return not issubclass(kind, _WITH_CONTENT) and not _BESIDE.isdisjoint(homes)


def check(value: Any) -> None:  # noqa: ANN401
    """Raise `Refused` for a value that is used up by reading it, or that hides what it is made from."""
    if type(value) in _GENERATORS:
        raise Refused(value, "it is a generator, which reading uses up")
    if type(value) in weakref.ProxyTypes:
        raise Refused(value, "it is a weak proxy, which hides its object", "use the object itself, or a `weakref.ref`")
    name = type(value).__name__
    if name in _STAGES and getattr(sys.modules.get("jax.stages"), name, None) is type(value):
        raise Refused(value, "it holds a program that cannot be looked into", "use the jitted function itself")
    methods = {type(vars(cls)["__next__"]) for cls in type(value).__mro__ if "__next__" in vars(cls)}
    if methods - {types.FunctionType} and not issubclass(type(value), io.IOBase):
        raise Refused(value, "it is an iterator, which reading uses up")
