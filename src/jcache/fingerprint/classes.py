"""Members of a class that decide how it works, without those that Python or a library derives from them."""

# ruff: noqa: ANN401 - classes hold anything

import abc
import dataclasses
import datetime
import enum
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from jcache.fingerprint import origins
from jcache.fingerprint.attributes import held
from jcache.fingerprint.describe import attribute_of
from jcache.fingerprint.name_resolution import content_of

_MADE: Final = frozenset(
    {"__module__", "__doc__", "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__",
     "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl", "__orig_bases__",
     "__parameters__", "__type_params__", "__dataclass_fields__", "__dataclass_params__", "__protocol_attrs__",
     "__non_callable_proto_members__", "_is_protocol", "_is_runtime_protocol", "__attrs_props__",
     "__callable_proto_members_only__", "__mutable_keys__", "__readonly_keys__", "__slotnames__"}
)  # fmt: skip
_FIELD: Final = ("name", "default", "init", "repr", "hash", "compare", "kw_only", "metadata")
FACTORY: Final = "(factory of "  # the beginning of the name of what makes the default value of a dataclass's field
_PARAMETERS: Final = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
_ATTRIBUTE: Final = ("name", "default", "validator", "repr", "eq", "order", "hash", "init", "metadata", "converter",
                     "kw_only", "on_setattr", "alias")  # fmt: skip
_MIXED: Final[Mapping[type, Callable[[Any], object]]] = {
    int: int.__index__, float: float.__float__, complex: complex.__pos__, str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    list: lambda value: list.__getitem__(value, slice(None)), dict: dict.copy, set: set.copy, frozenset: frozenset.copy,
    datetime.timedelta: lambda value: (value.days, value.seconds, value.microseconds),
}  # fmt: skip
"""What the base class of an enum's members holds."""
_SLOTS: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)
_MACHINERY: Final = frozenset({"dataclasses", "typing", "enum", "collections", "reprlib"})
_NAMED_TUPLE: Final = frozenset({"_make", "_replace", "_asdict", "__new__"})


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the members that count."""
    own = vars(cls).copy()
    yield from _described(cls, own)
    for name, value in own.items():
        is_slot = isinstance(value, _SLOTS) and value.__objclass__ is cls and value.__name__ == name
        if name in _MADE or name in _OF_PYDANTIC or is_slot:
            continue
        if issubclass(cls, enum.Enum) and _is_of_enum(name, value, cls):
            continue
        if not _is_generated(name, value, own, cls):
            yield name, value
        elif (function := _function(value)) is not None and (function.__defaults__ or function.__kwdefaults__):
            yield f"(defaults of {name})", (function.__defaults__, function.__kwdefaults__)
    if found := registered(cls):
        yield "(registered)", found


def registered(cls: type) -> set[type]:
    """Return the virtual subclasses that are registered with an abstract base class; none with another class."""
    listed = abc._get_dump(cls)[0] if "_abc_impl" in vars(cls) else ()  # type: ignore[attr-defined]
    return {each() for each in listed} - {None}


def _described(cls: type, own: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a library generates methods from, in order: dataclass fields, attrs attributes, enum members."""
    if "__dataclass_fields__" in own:
        fields = own["__dataclass_fields__"].copy().values()
        yield "(fields)", tuple(own["__dataclass_fields__"])
        for each in fields:
            yield f"(field {each.name})", (*(getattr(each, name) for name in _FIELD), str(each._field_type))
            if each.default_factory is not dataclasses.MISSING:
                yield f"{FACTORY}{each.name})", each.default_factory
        yield "(dataclass)", tuple(getattr(own["__dataclass_params__"], name) for name in _PARAMETERS)
    if "__attrs_attrs__" in own:
        yield "(fields)", tuple(each.name for each in own["__attrs_attrs__"])
        for each in own["__attrs_attrs__"]:
            yield f"(field {each.name})", tuple(getattr(each, name, None) for name in _ATTRIBUTE)
    if issubclass(cls, enum.Enum):
        places = {name: place for place, name in enumerate(cls._member_names_)}  # aliases have none
        yield "(members)", tuple(cls.__members__)
        for name, member in cls.__members__.items():
            state = {key: value for key, value in held(member) if key not in OF_MEMBERS}
            mixed = [make(member) for kind, make in _MIXED.items() if isinstance(member, kind)]
            yield f"(member {name})", (places.get(name), member._name_, member._value_, state, *mixed)


_OF_ENUMS: Final = frozenset(
    {"_member_map_", "_member_names_", "_member_type_", "_value2member_map_", "_unhashable_values_",
     "_unhashable_values_map_", "_hashable_values_", "_use_args_", "_value_repr_", "_flag_mask_", "_singles_mask_",
     "_all_bits_", "_inverted_", "_new_member_", "__new_member__"}
)  # fmt: skip
_OF_PYDANTIC: Final = frozenset(
    f"__pydantic_{name}__"
    for name in ("core_schema", "validator", "serializer", "parent_namespace", "setattr_handlers")
)  # derived from the fields; they contain addresses
OF_MEMBERS: Final = frozenset({"_name_", "__objclass__", "_sort_order_", "_value_"})


def _is_of_enum(name: str, value: Any, cls: type[enum.Enum]) -> bool:
    function = _function(value)
    return name in cls.__members__ or name in _OF_ENUMS or (function is not None and _is_usual(function, name))


def _function(value: Any) -> types.FunctionType | None:
    """Return the function behind a method of any kind, and behind what a library wraps around it; else None."""
    value = attribute_of(value, "__func__", value)
    while isinstance(value, types.FunctionType) and hasattr(value, "__wrapped__") and _is_of_machinery(value):
        value = value.__wrapped__
    return value if isinstance(value, types.FunctionType) else None


def _is_usual(function: types.FunctionType, name: str) -> bool:
    """Return whether the standard library has given a class a method, and it is no other special method."""
    held = map(content_of, function.__closure__ or ())
    wraps = any(type(each) is types.FunctionType and not _is_of_machinery(each) for each in held)
    return _is_of_machinery(function) and not wraps and (function.__name__ == name or function.__name__[:2] != "__")


def _is_of_machinery(function: types.FunctionType) -> bool:
    return (
        function.__globals__.get("__name__") in _MACHINERY
        and origins.of_path(function.__code__.co_filename) == origins.STDLIB
    )


def _is_generated(name: str, value: Any, own: Mapping[str, Any], cls: type) -> bool:
    is_tuple = "_fields" in own and "_field_defaults" in own
    if is_tuple and type(value).__name__ == "_tuplegetter":
        return bool(own["_fields"].index(name) == value.__reduce__()[1][0]) if name in own["_fields"] else False
    function = _function(value)
    if function is None:
        return name in {"__attrs_attrs__", "__attrs_own_setattr__"}
    code = function.__code__
    if code.co_filename.startswith("<attrs generated"):
        return True
    if is_tuple and name in _NAMED_TUPLE and code.co_filename.startswith("<"):
        return str(function.__globals__.get("__name__")).startswith("namedtuple_")
    if code.co_filename == "<string>":
        is_its_own = str(attribute_of(value, "__qualname__")).rpartition(".")[0] == cls.__qualname__
        return "__dataclass_fields__" in own and is_its_own and code.co_qualname.startswith("__create_fn__.<locals>.")
    is_special = (name[:2] == "__" and name[-2:] == "__") or (is_tuple and name in _NAMED_TUPLE)
    return is_special and _is_usual(function, name)
