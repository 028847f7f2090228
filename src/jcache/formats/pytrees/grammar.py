"""Limits and scalars that encoding and decoding share; the grammar is in the package's docstring."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from typing import Any, Final

from jcache.errors import DamagedEntry

MAX_DEPTH: Final = 100  # levels of a value; its JSON nests up to three times as deep
MAX_VALUES: Final = 5_000_000
CODEC_ADVICE: Final = "give the cache a `codec=jcache.FileCodec(save, load)`"
ADVICE: Final = (
    f"return arrays and plain values instead, register its class with `jcache.register_class`, or {CODEC_ADVICE}"
)
_MAX_PATH_CHARS: Final = 100  # in a message


class Unsupported(Exception):
    """A value cannot be stored. The text is the reason, as it follows "which" in a sentence; `advice` is a remedy."""

    def __init__(self, reason: str, advice: str | None = None) -> None:
        super().__init__(reason)
        self.advice = advice


class CannotEncode(Exception):
    """A part of the value cannot be stored; each caller appends its step of the path to that part."""

    def __init__(self, value: object, reason: str, advice: str = ADVICE) -> None:
        super().__init__()
        self.cls = type(value)
        self.reason = reason
        self.advice = advice if CODEC_ADVICE in advice else f"{advice}, or {CODEC_ADVICE}"
        self.path: list[str] = []

    def __str__(self) -> str:
        path = "".join(reversed(self.path))
        if len(path) > _MAX_PATH_CHARS:
            path = f"{path[: _MAX_PATH_CHARS // 2]}…{path[-_MAX_PATH_CHARS // 2 :]}"
        part = f"its part `{path}`" if path else "it"
        name = self.cls.__qualname__
        name = name if self.cls.__module__ == "builtins" else f"{self.cls.__module__}:{name}"
        return f"The value cannot be stored: {part} is of type {name}, which {self.reason}: {self.advice}."


def malformed(what: str) -> DamagedEntry:
    return DamagedEntry(f"A graph does not follow the grammar in its {what}.")


PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
_MIN_BULK: Final = 8


def are_nodes(items: Collection[Any]) -> bool:
    """Return whether many values, all of one plain type, are their own nodes; one check is faster than many."""
    kinds = set(map(type, items)) if len(items) >= _MIN_BULK else set()
    if len(kinds) != 1:
        return False
    kind = kinds.pop()
    if kind is int:
        return max(map(int.bit_length, items)) <= 64
    if kind is float:
        return all(map(math.isfinite, items))
    return is_text("".join(items)) if kind is str else kind is bool


def is_text(value: str) -> bool:
    """Return whether a string has no surrogates."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def bits_of(value: float) -> str:
    return struct.pack(">d", value).hex()


def from_bits(text: str) -> float:
    """Return the float whose bits are 16 hexadecimal digits.

    Raises:
        TypeError, ValueError: the text is not 16 hexadecimal digits.
    """
    if len(text) != 16:
        raise ValueError("not 16 digits")
    value: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return value
