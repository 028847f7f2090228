"""What code asks of what it names: certain items and attributes, or more than that, and to which function it passes it.

Where a function is passed something, its parameter is asked in its place, see `jcache.fingerprint.passes`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from types import CodeType
from typing import Any, NamedTuple

from jcache.fingerprint.bytecode import nested, written
from jcache.fingerprint.instructions import ATTRIBUTE, NONE_TESTS, STORE_LOCAL, Step, steps_of
from jcache.fingerprint.receivers import Ask, taken_by
from jcache.fingerprint.uses import LOADS, NAMES, indexes, without_told
from jcache.fingerprint.ways import DEEPEST


class Asks(NamedTuple):
    """What a function asks of names and of its own parameters, see `jcache.fingerprint.asks`.

    Attributes:
        of_names: what it asks of each name.
        of_parameters: what it asks of each parameter.
        items: the names of the items for which it asks by constant texts, such as ``cfg[lr]``.
    """

    of_names: Mapping[str, Set[Ask]]
    of_parameters: Mapping[str, Set[Ask]]
    items: frozenset[str]


def asks_in(code: CodeType, *, untold: bool) -> Asks:
    """Return what a function asks of what it names; without what it only prints or logs if `untold`."""
    codes = list(nested(code))
    listings = [without_told(steps_of(one))[0] if untold else steps_of(one) for one in codes]
    of_names = defaultdict[str, set[Ask]](set)
    for one, listing in zip(codes, listings, strict=True):
        for name, what in [*asked(listing), *((each, None) for each in written(one, listing))]:
            of_names[name].add(what)
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    of_parameters = defaultdict[str, set[Ask]](set)
    for name, what in asked_of_parameters(listings[0], parameters):
        of_parameters[name].add(what)
    in_cells = {each for each in parameters if each in code.co_cellvars}  # nested functions name them
    for name, known in of_names.items() if in_cells else ():
        if any(is_within(name, each) for each in in_cells):
            of_parameters[name] |= known
    items = (name + each for name, asks in of_names.items() for each in asks if type(each) is str and each[:1] == "[")
    return Asks(of_names, of_parameters, frozenset(items))


def asked(listing: list[Step]) -> Iterator[tuple[str, Ask]]:
    """Yield the names of what is loaded, each with what it is asked for.

    An item has the name ``n[key]``, and a local name that is bound once stands for what it is bound to.
    """
    bound = Counter(each.value for each in listing if each.name == STORE_LOCAL)
    seen = set[tuple[str, str]]()
    for at, each in enumerate(listing):
        if each.name in LOADS:
            yield from _asked_of(each.value, listing, at, bound, seen)
        elif each.name in NAMES:
            yield each.value, None


def asked_of_parameters(listing: list[Step], parameters: Iterable[str]) -> Iterator[tuple[str, Ask]]:
    """Yield the names of parameters and of their items, each with what it is asked for."""
    bound = Counter(each.value for each in listing if each.name == STORE_LOCAL)
    seen = set[tuple[str, str]]()
    for each in parameters:
        yield from _asked_locally(each, each, listing, bound, seen)


def is_within(name: str, outer: str) -> bool:
    """Return whether a name is that of something or of an item in it."""
    return name == outer or name.startswith(f"{outer}[")


def _asked_of(
    name: str, listing: list[Step], at: int, bound: Counter[str], seen: set[tuple[str, str]]
) -> Iterator[tuple[str, Ask]]:
    """Yield what something is asked for that has a name and is on the stack after an instruction.

    Args:
        name: the name.
        listing: the instructions.
        at: the place of the instruction.
        bound: how often local names are bound.
        seen: pairs of names and the local names that have been looked at for them.
    """
    after = listing[at + 1]
    item = _item(listing, at)
    if item is not None:
        key, end = item
        yield name, f"[{key}]"
        yield from _asked_of(f"{name}[{key}]", listing, end, bound, seen)
    elif after.name in ATTRIBUTE:
        yield name, f".{after.value}"
    elif after.name.startswith(NONE_TESTS) or (
        after.name == "LOAD_CONST" and (after.value, listing[at + 2].name) == (None, "IS_OP")
    ):
        return  # whether it is None follows from its type
    elif after.name == "CONTAINS_OP" and (text := _text_before(listing, at)) is not None:
        yield name, f"[{text}]"
    elif after.name == STORE_LOCAL and bound[after.value] == 1:
        yield from _asked_locally(name, after.value, listing, bound, seen)
    else:
        yield from ((name, each) for each in taken_by(listing, at))


def _asked_locally(
    name: str, local: str, listing: list[Step], bound: Counter[str], seen: set[tuple[str, str]]
) -> Iterator[tuple[str, Ask]]:
    """Yield what something of a name is asked for by a local name of the function."""
    if (name, local) in seen:
        return
    seen.add((name, local))
    if name.count("[") > DEEPEST:  # as where a loop steps from item to item
        yield name, None
        return
    for at, each in enumerate(listing):
        if "LOAD_FAST" in each.name and each.value == local:
            yield from _asked_of(name, listing, at, bound, seen)


def _item(listing: list[Step], at: int) -> tuple[str, int] | None:
    """Return the constant text that what is on the stack is asked for, and the place after which it has been got."""
    first, second, third, fourth = (listing[at + 1 : at + 5] + [listing[-1]] * 4)[:4]
    key: Any = None
    end = at + 2
    if first.name == "LOAD_CONST" and indexes(second):
        key = first.value
    elif first.name in ATTRIBUTE and (first.value, first.called) == ("get", True) and second.name == "LOAD_CONST":
        call, end = (fourth, at + 4) if third.name == "LOAD_CONST" else (third, at + 3)
        key = second.value if call.name == "CALL" and call.number == 1 + (call is fourth) else None
    return (key, end) if type(key) is str else None


def _text_before(listing: list[Step], at: int) -> str | None:
    """Return the constant text before the name or attribute that an instruction loads; None if it may be another."""
    while at and listing[at].name in ATTRIBUTE:
        at -= 1
    before, first = listing[max(at - 1, 0)], listing[max(at - 2, 0)]
    return before.value if at and type(before.value) is str and _is_certain(before, first) else None


def _is_certain(constant: Step, before: Step) -> bool:
    """Return whether an instruction loads a constant, and not one of several that a condition chooses."""
    return constant.name == "LOAD_CONST" and "JUMP" not in before.name
