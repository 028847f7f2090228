"""Selection of the fields of configurations that count: those for which code asks by their names.

Code that does anything else with a configuration than to ask for a field, such as to compare it or to iterate over it,
uses all of it. The attributes of other objects count by name as well, but for those of dataclasses that are compared.
"""

# ruff: noqa: ANN401 - programs hold anything

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from enum import Enum, auto
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.fingerprint import attributes, methods
from jcache.fingerprint.code import meaning_of
from jcache.fingerprint.configurations import (
    REFERENCE,
    compares_fields,
    fields_of,
    is_by_name,
    is_model,
    is_of_library,
    is_simple,
    names_of_bases,
    own_classes,
)
from jcache.fingerprint.describe import in_short, vars_of
from jcache.fingerprint.encoding import SCALARS, several
from jcache.fingerprint.logs import Log, is_log
from jcache.fingerprint.name_resolution import of_function as origin_of
from jcache.fingerprint.origins import USER
from jcache.fingerprint.passes import followed
from jcache.fingerprint.receivers import COMPARED, NAMED, PASSED, RAISED, Passed
from jcache.fingerprint.side_effects import IN_LIBRARY, IN_OBJECT
from jcache.fingerprint.visited import ARGUMENT

if TYPE_CHECKING:
    from jcache.fingerprint.values import Encoder

_PLAIN: Final = frozenset({*SCALARS, dict, list, tuple, set, frozenset})
_BY_NAME: Final = frozenset({PASSED, NAMED})  # asked by functions that use attributes alone
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


class Use(Enum):
    """How code uses a dict, a configuration or an object that is compared by its fields."""

    BY_NAME = auto()  # it asks for items and attributes by constant names alone
    HANDED_ON = auto()  # it also hands it to functions that are not known
    WHOLE = auto()  # it compares it, shows it, iterates over it, …


class Selected:
    """The fields of a configuration that count, in its place.

    Args:
        kind: the type of the configuration.
        fields: the fields by name.
        within: the names of the configuration as a holder of containers.
    """

    def __init__(self, kind: type, fields: Mapping[str, Any], within: Set[str]) -> None:
        self.kind = kind
        self.fields = fields
        self.within = within

    def in_words(self) -> str:
        shown = [f"{name}={in_short(each)}" for name, each in sorted(self.fields.items())]
        return f"{self.kind.__qualname__}({', '.join(shown)})"


def encode_selected(encoder: Encoder, value: Selected) -> bytes:
    kind = encoder.class_(value.kind)
    return several(b"selected", [kind, encoder.members(value.fields.items(), value.within)])


def select(encoder: Encoder, names: Names, value: Any, *, is_handed_on: bool = False) -> Any:
    """Return a dict or configuration without the items that code does not name, which are set aside.

    A `Log` stands for a container in which code only collects. Anything else is returned as it is, and so is what code
    uses in another way than by constant names, or reaches by other names than these.

    Args:
        encoder: the encoder, whose walk has visited the code.
        names: the names by which code reaches the value.
        value: any value.
        is_handed_on: whether it is within something that code hands to functions which are not known.
    """
    if encoder.is_given:
        return value
    if is_log(encoder, names[0], value):
        return Log(value)
    kind, fields = type(value), fields_of(value, is_argument=_is_argument(names))
    compares = fields is None and compares_fields(kind)
    if fields is None and not compares:
        return value
    found = Narrowed(names, id(value), kind, frozenset(map(str, vars_of(value) if fields is None else fields)))
    by_fields = [attributes.FIELDS] if attributes.has_fields(kind) else []
    use = _use(encoder, found) if encoder.leaves_out(*by_fields, *(f"{name}[]" for name in names)) else Use.WHOLE
    if use is Use.WHOLE:
        encoder.compared.update([id(value)] if compares else [])
        return value
    is_handed_on = is_handed_on or use is Use.HANDED_ON
    encoder.by_name.update([] if is_handed_on else [id(value)])
    if fields is None:
        _note(encoder, found, value)
        return value
    if kind is dict:
        return _of_dict(encoder, found, fields, value, is_handed_on=is_handed_on)
    methods.add_names(own_classes(kind), encoder.names)
    _note(encoder, found, value)
    kept = {}
    for key, each in sorted(fields.items()):
        inner = (key, *(f"{name}[{key}]" for name in names))
        is_derived = attributes.is_kept(kind, key)
        if not encoder.names.isdisjoint(inner) and not is_derived:
            kept[key] = select(encoder, inner, encoder.then(value, key, each), is_handed_on=is_handed_on)
            continue
        encoder.aside.update(() if is_derived else inner)
        encoder.set_aside(attributes.label_of(kind, key, is_cached=is_derived, is_handed_on=is_handed_on), each)
    if any(each is REFERENCE for each in kept.values()):
        return value
    return Selected(kind, kept, {*names, *(IN_LIBRARY if is_of_library(kind) else IN_OBJECT)})


def _note(encoder: Encoder, found: Narrowed, value: Any) -> None:
    encoder.selected.append(found)
    encoder.alive.append(value)


def is_handed_on(encoder: Encoder, value: Any) -> bool:
    """Return whether code may compare or show an object, such as one in a list, in a way that is not known.

    Flax does so with modules for its own caches alone.
    """
    kind = type(value)
    return compares_fields(kind) and id(value) not in encoder.by_name and not attributes.is_of_linen(kind)


def _is_argument(names: Names) -> bool:
    """Return whether something is an argument, or within one."""
    return any(name.startswith(ARGUMENT) for name in names)


def _of_dict(encoder: Encoder, found: Narrowed, fields: Mapping[Any, Any], value: Any, *, is_handed_on: bool) -> Any:
    """Return the items of a dict that code names, and those that are no plain data; the dict if these are all."""
    kept, left_out = {}, {}
    for key, each in fields.items():
        inner = tuple(f"{name}[{key}]" for name in found.names) if type(key) is str else ()
        if inner and encoder.names.isdisjoint(inner) and type(each) in _PLAIN:
            left_out[key] = each
            encoder.aside.update(inner)
        else:
            kept[key] = select(encoder, inner, each, is_handed_on=is_handed_on) if inner else each
    if not left_out and all(kept[key] is each for key, each in fields.items()):
        return value
    _note(encoder, found, value)
    encoder.alive.append(kept)
    encoder.originals[id(kept)] = value
    if left_out:
        encoder.set_aside(f"{attributes.HANDED_ON if is_handed_on else ''}items of {found.names[0]}", left_out)
    return kept


def found_whole(encoder: Encoder) -> set[str]:
    """Return a mark for each name of what is left out in part, though code uses it in another way, too."""
    by_address = dict[int, set[Names]]()
    for each in encoder.selected:
        if not (issubclass(each.kind, tuple) or attributes.is_frozen(each.kind) or compares_fields(each.kind)):
            by_address.setdefault(each.address, set()).add(each.names)
    shared = {names for at, known in by_address.items() if at in encoder.seen or len(known) > 1 for names in known}
    whole = (
        each.names
        for each in encoder.selected
        if each.names in shared or _use(encoder, each) is Use.WHOLE or not _is_asked(encoder, each)
    )
    return {f"{name}[]" for names in whole for name in names}


def is_model_by_name(encoder: Encoder, cls: type) -> bool:
    """Return whether code uses the objects of a pydantic model by names of the user's alone."""
    if not is_model(cls) or not encoder.leaves_out():
        return False
    inherited = names_of_bases(cls)
    is_alone = encoder.names.isdisjoint(inherited)
    encoder.aside.update(inherited if is_alone else ())
    return is_alone


def _is_asked(encoder: Encoder, found: Narrowed) -> bool:
    """Return whether code asks for something by the names of a configuration, else it reaches it in another way."""
    is_by_attributes = compares_fields(found.kind) and not _is_argument(found.names)
    return is_by_attributes or any(map(encoder.snapshot.asked_of, found.names))


def _use(encoder: Encoder, found: Narrowed) -> Use:
    """Return how code uses a dict, a configuration or an object that is compared by its fields."""
    asked = set[str | None]().union(*map(encoder.snapshot.asked_of, found.names))
    encoder.names |= encoder.snapshot.items()
    is_raised = RAISED in asked and not any(each.handles_errors for each in encoder.snapshot.uses)
    asked = asked - {RAISED} if is_raised else {COMPARED if each == RAISED else each for each in asked}
    if _is_argument(found.names):  # what gets an argument may hand it to the caller
        is_whole = not asked.isdisjoint({None, COMPARED, PASSED}) or _is_whole(encoder, found, asked)
    elif compares_fields(found.kind):
        is_whole = any(each and each[:3] in {COMPARED, ".__"} for each in asked)  # special methods are generated, too
        if not is_whole and (None in asked or _uses_itself(encoder, found, _attributes(asked))):
            return Use.HANDED_ON
    else:
        is_whole = _is_whole(encoder, found, asked)
    return Use.WHOLE if is_whole else Use.HANDED_ON if is_raised or PASSED in asked else Use.BY_NAME


def _attributes(asked: Set[str | None]) -> set[str]:
    return {each[1:] for each in asked if each and each[0] == "."}


def _is_whole(encoder: Encoder, found: Narrowed, asked: Set[str | None]) -> bool:
    """Return whether code uses a dict or configuration in another way than by constant names of its items.

    Args:
        encoder: the encoder.
        found: the dict or configuration.
        asked: what code asks of it.
    """
    names = _attributes(asked)
    if any(each and each[:3] == ".__" for each in asked):
        return True
    if not asked.isdisjoint({None, COMPARED} if is_by_name(found.kind) else {None, COMPARED, *_BY_NAME}):
        return True
    if found.kind is dict:
        return bool(names)
    if is_of_library(found.kind):  # a method of such a class hides a field of its name, and keys may be paths
        return any(hasattr(found.kind, each) for each in names) or any("." in each[1:] for each in asked if each)
    if PASSED in asked:  # any code may ask for what a library's base class has
        names |= encoder.names & names_of_bases(found.kind)
    return _uses_itself(encoder, found, names)


def _uses_itself(encoder: Encoder, found: Narrowed, names: Set[str]) -> bool:
    """Return whether a method of the user's does anything else with a configuration than to ask for its fields.

    Args:
        encoder: the encoder.
        found: the configuration.
        names: the attributes for which other code asks.
    """
    members = [each for cls in own_classes(found.kind) for each in vars(cls).copy().items()]
    simple = {name for name, value in members if is_simple(found.kind, name, value)}
    known = simple | found.fields
    if not names <= known or any(name in encoder.names for name, _ in members if name not in known):
        return True
    allowed = {f".{each}" for each in known} | (_BY_NAME if is_by_name(found.kind) else set())
    return any(_uses_first(encoder, function, allowed) for function in _called(encoder, found.kind))


def _uses_first(encoder: Encoder, function: FunctionType, allowed: Set[str]) -> bool:
    """Return whether a method asks more of the object than what is allowed."""
    code = function.__code__
    if not code.co_argcount or "super" in code.co_names:
        return True
    first, asked = code.co_varnames[0], set[str | None]()
    for each in meaning_of(function).asks().of_parameters.get(first, ()):
        if isinstance(each, Passed):
            through = followed(function, first, each, encoder.snapshot.functions)
            asked.update(what for name, what in through if name == first)
        else:
            asked.add(each)
    return not asked <= allowed


def _called(encoder: Encoder, kind: type) -> Iterator[FunctionType]:
    """Yield the methods of the user's that code may call on an instance."""
    for cls in own_classes(kind):
        for name, value in vars(cls).copy().items():
            is_of_class = name in methods.CONSTRUCTORS or isinstance(value, staticmethod | classmethod)
            is_called = methods.is_reached(cls, name, value, encoder.names) and not methods.is_generated(value)
            if is_called and not is_of_class:
                yield from (each for each in attributes.functions_of(value) if origin_of(each) == USER)
