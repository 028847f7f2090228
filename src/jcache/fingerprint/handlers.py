"""Handlers of values by their exact types, which also encode the attributes that a program has set on a value."""

# ruff: noqa: ANN401 - these functions take whatever a program has

from __future__ import annotations

import collections
import functools
import random
import typing
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint.encoding import several
from jcache.fingerprint.value_types import PLAIN, Handler

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder

_OWN: Final[Mapping[type, frozenset[str]]] = {
    kind: frozenset(names.split())
    for kind, names in (
        (collections.OrderedDict, ""), (collections.Counter, ""), (BaseException, ""), (functools.partial, ""),
        (random.Random, "gauss_next"), (functools._lru_cache_wrapper, "cache_parameters __wrapped__"),
        (staticmethod, "__wrapped__ __isabstractmethod__"), (classmethod, "__wrapped__ __isabstractmethod__"),
        (functools.cached_property, "func attrname lock"),
        (functools.singledispatchmethod, "dispatcher func _method_cache _all_weakrefable_instances"),
        (typing.TypeVar, "__bound__ __constraints__ __covariant__ __contravariant__"),
    )
}  # fmt: skip
"""The types whose instances can be given attributes, each with the attributes that each instance has."""


def _with_attributes(handler: Handler, own: Collection[str]) -> Handler:
    """Return a handler that also encodes the attributes which a program has set on a value.

    Args:
        handler: encodes the value itself.
        own: the names of attributes that the type gives each value.
    """

    def attributed(encoder: Encoder, value: Any) -> bytes:
        encoding, more = handler(encoder, value), encoder.beside(value, own)
        return several(b"with", [encoding, *more]) if more else encoding

    return attributed


HANDLERS: Final[Mapping[type, Handler]] = {
    kind: handler if kind not in _OWN else _with_attributes(handler, _OWN[kind]) for kind, handler in PLAIN.items()
}
