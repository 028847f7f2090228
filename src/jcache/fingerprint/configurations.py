"""Configurations: objects whose fields are data, and which code asks for these by their names.

They are dicts, instances of frozen dataclasses, named tuples and pydantic models, and configurations of ml_collections
and OmegaConf.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from types import MemberDescriptorType
from typing import Any, Final, cast

from jcache.fingerprint import attributes, origins
from jcache.fingerprint.describe import vars_of
from jcache.fingerprint.name_resolution import of_function
from jcache.fingerprint.type_keys import type_key
from jcache.jax_internals.registry import registry

REFERENCE: Final = "${}"
"""Stands for a value that OmegaConf finds elsewhere."""
_OF_TUPLES: Final = frozenset({"_asdict", "_replace", "_make", "_fields", "_field_defaults"})


def fields_of(value: Any, *, is_argument: bool = False) -> Mapping[Any, Any] | None:
    """Return the items of a dict or the fields of a configuration; None for any other object.

    Args:
        value: any value.
        is_argument: whether dataclasses that are not frozen, and namespaces, count as configurations.
    """
    kind = type(value)
    if kind is dict:
        return cast("dict[Any, Any]", value)
    if is_argument and attributes.is_holder(kind):
        return vars_of(value)
    if is_of_library(kind):
        is_there = kind.__qualname__ in _OF_LIBRARIES and kind.__module__.partition(".")[0] in _LIBRARIES
        return _OF_LIBRARIES[kind.__qualname__](value) if is_there else None
    own = own_classes(kind)
    if kind in registry() or type_key(kind) or any(name in vars(cls) for cls in own for name in attributes.GIVES_ANY):
        return None
    bases = [each for each in kind.__mro__[:-1] if each not in own and not attributes.is_neutral(each)]
    if issubclass(kind, tuple):
        names: Any = getattr(kind, "_fields", None)
        is_named = type(names) is tuple and set(bases) <= {tuple}
        return {**dict(zip(names, tuple.__iter__(value), strict=True)), **vars_of(value)} if is_named else None
    if bases and getattr(value, "__pydantic_extra__", None):  # fields that are none of the class
        return None
    is_data = attributes.is_frozen(kind) or (is_argument and "__dataclass_params__" in vars(kind))
    is_configuration = is_model(kind) if bases else is_data
    return dict(attributes.held(value)) if is_configuration and attributes.is_plain(kind, object) else None


def is_model(kind: type) -> bool:
    """Return whether a class is a pydantic model, and of no further library's class."""
    model = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    bases = [
        each for each in kind.__mro__ if origins.of_module_named(each.__module__) not in {origins.USER, origins.STDLIB}
    ]
    return model is not None and bases == [model]


def _of_ml_collections(value: Any) -> Mapping[Any, Any] | None:
    fields = dict(object.__getattribute__(value, "_fields"))
    return fields if _are_texts(fields) else None


def _of_omegaconf(value: Any) -> Mapping[Any, Any] | None:
    """Return the plain values in a configuration, `REFERENCE` for one that refers to others, and other parts as they
    are.
    """
    content = vars_of(value).get("_content")
    if type(content) is not dict or not _are_texts(content):
        return None
    plain = {key: vars_of(each).get("_val", each) for key, each in content.items()}
    return {key: REFERENCE if type(each) is str and "${" in each else each for key, each in plain.items()}


def _are_texts(keys: Iterable[object]) -> bool:
    return all(type(each) is str for each in keys)


def is_of_library(kind: type) -> bool:
    return origins.of_module_named(str(kind.__module__)) != origins.USER


def own_classes(kind: type) -> list[type]:
    """Return those of a class and its bases that are the user's."""
    return [cls for cls in kind.__mro__[:-1] if not is_of_library(cls)]


def names_of_bases(kind: type) -> set[str]:
    """Return the names of the members that a class has from a library's."""
    bases = [each for each in kind.__mro__[:-1] if is_of_library(each)]
    return {name for each in bases for name in vars(each) if name[:2] != "__"}


def is_by_name(kind: type) -> bool:
    """Return whether the fields of a configuration are attributes alone, which every function asks for by name."""
    return kind.__module__.partition(".")[0] not in _LIBRARIES and not issubclass(kind, dict | tuple)


def compares_fields(kind: type) -> bool:
    """Return whether objects that are no configurations are compared or shown by all of their fields."""
    if attributes.is_holder(kind):
        return True
    known = [*map(vars, kind.__mro__)]  # a class inherits how its objects are compared
    is_compared = any("__dataclass_params__" in each for each in known) and not attributes.is_frozen(kind)
    return is_compared or any("__attrs_attrs__" in each for each in known)


def is_simple(kind: type, name: str, value: Any) -> bool:
    """Return whether a member of a configuration's class is plain data, a field, or methods of the user's alone."""
    if type(value) is MemberDescriptorType or isinstance(value, staticmethod | classmethod):
        return name not in _OF_TUPLES
    if type(value).__name__ == "_tuplegetter":
        fields: tuple[str, ...] = getattr(kind, "_fields", ())
        return name in fields and fields.index(name) == value.__reduce__()[1][0]
    if functions := attributes.functions_of(value):
        made_of = (value.fget, value.fset, value.fdel) if type(value) is property else (value,)
        is_all = len(functions) == len([each for each in made_of if each is not None])
        return is_all and all(of_function(each) == origins.USER for each in functions) and name not in _OF_TUPLES
    return not hasattr(type(value), "__get__") and name not in _OF_TUPLES


_LIBRARIES: Final = frozenset({"ml_collections", "omegaconf"})
_OF_LIBRARIES: Final[Mapping[str, Callable[[Any], Mapping[Any, Any] | None]]] = {
    "ConfigDict": _of_ml_collections,
    "FrozenConfigDict": _of_ml_collections,
    "DictConfig": _of_omegaconf,
}
