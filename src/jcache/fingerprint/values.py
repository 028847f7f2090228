"""Values as bytes: by type and content, never by `repr` or address.

What can change is marked when it is seen again, so that one list in two places is not the same as two equal lists.
"""

# ruff: noqa: ANN401 - these functions take whatever a program has

import array
import collections
import copyreg
import datetime
import decimal
import enum
import fractions
import functools
import operator
import pathlib
import random
import re
import sys
import types
import typing
import uuid
import zoneinfo
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jcache.fingerprint import arrays
from jcache.fingerprint.bytecode import signature
from jcache.fingerprint.canonical import SCALARS, several, tagged, text, unordered
from jcache.fingerprint.code import version
from jcache.fingerprint.refusals import Refused, refuse
from jcache.fingerprint.texts import plain

_POINTER: Final = 8
_MANAGED_WEAKREF, _MANAGED_DICT = 1 << 3, 1 << 4
_MEMBERS: Final = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


class Encoder(ABC):
    """Makes bytes of values, one after the other; whoever derives from it knows what functions and classes are."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._alive: list[object] = []  # what was seen, so that no address is used twice

    @abstractmethod
    def function(self, function: types.FunctionType) -> bytes:
        """Of a Python function."""

    @abstractmethod
    def class_(self, cls: type) -> bytes:
        """Of a class."""

    @abstractmethod
    def module(self, module: types.ModuleType) -> bytes:
        """Of a module with all that is in it."""

    @abstractmethod
    def is_library(self, cls: type) -> bool:
        """Whether a class is not the user's own."""

    @abstractmethod
    def library(self, module: types.ModuleType) -> bytes:
        """Of the version of what a module belongs to."""

    @abstractmethod
    def named(self, value: Any) -> bytes | None:
        """Of what a library has under a name of its own; None for anything else."""

    def encode(self, value: Any) -> bytes:
        """Of any value.

        Raises:
            Refused: it has no fingerprint.
        """
        kind = type(value)
        scalar = SCALARS.get(kind)
        if scalar is not None:
            return scalar(value)
        handler = _HANDLERS.get(kind) or _handler(value, kind)
        if kind in _UNCHANGING or handler in _STABLE:
            return handler(self, value)
        return self._once(value, handler)

    def seen(self, value: Any) -> int | None:
        """Under which number something that can change was seen already."""
        return self._seen.get(id(value))

    def _once(self, value: Any, handler: Callable[["Encoder", Any], bytes]) -> bytes:
        number = self._seen.get(id(value))
        if number is not None:
            return tagged(b"again", b"%d" % number)
        self._seen[id(value)] = len(self._seen)
        self._alive.append(value)
        return handler(self, value)

    def items(self, values: Iterable[Any]) -> list[bytes]:
        """Of each of some values."""
        encodings: list[bytes] = []
        for value in values:
            try:
                encodings.append(self.encode(value))
            except Refused as refused:
                raise refused.below(f"[{len(encodings)}]") from None
        return encodings

    def attributes(self, values: Iterable[tuple[str, Any]]) -> bytes:
        """Of named values; their order does not matter."""
        encodings: list[bytes] = []
        for name, value in sorted(values, key=lambda each: each[0]):
            try:
                encodings.append(text(name) + self.encode(value))
            except Refused as refused:
                raise refused.below(f".{name}") from None
        return several(b"attributes", encodings)

    def mapping(self, tag: bytes, values: Iterable[tuple[Any, Any]]) -> bytes:
        """Of keys and values; their order does not matter."""
        keyed = sorted(((self.encode(key), key, value) for key, value in values), key=lambda each: each[0])
        encodings: list[bytes] = []
        for encoded, key, value in keyed:
            try:
                encodings.append(encoded + self.encode(value))
            except Refused as refused:
                raise refused.below(f"[{plain(key) or '…'}]") from None
        return several(tag, encodings)

    def state(self, value: Any) -> bytes:
        """Of what an object has in its ``__dict__`` and ``__slots__``."""
        try:
            own = object.__getattribute__(value, "__dict__")
        except AttributeError:
            own = None
        found = [(str(name), each) for name, each in own.items()] if isinstance(own, dict) else []
        for name in _slots(type(value)):
            try:
                found.append((name, object.__getattribute__(value, name)))
            except AttributeError:
                continue
        return self.attributes(found)


Handler = Callable[[Encoder, Any], bytes]


def _slots(cls: type) -> list[str]:
    return list(copyreg._slotnames(cls))  # type: ignore[attr-defined]


def _is_plain(cls: type, base: type) -> bool:
    """Whether an instance has nothing beyond its base's state, ``__dict__`` and ``__slots__``, as pickle tells it."""
    size = base.__basicsize__ + _POINTER * len(_slots(cls))
    flags = cls.__flags__
    if cls.__dictoffset__ and not base.__dictoffset__ and not flags & _MANAGED_DICT:
        size += _POINTER
    if cls.__weakrefoffset__ > 0 and not base.__weakrefoffset__ and not flags & _MANAGED_WEAKREF:
        size += _POINTER
    return cls.__basicsize__ <= size


def _handler(value: Any, kind: type) -> Handler:
    """How a value is encoded whose exact type is in no table."""
    if issubclass(kind, type):
        return _class
    if issubclass(kind, types.ModuleType):
        return _module
    if issubclass(kind, enum.Enum):
        return _member
    if _defines(kind, "__cache_key__"):
        return _keyed
    logging = sys.modules.get("logging")
    if logging is not None and isinstance(value, logging.Logger):
        return _logger
    return arrays.handler(value) or _generic


def _class(encoder: Encoder, value: Any) -> bytes:
    return encoder.class_(value)


def _module(encoder: Encoder, value: Any) -> bytes:
    return encoder.module(value)


def _keyed(encoder: Encoder, value: Any) -> bytes:
    return several(b"keyed", [encoder.class_(type(value)), encoder.encode(value.__cache_key__())])


def _logger(_: Encoder, value: Any) -> bytes:
    """A logger only tells of the result."""
    return tagged(b"logger", b"")


def _generic(encoder: Encoder, value: Any) -> bytes:
    kind = type(value)
    named = encoder.named(value)
    if named is not None:
        return named
    if _defines(kind, "to_dict") and _defines(kind, "from_dict") and not encoder.is_library(kind):
        return several(b"dicted", [encoder.class_(kind), encoder.encode(value.to_dict())])
    for base in kind.__mro__[1:]:
        handler = _BASES.get(base)
        if handler is not None:
            if not _is_plain(kind, base) and not hasattr(kind, "n_sequence_fields"):
                raise refuse(value)
            return several(b"derived", [encoder.class_(kind), handler(encoder, value), encoder.state(value)])
    if isinstance(value, _MEMBERS):
        return several(b"member", [encoder.class_(value.__objclass__), text(value.__name__)])
    if not _is_plain(kind, object):
        raise refuse(value)
    return several(b"instance", [encoder.class_(kind), encoder.state(value)])


def _defines(cls: type, name: str) -> bool:
    return any(name in vars(each) for each in cls.__mro__)


def _member(encoder: Encoder, value: Any) -> bytes:
    name = value._name_
    kind = encoder.class_(type(value))
    return several(b"enum", [kind, text(name) if isinstance(name, str) else encoder.encode(value._value_)])


def _tuple(encoder: Encoder, value: Any) -> bytes:
    return several(b"tuple", encoder.items(tuple.__iter__(value)))


def _list(encoder: Encoder, value: Any) -> bytes:
    return several(b"list", encoder.items(list.__iter__(value)))


def _dict(encoder: Encoder, value: Any) -> bytes:
    return encoder.mapping(b"dict", dict.items(value))


def _ordered(encoder: Encoder, value: Any) -> bytes:
    pairs = list(collections.OrderedDict.items(value))
    return several(b"ordered", encoder.items(pairs))


def _rough(value: Any) -> tuple[str, ...]:
    """An order in which sets are read: their own is a matter of chance."""
    kind = type(value)
    named = isinstance(value, type | types.FunctionType)
    shown = repr(value) if kind in SCALARS else value.__qualname__ if named else ""
    return kind.__module__, kind.__qualname__, shown


def _set(encoder: Encoder, value: Any) -> bytes:
    return unordered(b"set", [encoder.encode(each) for each in sorted(set.__iter__(value), key=_rough)])


def _frozenset(encoder: Encoder, value: Any) -> bytes:
    return unordered(b"frozenset", [encoder.encode(each) for each in sorted(frozenset.__iter__(value), key=_rough)])


def _defaultdict(encoder: Encoder, value: Any) -> bytes:
    return several(b"defaultdict", [encoder.encode(value.default_factory), _dict(encoder, value)])


def _deque(encoder: Encoder, value: Any) -> bytes:
    return several(b"deque", [encoder.encode(value.maxlen), *encoder.items(collections.deque.__iter__(value))])


def _method(encoder: Encoder, value: Any) -> bytes:
    return several(b"method", [encoder.encode(value.__self__), encoder.encode(value.__func__)])


def _builtin(encoder: Encoder, value: Any) -> bytes:
    owner = value.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        named = encoder.named(value)
        if named is None:
            raise Refused(value, "it is made in C and has no module to be found in")
        return named
    return several(b"bound", [encoder.encode(owner), text(value.__name__)])


def _lru(encoder: Encoder, value: Any) -> bytes:
    limits = value.cache_parameters()
    return several(b"lru", [encoder.encode(limits["maxsize"]), encoder.encode(limits["typed"]),
                            encoder.encode(value.__wrapped__)])  # fmt: skip


def _parts(tag: bytes, *names: str) -> Handler:
    """Of what is known by some of its attributes."""

    def handler(encoder: Encoder, value: Any) -> bytes:
        return several(tag, [encoder.encode(getattr(value, name)) for name in names])

    return handler


def _texts(tag: bytes, make: Callable[[Any], Any]) -> Handler:
    """Of what is known by something simpler that can be made of it."""
    return lambda encoder, value: several(tag, [encoder.encode(make(value))])


def _alias(encoder: Encoder, value: Any) -> bytes:
    names = text(str(getattr(value, "_name", "")))
    return several(b"alias", [names, encoder.encode(value.__origin__), *encoder.items(value.__args__)])


def _reduced(encoder: Encoder, value: Any) -> bytes:
    return several(b"reduced", [encoder.class_(type(value)), *encoder.items(value.__reduce__()[1:])])


_TIME: Final = ("hour", "minute", "second", "microsecond", "fold", "tzinfo")
_DATE: Final = ("year", "month", "day")
_BASES: Final[Mapping[type, Handler]] = {
    int: lambda _, value: SCALARS[int](int.__index__(value)),
    float: lambda _, value: SCALARS[float](float.__float__(value)),
    complex: lambda _, value: SCALARS[complex](complex.__pos__(value)),
    str: lambda _, value: text(str.__str__(value)),
    bytes: lambda _, value: tagged(b"bytes", bytes.__getitem__(value, slice(None))),
    bytearray: lambda _, value: tagged(b"bytearray", bytes(memoryview(value))),
    tuple: _tuple,
    list: _list,
    collections.OrderedDict: _ordered,
    collections.defaultdict: _defaultdict,
    dict: _dict,
    set: _set,
    frozenset: _frozenset,
    collections.deque: _deque,
    functools.partial: _parts(b"partial", "func", "args", "keywords"),
    BaseException: _parts(b"exception", "args"),
    datetime.datetime: _parts(b"datetime", *_DATE, *_TIME),
    datetime.date: _parts(b"date", *_DATE),
    datetime.time: _parts(b"time", *_TIME),
    datetime.timedelta: _parts(b"timedelta", "days", "seconds", "microseconds"),
    decimal.Decimal: _texts(b"decimal", decimal.Decimal.__str__),
    random.Random: _texts(b"random", lambda value: value.getstate()),
    property: _parts(b"property", "fget", "fset", "fdel"),
    staticmethod: _parts(b"static", "__func__"),
    classmethod: _parts(b"classmethod", "__func__"),
}
_EXACT: Final[Mapping[type, Handler]] = {
    collections.Counter: lambda encoder, value: several(b"counter", [_dict(encoder, value)]),
    range: _parts(b"range", "start", "stop", "step"),
    slice: _parts(b"slice", "start", "stop", "step"),
    datetime.timezone: _texts(b"timezone", lambda value: (value.utcoffset(None), value.tzname(None))),
    zoneinfo.ZoneInfo: _parts(b"zone", "key"),
    fractions.Fraction: _parts(b"fraction", "numerator", "denominator"),
    uuid.UUID: _parts(b"uuid", "int"),
    re.Pattern: _parts(b"pattern", "pattern", "flags"),
    types.SimpleNamespace: lambda encoder, value: several(b"namespace", [encoder.attributes(vars(value).items())]),
    types.MappingProxyType: lambda encoder, value: encoder.mapping(b"proxy", value.items()),
    array.array: lambda _, value: several(b"array", [text(value.typecode), tagged(b"bytes", value.tobytes())]),
    types.FunctionType: lambda encoder, value: encoder.function(value),
    types.BuiltinFunctionType: _builtin,
    types.MethodType: _method,
    types.MethodWrapperType: lambda encoder, value: several(
        b"wrapper", [encoder.encode(value.__self__), text(value.__name__)]
    ),
    types.CodeType: lambda _, value: several(b"code", [text(version()), signature(value)]),
    types.GenericAlias: _alias,
    types.UnionType: lambda encoder, value: several(b"union", encoder.items(value.__args__)),
    typing.TypeVar: _parts(b"typevar", "__name__", "__bound__", "__constraints__"),
    typing.ForwardRef: _parts(b"forward", "__forward_arg__"),
    type(typing.Union): _texts(b"special", lambda value: value._name),
    type(typing.Any): lambda encoder, value: encoder.class_(value),
    type(typing.List[int]): _alias,  # noqa: UP006
    type(typing.Optional[int]): _alias,  # noqa: UP045
    type(typing.Literal[1]): _alias,
    type(typing.Callable[[int], int]): _alias,
    operator.itemgetter: _reduced,
    operator.attrgetter: _reduced,
    operator.methodcaller: _reduced,
    functools.cached_property: _parts(b"cached_property", "func", "attrname"),
    functools._lru_cache_wrapper: _lru,
    **{
        kind: _texts(kind.__name__.encode(), lambda value: str(value))
        for kind in (
            pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath
        )
    },
}  # fmt: skip
_HANDLERS: Final[Mapping[type, Handler]] = {**_BASES, **_EXACT}
_UNCHANGING: Final = frozenset(
    {tuple, frozenset, range, slice, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type,
     types.ModuleType, types.CodeType, types.MethodWrapperType, datetime.datetime, datetime.date, datetime.time,
     datetime.timedelta, datetime.timezone, zoneinfo.ZoneInfo, decimal.Decimal, fractions.Fraction, uuid.UUID,
     re.Pattern, types.GenericAlias, types.UnionType, pathlib.PosixPath, pathlib.PurePosixPath,
     pathlib.PureWindowsPath, pathlib.WindowsPath, property, staticmethod, classmethod, *_MEMBERS}
)  # fmt: skip
_STABLE: Final = frozenset({_class, _module, _member, _keyed, _logger, *arrays.STABLE})
