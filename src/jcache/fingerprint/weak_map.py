"""Weak references, and a mapping whose keys are objects, compared by identity and referred to weakly."""

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def weakly(function: Callable[..., Any]) -> Callable[[], Any]:
    """Return a function that returns another one without keeping that alive, if its type allows for it."""
    with suppress(TypeError):
        return weakref.ref(function)
    return lambda: function


class WeakIdentities(Generic[T]):
    """Mapping from objects to values; an object's value is forgotten when the object dies."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[object], T]] = {}

    def get(self, key: object) -> T | None:
        known = self._known.get(id(key))
        return known[1] if known is not None and known[0]() is key else None

    def put(self, key: object, value: T) -> None:
        self._known[id(key)] = weakref.ref(key, self._forgetter(id(key))), value

    def _forgetter(self, number: int) -> Callable[[object], None]:
        def forget(gone: object) -> None:
            known = self._known.get(number)
            if known is not None and known[0] is gone:
                self._known.pop(number, None)

        return forget
