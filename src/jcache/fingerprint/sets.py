"""Encoding of sets: in an order that does not depend on the process, as far as their items tell one."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jcache.fingerprint.encoding import SCALARS, unordered

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder


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


def _is_plain(value: Any) -> bool:
    """Return whether a value, or all that a tuple holds, is a scalar."""
    return type(value) in SCALARS or (type(value) is tuple and all(type(each) in SCALARS for each in value))


def _sort_key(value: Any) -> tuple[str, ...]:
    """Return a key that sorts the items of a set, because a set's own order differs between processes."""
    kind = type(value)
    named = isinstance(value, type | types.FunctionType)
    shown = repr(value) if kind in SCALARS else value.__qualname__ if named else ""
    return kind.__module__, kind.__qualname__, shown
