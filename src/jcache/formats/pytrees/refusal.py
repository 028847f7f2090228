"""The error about a part of a value that cannot be stored, with the path to that part."""

from __future__ import annotations

from typing import Final

from jcache.formats.pytrees.classes import name_of

_MAX_PATH_CHARS: Final = 100  # in a message
ADVICE: Final = "return arrays and plain values instead, or register its class with `jcache.register_class`"


class CannotEncode(Exception):
    """A part of the value cannot be stored; the callers append the steps of the path to it."""

    def __init__(self, value: object, reason: str, advice: str = ADVICE) -> None:
        super().__init__()
        self.cls = type(value)
        self.reason = reason
        self.advice = advice
        self.path: list[str] = []

    def __str__(self) -> str:
        path = "".join(reversed(self.path))
        if len(path) > _MAX_PATH_CHARS:
            path = f"{path[: _MAX_PATH_CHARS // 2]}…{path[-_MAX_PATH_CHARS // 2 :]}"
        part = f"its part `{path}`" if path else "it"
        name = self.cls.__qualname__ if self.cls.__module__ == "builtins" else name_of(self.cls)
        return f"The value cannot be stored: {part} is of type {name}, which {self.reason}: {self.advice}."
