"""Handlers that encode values: tables by exact type, and by the base class of a user's class."""

# ruff: noqa: ANN401 - these functions take whatever a program has

from __future__ import annotations

import array
import collections
import contextvars
import datetime
import decimal
import functools
import gc
import itertools
import operator
import pathlib
import random
import re
import struct
import types
import typing
import uuid
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from jcache.fingerprint import name_resolution, opaque, origins
from jcache.fingerprint.bytecode import signature
from jcache.fingerprint.chance import is_shared_random
from jcache.fingerprint.classes import OF_MEMBERS
from jcache.fingerprint.encoding import SCALARS, several, tagged, text
from jcache.fingerprint.generators import encode_count, encode_python
from jcache.fingerprint.sets import of_sets

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder

MEMBERS: Final = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
Handler = Callable[[Any, Any], bytes]


def member(encoder: Encoder, value: Any) -> bytes:
    """Encode a member of an enum by its name; one that the enum does not list, such as two flags in one, by its state.

    What a listed member holds is among the members of its class.
    """
    kind, name = type(value), value._name_
    is_listed = isinstance(name, str) and kind.__members__.get(name) is value
    held = [text(name)] if is_listed else [encoder.encode((name, value._value_)), encoder.state(value, OF_MEMBERS)]
    return several(b"enum", [encoder.class_(kind), *held])


def _dict(encoder: Encoder, value: Any) -> bytes:
    return encoder.mapping(b"dict", dict.items(value))


def _sequence(tag: bytes, kind: Any) -> Handler:
    return lambda encoder, value: several(tag, encoder.items(kind.__iter__(value)))


def _method(encoder: Encoder, value: Any) -> bytes:
    if is_shared_random(value):
        return _shared(encoder, value)
    return several(b"method", [encoder.encode(value.__self__), encoder.encode(value.__func__)])


def _builtin(encoder: Encoder, value: Any) -> bytes:
    owner = value.__self__
    if is_shared_random(value):
        return _shared(encoder, value)
    if owner is None or isinstance(owner, types.ModuleType):
        named = encoder.named(value)
        return named if named is not None else several(b"opaque", [text(value.__name__)])
    encoder.note_reached(value)
    return several(b"bound", [encoder.encode(owner), text(value.__name__)])


def _shared(encoder: Encoder, value: Any) -> bytes:
    """Encode a function that draws from the process's shared generator, without the generator's state."""
    encoder.note_reached(value)
    return several(b"bound", [encoder.class_(type(value.__self__)), text(value.__name__)])


def _lru(encoder: Encoder, value: Any) -> bytes:
    limits = value.cache_parameters()
    return several(b"lru", map(encoder.encode, (limits["maxsize"], limits["typed"], value.__wrapped__)))


def _parts(tag: bytes, *names: str) -> Handler:
    """Return a handler that encodes some attributes of a value, which determine it."""

    def handler(encoder: Encoder, value: Any) -> bytes:
        return several(tag, [encoder.encode(getattr(value, name)) for name in names])

    return handler


def _property(encoder: Encoder, value: Any) -> bytes:
    told = encoder.attributes(encoder.told(value, {"__doc__": value.__doc__}))
    return several(b"property", [*map(encoder.encode, (value.fget, value.fset, value.fdel)), told])


def _texts(tag: bytes, make: Callable[[Any], Any]) -> Handler:
    """Return a handler that encodes a simpler value made from the value, which determines it."""
    return lambda encoder, value: several(tag, [encoder.encode(make(value))])


def _alias(encoder: Encoder, value: Any) -> bytes:
    names = text(str(getattr(value, "_name", "")))
    return several(b"alias", [names, encoder.encode(value.__origin__), *encoder.items(value.__args__)])


def _reduced(encoder: Encoder, value: Any) -> bytes:
    """Encode what a value is copied from; a `methodcaller` with keywords is made by a partial function."""
    kind, parts = type(value), value.__reduce__()
    return several(b"reduced", [encoder.class_(kind), *encoder.items(parts[1:] if parts[0] is kind else parts)])


def _variable(variable: Any) -> tuple[Any, ...]:
    """Return the name of a `ContextVar`, its value and its default."""
    found = [variable.name]
    for context in (contextvars.copy_context(), contextvars.Context()):
        try:
            found.append(context.run(variable.get))
        except LookupError:
            found.append(_NO_VALUE)
    return tuple(found)


def _getter(encoder: Encoder, value: Any) -> bytes:
    """Encode an `operator.attrgetter` or `methodcaller`, and let the attributes that it names count."""
    encoded = _reduced(encoder, value)
    made, given = value.__reduce__()[:2]
    names = [part for each in given or made.args if isinstance(each, str) for part in each.split(".")]
    encoder.names.update(names, (f"{each}[]" for each in names))  # the latter stand for the whole of a dict
    encoder.snapshot.read_otherwise.update(names)
    return encoded


def _view(encoder: Encoder, value: Any) -> bytes:
    try:
        return several(b"view", [text(value.format), encoder.encode(value.shape), tagged(b"bytes", value.tobytes())])
    except ValueError:  # it was released
        return several(b"view", [])


def _exception(encoder: Encoder, value: Any) -> bytes:
    args: Any = vars(BaseException)["args"]  # a class may have an attribute of that name
    reasons = value.__cause__, value.__context__, value.__suppress_context__
    parts = encoder.items((args.__get__(value), *reasons))
    return several(b"exception", [*parts, encoder.attributes(opaque.fields(value))])


def _weakref(encoder: Encoder, value: Any) -> bytes:
    callback = value.__callback__
    is_function = type(callback) is types.FunctionType
    is_library = is_function and origins.of_path(callback.__code__.co_filename) not in {None, origins.USER}
    return several(b"weakref", [encoder.encode(value()), *([] if is_library else [encoder.encode(callback)])])


def _proxy(encoder: Encoder, value: Any) -> bytes:
    """Encode a view of a mapping by the mapping, which may be more than its items."""
    return several(b"proxy", encoder.items(gc.get_referents(value)))


_ORDERED: Final = collections.OrderedDict[int, int]()
_VIEWS: Final[tuple[Any, ...]] = (
    {}.keys(),
    {}.values(),
    {}.items(),
    _ORDERED.keys(),
    _ORDERED.values(),
    _ORDERED.items(),
)
_NO_VALUE: Final = ("no value",)
_TIME: Final = ("hour", "minute", "second", "microsecond", "fold", "tzinfo")
_DATE: Final = ("year", "month", "day")
_of_datetime: Final = _parts(b"datetime", *_DATE, *_TIME)


def _datetime(encoder: Encoder, value: Any) -> bytes:
    return encoder.reading(value) if encoder.is_reading(value.timestamp()) else _of_datetime(encoder, value)


_BASES: Final[Mapping[type, Handler]] = {
    int: lambda _, value: SCALARS[int](int.__index__(value)),
    float: lambda _, value: SCALARS[float](float.__float__(value)),
    complex: lambda _, value: SCALARS[complex](complex.__pos__(value)),
    str: lambda _, value: text(str.__str__(value)),
    bytes: lambda _, value: tagged(b"bytes", bytes.__getitem__(value, slice(None))),
    bytearray: lambda _, value: tagged(b"bytearray", bytes(memoryview(value))),
    tuple: _sequence(b"tuple", tuple),
    list: _sequence(b"list", list),
    collections.OrderedDict: lambda encoder, value: several(
        b"ordered", encoder.items(list(collections.OrderedDict.items(value)))
    ),
    collections.defaultdict: lambda encoder, value: several(
        b"defaultdict", [encoder.encode(value.default_factory), _dict(encoder, value)]
    ),
    dict: _dict,
    set: of_sets(b"set", set),
    frozenset: of_sets(b"frozenset", frozenset),
    collections.deque: lambda encoder, value: several(
        b"deque", [encoder.encode(value.maxlen), *encoder.items(collections.deque.__iter__(value))]
    ),
    functools.partial: _parts(b"partial", "func", "args", "keywords"),
    BaseException: _exception,
    datetime.datetime: _datetime,
    datetime.date: _parts(b"date", *_DATE),
    datetime.time: _parts(b"time", *_TIME),
    datetime.timedelta: _parts(b"timedelta", "days", "seconds", "microseconds"),
    decimal.Decimal: _texts(b"decimal", decimal.Decimal.__str__),
    random.Random: encode_python,
    pathlib.PurePath: _texts(b"path", pathlib.PurePath.__str__),
    property: _property,
    staticmethod: _parts(b"static", "__func__"),
    classmethod: _parts(b"classmethod", "__func__"),
}
_EXACT: Final[Mapping[type, Handler]] = {
    collections.Counter: lambda encoder, value: several(b"counter", [_dict(encoder, value)]),
    uuid.UUID: lambda encoder, value: (
        encoder.reading(value)
        if value.version in {1, 4} and not encoder.is_given
        else encoder.encode((value.int, value.is_safe.name))
    ),
    itertools.count: encode_count,
    range: _parts(b"range", "start", "stop", "step"),
    slice: _parts(b"slice", "start", "stop", "step"),
    datetime.timezone: _texts(b"timezone", lambda value: (value.utcoffset(None), value.tzname(None))),
    re.Pattern: _parts(b"pattern", "pattern", "flags"),
    re.Match: _parts(b"match", "re", "string", "pos", "endpos", "regs"),
    struct.Struct: _parts(b"struct", "format"),
    memoryview: _view,
    contextvars.ContextVar: _texts(b"variable", _variable),
    contextvars.Token: _parts(b"token", "var", "old_value"),
    contextvars.Context: _texts(
        b"context", lambda value: [(each.name, value[each]) for each in sorted(value, key=lambda each: each.name)]
    ),
    types.SimpleNamespace: lambda encoder, value: several(b"namespace", [encoder.state(value)]),
    types.MappingProxyType: _proxy,
    types.CellType: lambda encoder, value: several(b"cell", [encoder.encode(name_resolution.content_of(value))]),
    array.array: lambda _, value: several(b"array", [text(value.typecode), tagged(b"bytes", value.tobytes())]),
    types.FunctionType: lambda encoder, value: encoder.function(value),
    types.BuiltinFunctionType: _builtin,
    types.MethodType: _method,
    types.MethodWrapperType: _parts(b"wrapper", "__self__", "__name__"),
    types.CodeType: lambda _, value: tagged(b"code", signature(value)),
    types.GenericAlias: _alias,
    types.UnionType: lambda encoder, value: several(b"union", encoder.items(value.__args__)),
    typing.TypeVar: _parts(
        b"typevar", "__name__", "__bound__", "__constraints__", "__covariant__", "__contravariant__"
    ),
    typing.ForwardRef: _parts(b"forward", "__forward_arg__"),
    type(typing.Union): _texts(b"special", lambda value: value._name),
    type(typing.Any): lambda encoder, value: encoder.class_(value),
    type(typing.List[int]): _alias,  # noqa: UP006
    type(typing.Optional[int]): _alias,  # noqa: UP045
    type(typing.Literal[1]): _alias,
    type(typing.Callable[[int], int]): _alias,
    operator.itemgetter: _reduced,
    operator.attrgetter: _getter,
    operator.methodcaller: _getter,
    functools.singledispatchmethod: _parts(b"singledispatchmethod", "dispatcher", "func"),
    functools.cached_property: _parts(b"cached_property", "func", "attrname"),
    functools._lru_cache_wrapper: _lru,
    **{type(view): _parts(b"dictview", "mapping") for view in _VIEWS},
    weakref.WeakMethod: lambda encoder, value: several(b"weakref", [encoder.encode(value())]),
    weakref.ref: _weakref,
    **{
        kind: _texts(kind.__name__.encode(), lambda value: str(value))
        for kind in (
            pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath
        )
    },
}  # fmt: skip
PLAIN: Final[Mapping[type, Handler]] = {**_BASES, **_EXACT}
"""Handlers by type that leave out attributes which a program has set."""
UNCHANGING: Final = frozenset(
    {tuple, frozenset, range, slice, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type,
     types.ModuleType, types.CodeType, types.MethodWrapperType, datetime.datetime, datetime.date, datetime.time,
     datetime.timedelta, datetime.timezone, decimal.Decimal, uuid.UUID,
     re.Pattern, types.GenericAlias, types.UnionType, pathlib.PosixPath, pathlib.PurePosixPath,
     pathlib.PureWindowsPath, pathlib.WindowsPath, property, staticmethod, classmethod, *MEMBERS}
)  # fmt: skip
