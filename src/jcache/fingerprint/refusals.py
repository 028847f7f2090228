"""What has no fingerprint, and why."""

import io
import threading
import types
from typing import Any, Final

WAY_OUT: Final = "give its class `__cache_key__`, or pass in what it is made of"

_REASONS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (io.IOBase, "an open file"),
    ((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType), "a generator, which reading uses up"),
    ((type(threading.Lock()), type(threading.RLock()), threading.Thread), "a part of this process's threads"),
    ((types.FrameType, types.TracebackType), "a part of the running program"),
    (memoryview, "a view of memory that something else owns"),
)


class Refused(Exception):
    """A value that cannot be fingerprinted.

    Attributes:
        reason: why, as the end of a sentence.
        type_name: of the value.
        path: how it is reached from the value that was asked about, as ``.a[0]``.
        way_out: what to do.
    """

    def __init__(self, value: Any, reason: str, way_out: str = WAY_OUT) -> None:  # noqa: ANN401
        super().__init__(reason)
        self.reason = reason
        self.type_name = type_name(type(value))
        self.path = ""
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


def hopeless(value: Any) -> str | None:  # noqa: ANN401
    """Why a value has no fingerprint whatever it consists of; None for most."""
    return next((reason for classes, reason in _REASONS if isinstance(value, classes)), None)


def refuse(value: Any) -> Refused:  # noqa: ANN401
    """Of a value whose state Python cannot see, or that changes by being read."""
    reason = hopeless(value)
    if reason is not None:
        return Refused(value, f"it is {reason}")
    if hasattr(type(value), "__next__"):
        return Refused(value, "it is an iterator, which reading uses up")
    return Refused(value, "its state cannot be seen from Python")
