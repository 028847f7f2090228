"""States of values that count by their types alone, such as queues and locks: whether a call has changed one."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from jcache.fingerprint.encoding import SCALARS


class States:
    """States by the addresses of the values."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, list[Any]]] = {}  # a name, and the parts of the state

    def add(self, value: Any, name: str, state: Iterable[Any]) -> None:
        """Keep the parts of the state of a value that code reaches by a name."""
        self._known[id(value)] = name, list(state)

    def addresses(self, names: Container[str]) -> set[int]:
        """Return the addresses of the values of some names."""
        return {at for at, (name, _) in self._known.items() if name in names}

    def names(self, addresses: Container[int]) -> frozenset[str]:
        """Return the names of the values at some addresses."""
        return frozenset(name for at, (name, _) in self._known.items() if at in addresses)

    def changed(self, now: States) -> set[str]:
        """Return the names of the values that have other states later.

        Args:
            now: the later states.
        """
        return {name for at, (name, _) in self._known.items() if self._is_other(at, now)}

    def _is_other(self, at: int, now: States) -> bool:
        (_, before), (_, after) = self._known[at], now._known.get(at, self._known[at])
        return not (len(before) == len(after) and all(map(_is_part, before, after)))


def _is_part(before: Any, now: Any) -> bool:
    """Return whether a part of a state is as it was."""
    return before is now or (type(before) is type(now) and type(now) in SCALARS and before == now)
