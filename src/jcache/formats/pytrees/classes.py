"""Classes whose instances can be stored: found by name among imported modules, instantiated without calling them."""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from types import MemberDescriptorType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from jcache.errors import Unresolved
from jcache.formats.pytrees.grammar import PLAIN, Unsupported

_layouts: WeakKeyDictionary[type, DataclassLayout] = WeakKeyDictionary()


def name_of(cls: type) -> str:
    """Return the module and qualified name of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def find(name: str) -> type:
    """Return the class of a name, from the modules that are imported; nothing is imported, and no code of them runs.

    Raises:
        Unresolved: there is no such class.
    """
    found = lookup(name)
    if not isinstance(found, type):
        module_name, _, qualified = name.partition(":")
        raise Unresolved(f"`{module_name}` has no class `{qualified}`.")
    return found


def lookup(name: str) -> object:
    """Return the object of a name in a module that is imported, None if there is none; no code runs.

    Raises:
        Unresolved: the module is not imported.
    """
    module_name, _, qualified = name.partition(":")
    found: object = sys.modules.get(module_name)
    if not isinstance(found, ModuleType):
        raise Unresolved(f"`{module_name}`, which has `{qualified}`, is not imported.")
    for part in qualified.split("."):
        namespace = object.__getattribute__(found, "__dict__") if isinstance(found, ModuleType) else _namespace(found)
        found = namespace.get(part)
    return found


def _namespace(found: object) -> dict[str, object]:
    return dict(type.__getattribute__(found, "__dict__")) if isinstance(found, type) else {}


def check_findable(cls: type) -> None:
    """Check that instances of a class can be made again.

    Raises:
        Unsupported: they cannot.
    """
    try:
        found: type | None = find(name_of(cls))
    except Unresolved:
        found = None
    if found is not cls:
        raise Unsupported("cannot be found again by its module and name")
    if any("__del__" in base.__dict__ for base in cls.__mro__):
        raise Unsupported("has a finalizer (`__del__`)")


class DataclassLayout(NamedTuple):
    """The fields of a dataclass, and the places of their values in an instance.

    Attributes:
        names: names of the fields.
        slots: descriptors of all slots, by name.
        defaults: values in the class, by the names of fields that an instance may lack.
        forgotten: names of attributes that are not stored: values of cached properties, and the T of ``Box[T](…)``.
    """

    names: tuple[str, ...]
    slots: dict[str, MemberDescriptorType]
    defaults: dict[str, object]
    forgotten: frozenset[str]


def layout_of(cls: type) -> DataclassLayout:
    """Return the layout of a dataclass whose instances can be made without calling it.

    Raises:
        Unsupported: they cannot.
    """
    if cls not in _layouts:
        _layouts[cls] = _new_layout(cls)
    return _layouts[cls]


def _new_layout(cls: type) -> DataclassLayout:
    check_findable(cls)
    try:
        object.__new__(cls)
    except TypeError as error:
        raise Unsupported("is built on a class that only C code can make") from error
    names = tuple(field.name for field in dataclasses.fields(cls))
    attributes = {name: value for base in reversed(cls.__mro__) for name, value in base.__dict__.items()}
    slots = slots_of(cls)
    defaults = {name: attributes[name] for name in names if name in attributes and name not in slots}
    for name, default in defaults.items():
        if hasattr(type(default), "__set__"):
            raise Unsupported(f"has code for its field `{name}`")
    cached = {name for name, value in attributes.items() if isinstance(value, cached_property)}
    return DataclassLayout(names, slots, defaults, frozenset({"__orig_class__"} | cached - set(names)))


def slots_of(cls: type) -> dict[str, MemberDescriptorType]:
    """Return the descriptors of a class's slots."""
    return {
        name: value
        for base in reversed(cls.__mro__)
        for name, value in base.__dict__.items()
        if isinstance(value, MemberDescriptorType)
    }


def state_of(instance: object) -> tuple[tuple[str, ...], list[object]]:
    """Return the names and the values of the fields of a dataclass's instance.

    Raises:
        Unsupported: a field has no value, or the instance has more attributes.
    """
    layout = layout_of(type(instance))
    held = held_by(instance, layout.slots)
    try:
        values = [held.pop(name) if name in held else layout.defaults[name] for name in layout.names]
    except KeyError as error:
        raise Unsupported(f"has no value in its field `{error.args[0]}`") from error
    for name in held.keys() - layout.forgotten:
        raise Unsupported(f"has an attribute `{name}` that is none of its fields")
    return layout.names, values


def held_by(instance: object, slots: dict[str, MemberDescriptorType]) -> dict[str, object]:
    """Return the attributes in the slots and the ``__dict__`` of an instance."""
    held = dict(getattr(instance, "__dict__", {}))
    for name, slot in slots.items():
        with suppress(AttributeError):
            held[name] = slot.__get__(instance)
    return held


def is_namedtuple(cls: type) -> bool:
    """Return whether a class comes from ``collections.namedtuple`` or ``typing.NamedTuple``, or is derived from one."""
    fields = getattr(cls, "_fields", None)
    return issubclass(cls, tuple) and isinstance(fields, tuple) and all(type(name) is str for name in fields)


def fields_of_namedtuple(cls: type) -> tuple[str, ...]:
    """Return the names of a namedtuple's fields."""
    return tuple(cls._fields)  # type: ignore[attr-defined]


def is_flag(cls: type) -> bool:
    """Return whether members of an enumeration can be combined, by the rules of the standard library."""
    return issubclass(cls, enum.Flag) and cls._missing_.__func__ is enum.Flag._missing_.__func__  # type: ignore[attr-defined]


def member_of(class_name: str, member_name: str, value: object) -> Any:  # noqa: ANN401
    """Return a member of an enumeration.

    Raises:
        Unresolved: there is no such member, or its value has changed.
    """
    cls = _found(class_name, enum.Enum)
    member = cls._member_map_.get(member_name)
    if not isinstance(member, cls):
        raise Unresolved(f"`{class_name}` has no member `{member_name}`.")
    now = member._value_ if type(member._value_) in PLAIN else None
    if type(now) is not type(value) or repr(now) != repr(value):
        raise Unresolved(f"The value of `{class_name}.{member_name}` has changed from {value!r} to {now!r}.")
    return member


def flag_of(class_name: str, value: int) -> Any:  # noqa: ANN401
    """Return a combination of flags.

    Raises:
        Unresolved: the enumeration has no such combination.
    """
    cls = _found(class_name, enum.Flag)
    try:
        if is_flag(cls) and (found := cls(value))._value_ == value:  # before Python 3.11.4, it may be another one
            return found
    except ValueError:
        pass
    raise Unresolved(f"`{class_name}` has no combination of flags {value}.")


def namedtuple_of(class_name: str, names: list[object], values: list[object]) -> object:
    """Return a namedtuple, made without calling its class.

    Raises:
        Unresolved: its class is not imported, or has other fields.
    """
    cls = _found(class_name, tuple)
    if not is_namedtuple(cls):
        raise Unresolved(f"`{class_name}` is no namedtuple.")
    _check_makeable(check_findable, cls, class_name)
    _check_fields(class_name, fields_of_namedtuple(cls), names, values)
    return tuple.__new__(cls, values)


def instance_of(class_name: str, names: list[object], values: list[object]) -> object:
    """Return an instance of a dataclass, made without calling its class.

    Raises:
        Unresolved: its class is not imported, or has other fields.
    """
    cls = find(class_name)
    if not dataclasses.is_dataclass(cls):
        raise Unresolved(f"`{class_name}` is no dataclass.")
    _check_makeable(layout_of, cls, class_name)
    fields = layout_of(cls).names
    _check_fields(class_name, fields, names, values)
    instance = object.__new__(cls)
    for name, value in zip(fields, values, strict=True):
        object.__setattr__(instance, name, value)
    return instance


def _found(class_name: str, base: type) -> Any:  # noqa: ANN401
    """Return the class of a name, which must be derived from ``base``."""
    cls = find(class_name)
    if not issubclass(cls, base):
        raise Unresolved(f"`{class_name}` is no {base.__name__}.")
    return cls


def _check_makeable(check: Callable[[type], object], cls: type, class_name: str) -> None:
    try:
        check(cls)
    except Unsupported as error:
        raise Unresolved(f"Instances of `{class_name}` cannot be made: it {error}.") from error


def _check_fields(class_name: str, fields: tuple[str, ...], names: list[object], values: list[object]) -> None:
    if list(fields) != names or len(names) != len(values):
        raise Unresolved(f"`{class_name}` no longer has the fields with which it was stored.")
