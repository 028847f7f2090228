"""Selection of the items of dicts and of configurations that count: those for which code asks by their names.

A configuration is an object whose fields do not change by themselves: an instance of a frozen dataclass, a named tuple,
a pydantic model, or a configuration of ml_collections or OmegaConf. Code that does anything else with it than to ask
for a field, such as to compare it or to pass it on, uses all of it.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from jcache.fingerprint import attributes, methods
from jcache.fingerprint.asks import PASSED
from jcache.fingerprint.code import meaning_of
from jcache.fingerprint.describe import in_short, vars_of
from jcache.fingerprint.encoding import SCALARS, several
from jcache.fingerprint.name_resolution import of_function as origin_of
from jcache.fingerprint.origins import USER
from jcache.fingerprint.type_keys import type_key
from jcache.jax_internals.registry import registry

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder

_PLAIN: Final = frozenset({*SCALARS, dict, list, tuple, set, frozenset})
_OF_TUPLES: Final = frozenset({"_asdict", "_replace", "_make", "_fields", "_field_defaults"})
Names = tuple[str, ...]


class Narrowed(NamedTuple):
    """A dict or configuration of which only some items count.

    Attributes:
        names: the names by which code reaches it.
        address: its address.
        kind: its type.
        fields: the names of its items.
    """

    names: Names
    address: int
    kind: type
    fields: frozenset[str]


class Selected:
    """The fields of a configuration that count, in its place."""

    def __init__(self, kind: type, fields: Mapping[str, Any]) -> None:
        self.kind = kind
        self.fields = fields

    def in_words(self) -> str:
        shown = [f"{name}={in_short(each)}" for name, each in sorted(self.fields.items())]
        return f"{self.kind.__qualname__}({', '.join(shown)})"


def encode_selected(encoder: Encoder, value: Selected) -> bytes:
    return several(b"selected", [encoder.class_(value.kind), encoder.attributes(value.fields.items())])


def select(encoder: Encoder, names: Names, value: Any) -> Any:
    """Return a dict or configuration without the items that code does not name, which are set aside.

    Anything else is returned as it is, and so is what code uses in another way than by constant names.

    Args:
        encoder: the encoder, whose walk has visited the code.
        names: the names by which code reaches the value.
        value: any value.
    """
    fields = None if encoder.is_given else _fields(encoder, value)
    if fields is None or not encoder.leaves_out(*(f"{name}[]" for name in names)):
        return value
    kind = type(value)
    found = Narrowed(names, id(value), kind, frozenset(map(str, fields)))
    if _is_used(encoder, found):
        return value
    if kind is dict:
        return _of_dict(encoder, found, fields, value)
    methods.add_names(_own(encoder, kind), encoder.names)
    encoder.note_selected(found, value)
    kept = {}
    for key, each in sorted(fields.items()):
        inner = (key, *(f"{name}[{key}]" for name in names))
        if not encoder.names.isdisjoint(inner) and not attributes.is_kept(kind, key):
            kept[key] = select(encoder, inner, encoder.then(value, key, each))
            continue
        encoder.aside.update(() if attributes.is_kept(kind, key) else inner)
        encoder.set_aside(f"attribute {key} of {kind.__qualname__}", each)
    return Selected(kind, kept)


def _of_dict(encoder: Encoder, found: Narrowed, fields: Mapping[Any, Any], value: Any) -> Any:
    """Return the items of a dict that code names, and those that are no plain data; the dict if these are all."""
    kept, left_out = {}, {}
    for key, each in fields.items():
        inner = tuple(f"{name}[{key}]" for name in found.names) if type(key) is str else ()
        if inner and encoder.names.isdisjoint(inner) and type(each) in _PLAIN:
            left_out[key] = each
            encoder.aside.update(inner)
        else:
            kept[key] = select(encoder, inner, each) if inner else each
    if not kept or (not left_out and all(kept[key] is each for key, each in fields.items())):
        return value
    encoder.note_selected(found, value)
    if left_out:
        encoder.set_aside(f"items of {found.names[0]}", left_out)
    return kept


def found_whole(encoder: Encoder) -> set[str]:
    """Return a mark for each name of what has been selected from, though code uses it in another way, too."""
    by_address = dict[int, set[Names]]()
    for each in encoder.selected:
        if not (issubclass(each.kind, tuple) or attributes.is_frozen(each.kind)):
            by_address.setdefault(each.address, set()).add(each.names)
    shared = {names for at, known in by_address.items() if at in encoder.seen or len(known) > 1 for names in known}
    whole = (each.names for each in encoder.selected if each.names in shared or _is_used(encoder, each))
    return {f"{name}[]" for names in whole for name in names}


def _is_used(encoder: Encoder, found: Narrowed) -> bool:
    """Return whether code uses a dict or configuration in another way than by constant names of its items."""
    asked = set[str | None]().union(*map(encoder.snapshot.asked_of, found.names))
    encoder.names |= encoder.snapshot.items()
    names = {each[1:] for each in asked if each and each[0] == "."}
    if None in asked or (PASSED in asked and not _is_by_name(found.kind)):
        return True
    if found.kind is dict:
        return bool(names)
    own = {name for cls in _own(encoder, found.kind) for name in vars(cls)} - _OF_TUPLES
    return not names <= own | found.fields or any(map(_uses_itself, _called(encoder, found.kind)))


def _is_by_name(kind: type) -> bool:
    """Return whether the fields of a configuration are attributes alone, which every function asks for by name."""
    return kind.__module__.partition(".")[0] not in _LIBRARIES and not issubclass(kind, dict | tuple)


def _uses_itself(function: FunctionType) -> bool:
    """Return whether a method does anything else with the object than to ask for attributes."""
    first = function.__code__.co_varnames[:1]
    asked = meaning_of(function).asks().of_parameters.get(first[0], ()) if first else ()
    return any(each is None or each[0] == "[" for each in asked)


def _called(encoder: Encoder, kind: type) -> Iterator[FunctionType]:
    """Yield the methods of the user's that code may call on an instance."""
    for cls in _own(encoder, kind):
        for name, value in vars(cls).copy().items():
            is_of_class = name in methods.CONSTRUCTORS or isinstance(value, staticmethod | classmethod)
            is_called = methods.is_reached(cls, name, value, encoder.names) and not methods.is_generated(value)
            if is_called and not is_of_class:
                yield from (each for each in attributes.functions_of(value) if origin_of(each) == USER)


def _own(encoder: Encoder, kind: type) -> list[type]:
    return [cls for cls in kind.__mro__[:-1] if not encoder.is_library(cls)]


def _fields(encoder: Encoder, value: Any) -> Mapping[Any, Any] | None:
    """Return the items of a dict or the fields of a configuration; None for any other object."""
    kind = type(value)
    if kind is dict:
        return cast("dict[Any, Any]", value)
    if encoder.is_library(kind):
        is_there = kind.__qualname__ in _OF_LIBRARIES and kind.__module__.partition(".")[0] in _LIBRARIES
        return _OF_LIBRARIES[kind.__qualname__](value) if is_there else None
    own = _own(encoder, kind)
    if kind in registry() or type_key(kind) or any(name in vars(cls) for cls in own for name in attributes.GIVES_ANY):
        return None
    bases = [each for each in kind.__mro__[:-1] if each not in own and not attributes.is_neutral(each)]
    if issubclass(kind, tuple):
        names: Any = getattr(kind, "_fields", None)
        is_named = type(names) is tuple and set(bases) <= {tuple}
        return {**dict(zip(names, tuple.__iter__(value), strict=True)), **vars_of(value)} if is_named else None
    model = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    is_configuration = bases[-1] is model if bases else attributes.is_frozen(kind)
    return dict(attributes.held(value)) if is_configuration and attributes.is_plain(kind, object) else None


def _of_ml_collections(value: Any) -> Mapping[Any, Any]:
    return dict(object.__getattribute__(value, "_fields"))


def _of_omegaconf(value: Any) -> Mapping[Any, Any] | None:
    """Return the plain values in a configuration, and those parts that hold others as they are; None with references
    to other values.
    """
    content = vars_of(value).get("_content")
    if type(content) is not dict or "${" in str(vars_of(value._get_root()).get("_content")):
        return None
    plain = {key: vars_of(each) for key, each in content.items()}
    return {key: each["_val"] if "_val" in each else content[key] for key, each in plain.items()}


_LIBRARIES: Final = frozenset({"ml_collections", "omegaconf"})
_OF_LIBRARIES: Final[Mapping[str, Callable[[Any], Mapping[Any, Any] | None]]] = {
    "ConfigDict": _of_ml_collections,
    "FrozenConfigDict": _of_ml_collections,
    "DictConfig": _of_omegaconf,
}
