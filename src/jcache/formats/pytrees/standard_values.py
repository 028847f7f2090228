"""Values of Python's standard library, stored by what they are made again from."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jcache.formats.pytrees.adapters import ClassAdapter
from jcache.formats.pytrees.grammar import Unsupported

if TYPE_CHECKING:
    import uuid
    from array import array
    from collections import Counter, defaultdict
    from datetime import datetime, time
    from zoneinfo import ZoneInfo

# ruff: noqa: ANN401 - classes and states are those of the table below

_FACTORIES: Final = {each.__name__: each for each in (bool, bytes, complex, dict, float, int, list, set, str, tuple)}


def _plain_defaultdict(value: defaultdict[Any, Any]) -> object:
    factory = value.default_factory
    name = getattr(factory, "__name__", "")
    if factory is not None and _FACTORIES.get(name) is not factory:
        raise Unsupported("has a default factory that is none of Python's own types")
    return [None if factory is None else name, dict(value)]


def _defaultdict(cls: Any, state: Any) -> object:
    return cls(None if state[0] is None else _FACTORIES[state[0]], state[1])


def _plain_counter(value: Counter[Any]) -> object:
    if vars(value):
        raise Unsupported("has attributes of the program's own")
    return dict(value)


def _plain_datetime(value: datetime) -> object:
    date_and_time = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    return [*date_and_time, value.fold, value.tzinfo]


def _datetime(cls: Any, state: Any) -> object:
    *parts, fold, zone = state
    return cls(*parts, zone, fold=fold)


def _plain_time(value: time) -> object:
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo]


def _plain_zone(value: ZoneInfo) -> object:
    if value.key is None or type(value)(value.key) is not value:
        raise Unsupported("is not the zone of its name")
    return value.key


def _plain_uuid(value: uuid.UUID) -> object:
    return [value.hex, value.is_safe.name]


def _uuid(cls: Any, state: Any) -> object:
    from uuid import SafeUUID

    return cls(state[0], is_safe=SafeUUID[state[1]])


def _plain_array(value: array[Any]) -> object:
    return [value.typecode, value.itemsize, value.tobytes()]


def _array(cls: Any, state: Any) -> object:
    typecode, size, content = state
    made = cls(typecode)
    if made.itemsize != size:
        raise ValueError(f"an item of type {typecode!r} has another size here")
    made.frombytes(content)
    return made


def _plain_pattern(value: re.Pattern[Any]) -> object:
    if value.flags & re.DEBUG:
        raise Unsupported("says what it does when it is made")
    return [value.pattern, value.flags]


def _exact(to_plain: Callable[[Any], object], from_plain: Callable[[Any, Any], Any]) -> ClassAdapter:
    """Return the adapter of a class whose instances are made again exactly from what they consist of."""
    return ClassAdapter(to_plain, from_plain, is_exact=True)


ADAPTERS: Final = {
    "array:array": _exact(_plain_array, _array),
    "builtins:bytearray": _exact(bytes, lambda cls, state: cls(state)),
    "collections:Counter": _exact(_plain_counter, lambda cls, state: cls(state)),
    "collections:defaultdict": _exact(_plain_defaultdict, _defaultdict),
    "collections:deque": _exact(lambda value: [value.maxlen, list(value)], lambda cls, state: cls(state[1], state[0])),
    "datetime:date": _exact(lambda value: [value.year, value.month, value.day], lambda cls, state: cls(*state)),
    "datetime:datetime": _exact(_plain_datetime, _datetime),
    "datetime:time": _exact(_plain_time, _datetime),
    "datetime:timedelta": _exact(
        lambda value: [value.days, value.seconds, value.microseconds], lambda cls, state: cls(*state)
    ),
    "datetime:timezone": _exact(lambda value: [*value.__getinitargs__()], lambda cls, state: cls(*state)),
    "decimal:Decimal": _exact(str, lambda cls, state: cls(state)),
    "fractions:Fraction": _exact(lambda value: [value.numerator, value.denominator], lambda cls, state: cls(*state)),
    **{
        f"pathlib:{name}": _exact(str, lambda cls, state: cls(state))
        for name in ("PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath")
    },
    "re:Pattern": _exact(_plain_pattern, lambda _, state: re.compile(*state)),
    "types:SimpleNamespace": _exact(lambda value: dict(vars(value)), lambda cls, state: cls(**state)),
    "uuid:UUID": _exact(_plain_uuid, _uuid),
    "zoneinfo:ZoneInfo": _exact(_plain_zone, lambda cls, state: cls(state)),
}  # fmt: skip
