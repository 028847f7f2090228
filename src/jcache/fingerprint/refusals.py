"""What is told by its type alone, and what has no fingerprint, and why."""

import io
import types
from typing import Any, Final

WAY_OUT: Final = "give its class `__cache_key__`, call `jcache.register_key`, or pass in what it is made of"
_BESIDE: Final = frozenset(
    {"_thread", "threading", "logging", "asyncio", "_asyncio", "concurrent", "contextvars", "_contextvars", "socket",
     "_socket", "ssl", "subprocess", "multiprocessing", "queue", "_queue", "tqdm", "rich", "loguru", "structlog"}
)  # fmt: skip
_BESIDE_TYPES: Final = (types.FrameType, types.TracebackType, memoryview)


class Refused(Exception):
    """A value that cannot be fingerprinted, why (as the end of a sentence), and what to do."""

    def __init__(self, value: Any, reason: str, way_out: str = WAY_OUT) -> None:  # noqa: ANN401
        super().__init__(reason)
        self.reason = reason
        self.type_name = type_name(type(value))
        self.path = ""  # how it is reached from the value that was asked about, as ``.a[0]``
        self.way_out = way_out

    def below(self, step: str) -> "Refused":
        """The same, seen from one step further up."""
        self.path = step + self.path
        return self


def type_name(cls: type) -> str:
    """As a message shows it."""
    module = getattr(cls, "__module__", "builtins")
    name = getattr(cls, "__qualname__", cls.__name__)
    return name if module == "builtins" else f"{name} in {module}"


def is_beside(value: Any) -> bool:  # noqa: ANN401
    """Return whether a value runs, waits or tells beside the program, so that its type alone counts."""
    if isinstance(value, _BESIDE_TYPES):
        return True
    return any(str(each.__module__).partition(".")[0] in _BESIDE for each in type(value).__mro__)


def check(value: Any) -> None:  # noqa: ANN401
    """Raise `Refused` for a value that changes by being read."""
    if isinstance(value, types.GeneratorType | types.CoroutineType | types.AsyncGeneratorType):
        raise Refused(value, "it is a generator, which reading uses up")
    if hasattr(type(value), "__next__") and not isinstance(value, io.IOBase):
        raise Refused(value, "it is an iterator, which reading uses up")
