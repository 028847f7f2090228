"""Encoding of sets: in an order that does not depend on the process, as far as their items tell one."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint.encoding import SCALARS, unordered

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder

_NUMBERS: Final = frozenset({bool, int, float})


def of_sets(tag: bytes, kind: Any) -> Callable[[Encoder, Any], bytes]:
    """Return the handler of sets, or of frozen ones.

    Where two objects of one type are in a set, nothing tells which is the first one in another process.

    Args:
        tag: the tag of the encodings.
        kind: the type of the sets.
    """

    def encode(encoder: Encoder, value: Any) -> bytes:
        items = sorted(kind.__iter__(value), key=_sort_key)
        objects = Counter(type(each) for each in items if not _is_plain(each))
        if any(count > 1 for count in objects.values()):
            encoder.snapshot.is_ordered = False
        return unordered(tag, [encoder.encode(each) for each in items])

    return encode


def items_in_order(value: Set[Any], before: Set[Any] = frozenset()) -> list[Any]:
    """Return the items that a set has got, in an order in which it gets them again.

    The order of a set depends on that in which it got its items, and on the process unless all are numbers.

    Args:
        value: the set.
        before: what it had before.

    Raises:
        TypeError: no order is known in which it becomes the same set.
    """
    items = [each for each in value if each not in before]
    if not all(map(_is_number, value)):
        return sorted(items, key=repr)
    for each in (items, items[::-1], sorted(items)):
        if [*{*before}.union(each)] == [*value]:
            return each
    raise TypeError


def _is_number(value: Any) -> bool:
    return all(map(_is_number, value)) if type(value) is tuple else type(value) in _NUMBERS


def _is_plain(value: Any) -> bool:
    """Return whether a value, or all that a tuple holds, is a scalar."""
    return type(value) in SCALARS or (type(value) is tuple and all(type(each) in SCALARS for each in value))


def _sort_key(value: Any) -> tuple[str, ...]:
    """Return a key that sorts the items of a set, because a set's own order differs between processes."""
    kind = type(value)
    named = isinstance(value, type | types.FunctionType)
    shown = repr(value) if kind in SCALARS else value.__qualname__ if named else ""
    return kind.__module__, kind.__qualname__, shown
