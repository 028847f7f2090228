"""Rows of the ledger as values: they are input, since others may write to it, and a damaged page may hold anything.

A value that cannot be what its column holds counts as not known; a row without its key, or with a key that is none,
counts as not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Final, TypeVar

from jcache.layout import Kind

T = TypeVar("T")
_MOST_SECONDS: Final = 1e10  # some 300 years
_LONGEST: Final = 4096  # characters of a text that is no report
_KINDS: Final = {kind.value: kind for kind in Kind}


def text(value: object) -> str | None:
    """Return a short text."""
    return value if isinstance(value, str) and len(value) <= _LONGEST else None


def report(value: object) -> str | None:
    """Return a text of any length."""
    return value if isinstance(value, str) else None


def hits(value: object) -> int:
    """Return the number of hits; 0 if it is unknown."""
    return count(value) or 0


def key(value: object) -> str | None:
    """Return a text that can be a key, and so begin a file name."""
    if not isinstance(value, str) or not 0 < len(value) <= 255 or "/" in value or "\0" in value:
        return None
    return value


def kind(value: object) -> Kind | None:
    """Return a kind of entries."""
    return _KINDS.get(value) if isinstance(value, str) else None


def count(value: object) -> int | None:
    """Return a number of things, or of bytes or nanoseconds."""
    return value if isinstance(value, int) and value >= 0 else None


def number(value: object) -> int | None:
    """Return any integer."""
    return value if isinstance(value, int) else None


def seconds(value: object) -> float | None:
    """Return a duration."""
    if not isinstance(value, int | float) or not isfinite(value) or not 0 <= value <= _MOST_SECONDS:
        return None
    return value


def blob(value: object) -> bytes | None:
    """Return bytes."""
    return value if isinstance(value, bytes) else None


def fitting(row: Iterable[object], columns: Iterable[Callable[[object], object | None]]) -> list[Any]:
    """Return the values of a row that are what their columns hold; None for the others."""
    return [column(value) for value, column in zip(row, columns, strict=True)]


def whole(
    rows: Iterable[Iterable[object]] | None, columns: tuple[Callable[[object], object | None], ...], needed: int
) -> list[list[Any]]:
    """Return the rows, each of fitting values, of which as many as are needed, from the first on, are known."""
    found = (fitting(row, columns) for row in rows or ())
    return [row for row in found if None not in row[:needed]]
