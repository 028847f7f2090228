"""Choice of the encoding of a value by what it is, where no table has its exact type."""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import enum
import functools
import io
import types
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint import arrays, attributes, opaque, origins
from jcache.fingerprint.attributes import held
from jcache.fingerprint.encoding import SCALARS, several, text
from jcache.fingerprint.handlers import HANDLERS
from jcache.fingerprint.logs import Count, Log, encode_counted, encode_log
from jcache.fingerprint.refusals import check, is_beside
from jcache.fingerprint.selection import Selected, encode_selected
from jcache.fingerprint.type_keys import keyed, keyed_once, type_key
from jcache.fingerprint.value_types import MEMBERS, PLAIN, Handler, member

if TYPE_CHECKING:
    from jcache.fingerprint.name_resolution import Resolved
    from jcache.fingerprint.values import Encoder

_CONTAINERS: Final = (tuple, list, dict, set, frozenset, functools.partial)
_DATA: Final = frozenset({*SCALARS, *HANDLERS}) - {
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, type,
}  # fmt: skip


_COLLECTED: Final[dict[type, Handler]] = {Log: encode_log, Count: encode_counted}


def handler_of(value: Any) -> Handler:
    """Return the handler of a value: that of its exact type, or else of what it is."""
    kind = type(value)
    known = HANDLERS.get(kind)
    if known is not None:
        return known
    if kind is Selected:
        return encode_selected
    if kind in _COLLECTED:
        return _COLLECTED[kind]
    key = type_key(kind)
    if key is not None:
        return keyed_once if key.is_fixed else keyed
    if issubclass(kind, type):
        return _class
    if issubclass(kind, types.ModuleType):
        return _module
    if issubclass(kind, enum.Enum):
        return member
    handler = arrays.handler(value)
    if handler is not None:
        return handler
    if is_beside(value):
        return opaque.beside
    return opaque.file if issubclass(kind, io.IOBase) else _generic


def _class(encoder: Encoder, value: Any) -> bytes:
    return encoder.made_class(value)


def _module(encoder: Encoder, value: Any) -> bytes:
    return encoder.module(value)


def _generic(encoder: Encoder, value: Any) -> bytes:
    kind = type(value)
    named = encoder.named(value)
    if named is not None:
        return named
    for base in kind.__mro__[1:]:
        if (handler := PLAIN.get(base)) is not None:
            whole = opaque.compiled(kind) if base is BaseException else base  # all fields of exceptions are encoded
            if not attributes.is_plain(kind, whole) and not hasattr(kind, "n_sequence_fields"):
                return opaque.hidden(encoder, value)
            own = attributes.slots(base)  # what they hold is in the encoding of the base's handler
            return several(b"derived", [encoder.class_(kind), handler(encoder, value), encoder.state(value, own)])
    if kind in MEMBERS:
        return several(b"member", [encoder.class_(value.__objclass__), text(value.__name__)])
    if issubclass(kind, types.GenericAlias):
        return several(b"alias", [encoder.encode(value.__origin__), *encoder.items(value.__args__)])
    if not attributes.is_plain(kind, object):
        return opaque.hidden(encoder, value)
    check(value)
    if encoder.is_library(kind) and opaque.has_own_state(kind) and any(_is_hidden(each) for _, each in held(value)):
        return several(b"reduced", [encoder.class_(kind), encoder.encode(opaque.reduced(value))])
    return several(b"instance", [encoder.class_(kind), encoder.state(value)])


def _is_hidden(value: Any) -> bool:
    """Return whether a value has a state of C that not even a copy shows, such as what a table of polars wraps."""
    kind = type(value)
    if handler_of(value) is not _generic or any(base in PLAIN for base in kind.__mro__[1:-1]):
        return False
    return not attributes.is_plain(kind, object) and opaque.reduced(value) is None


STABLE: Final = frozenset({encode_log, _class, _module, member, keyed_once, *arrays.STABLE})


def is_the_programs(found: Resolved) -> bool:
    """Return whether a library may hold an object because the program has put it there, or has set what it holds.

    That is an object of another library's class, a namespace, or the flags of the command line.
    """
    kind = type(found.value)
    if (key := type_key(kind)) is not None and key.is_by_name:
        return True
    made_by = origins.of_module_named(str(kind.__module__))
    is_foreign = origins.is_installed(made_by) and made_by != found.origin and not callable(found.value)
    return not found.inside and (attributes.is_holder(kind) or is_foreign)


def is_data(value: Any) -> bool:
    """Return whether a value is plain data, and no object whose state a library changes."""
    kind = type(value)
    is_array = hasattr(kind, "dtype") and hasattr(kind, "nbytes")  # of numpy or JAX, or a scalar of numpy
    return is_array or kind in _DATA or issubclass(kind, _CONTAINERS)
