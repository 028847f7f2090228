"""How code uses containers: as a log, which only gets items, as a memo, or in any other way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from jcache.fingerprint.instructions import ATTRIBUTE, NONE_TESTS, STORE_LOCAL, Step
from jcache.fingerprint.uses import ENDS_STATEMENT, LOADS, STORE_ITEM, adds, indexes, statement_before, told

_TAKE_APART: Final = ("UNPACK_", "MATCH_", "GET_LEN", "SWAP", "JUMP")  # a jump ends what a condition chooses
DEEPEST: Final = 8  # items within one another
_OF_ITEMS: Final = frozenset({"get", "setdefault"})


class Way(Enum):
    """How code uses a container."""

    FILLED = auto()  # it gets an item
    STORED = auto()  # it gets an item in a certain place, beside `FILLED`
    COUNTED = auto()  # a number in it is replaced, as in ``n[k] += 1`` and ``n[k] = n.get(k, 0) + 1``
    ITEM = auto()  # an item of it is used, as of a memo
    INNER = auto()  # an item of it is filled, or counts
    FLAG = auto()  # a constant is looked for in it
    WHOLE = auto()  # it is used in any other way


def ways(listing: list[Step]) -> Iterator[tuple[str, Way]]:
    """Yield the names of what is loaded, each with a way in which a container of that name is used there.

    An item that is a container itself has the name that `item_name` makes.
    """
    said = told(listing)
    stored = Counter(each.value for each in listing if each.name == STORE_LOCAL)
    bound = set[str]()  # local names, as far as the listing has bound them
    for at, each in enumerate(listing):
        bound.update([each.value] if each.name == STORE_LOCAL else [])
        if at in said:
            continue
        if each.name in LOADS or each.name == "IMPORT_FROM" or ("LOAD_FAST" in each.name and not stored[each.value]):
            yield from _named_ways(each.value, listing, at, said, stored)
        elif "LOAD_FAST" in each.name and each.value not in bound:  # a parameter that is another value later
            yield each.value, Way.WHOLE


def _named_ways(
    name: str, listing: list[Step], at: int, said: set[int], stored: Counter[str]
) -> Iterator[tuple[str, Way]]:
    """Yield the name of what is on the stack after an instruction, and those of items in it, each with a way."""
    left, seen = [(name, at)], set[tuple[str, int]]()
    while left:
        name, at = each = left.pop()
        if each in seen or name.count("[") > DEEPEST:
            continue
        seen.add(each)
        yield from ((name, way) for way in _ways_of(listing, at, said, stored))
        item = _item(listing, at)
        if item is not None:
            left.append((item_name(name, item[1]), item[0]))
        after = listing[at + 1]
        if after.name == STORE_LOCAL and stored[after.value] == 1:  # the items of what has a name in this function
            places = [n for n, one in enumerate(listing) if "LOAD_FAST" in one.name and one.value == after.value]
            left += [(item_name(name, item[1]), item[0]) for n in places if (item := _item(listing, n)) is not None]


def item_name(container: str, key: str | None) -> str:
    """Return the name of a container within another one; without a key, that of any one in it."""
    return f"{container}[{key or ''}]"


def _ways_of(listing: list[Step], at: int, said: set[int], stored: Counter[str]) -> set[Way]:
    """Return the ways in which the container is used that is on the stack after an instruction."""
    way, end = _way(listing, at)
    after = listing[end]
    is_alone = listing[end - 1].name != "COPY" and (way is Way.ITEM or end == at + 1)  # and has one name
    if not is_alone or way not in {Way.WHOLE, Way.ITEM} or after.name != STORE_LOCAL or stored[after.value] != 1:
        return _with_stored(listing, way, end)
    loads = (n for n, one in enumerate(listing) if "LOAD_FAST" in one.name and one.value == after.value)
    found = (_with_stored(listing, *_way(listing, n)) for n in loads if n not in said)  # by a name of its own here
    others = set[Way]().union(*found)
    if way is Way.WHOLE:
        return others
    inner = {Way.INNER} if others & {Way.FILLED, Way.COUNTED} else set()
    return inner if inner and others <= {Way.FILLED, Way.STORED, Way.COUNTED, Way.INNER} else {way} | inner


def _with_stored(listing: list[Step], way: Way, end: int) -> set[Way]:
    return {way, Way.STORED} if way is Way.FILLED and listing[end].name == STORE_ITEM else {way}


def _item(listing: list[Step], at: int) -> tuple[int, str | None] | None:
    """Return where an item of a container is on the stack, and its key if that is a constant text.

    Args:
        listing: the instructions.
        at: the place of the instruction after which the container is on the stack.

    Returns:
        The place of the instruction that replaces the container by the item, and the key; None if there is no item.
    """
    above, is_asked = 0, False  # the number of values above it on the stack
    for number, each in enumerate(listing[at + 1 :], at + 1):
        if above == 0 and each.name in ATTRIBUTE:
            if not (each.called and each.value in _OF_ITEMS):
                return None
            is_asked, at = True, number
        elif above == 1 and not is_asked and indexes(each):
            return None if listing[number - 1].name == "BUILD_SLICE" else (number, _constant(listing, at, number))
        above += each.effect
        if above < 1:
            return (number, _constant(listing, at, number)) if is_asked and each.name == "CALL" else None
    return None


def _constant(listing: list[Step], at: int, end: int) -> str | None:
    """Return the constant text right after a place, if nothing but one more value follows it until the end."""
    key = listing[at + 1].value if listing[at + 1].name == "LOAD_CONST" else None
    return (
        key if type(key) is str and end - at <= 3 and all(each.effect > 0 for each in listing[at + 1 : end]) else None
    )


def _way(listing: list[Step], at: int) -> tuple[Way, int]:
    """Return how a container that is loaded at a place is used, and the place of the instruction that uses it."""
    if listing[at + 1].name.startswith(NONE_TESTS):
        return Way.FILLED, at + 1
    above, is_item, number = 0, False, at  # the number of values above it on the stack, and whether it is an item of it
    while number + 1 < len(listing):
        number += 1
        each = listing[number]
        if above == 0 and each.name in ATTRIBUTE:
            way, item = _of_attribute(listing, number, is_item=is_item)
            if item is None:
                return way, number
            number, is_item = item, True
            continue
        if above == 0 and each.name == "CONTAINS_OP" and not is_item:
            return Way.FLAG if listing[_begin(listing, at) - 1].name == "LOAD_CONST" else Way.ITEM, number
        if above == 1 and (each.name == STORE_ITEM or _is_augmented(listing, number)):
            is_count = each.name != STORE_ITEM or _stores_count(listing, number)
            change = Way.COUNTED if is_count else Way.FILLED
            return Way.INNER if is_item else change, number
        if above == 1 and indexes(each):
            if listing[number - 1].name == "BUILD_SLICE":
                return Way.WHOLE, number
            above, is_item = 0, True
            continue
        above += each.effect
        if above < 1 or each.name.startswith(_TAKE_APART):
            return Way.ITEM if is_item else Way.WHOLE, number
    return Way.WHOLE, at


def _of_attribute(listing: list[Step], at: int, *, is_item: bool) -> tuple[Way, int | None]:
    """Return how a container, or an item of it, is used whose attribute is loaded at a place; and where a method of it
    has returned an item, which may be used on.
    """
    if adds(listing[at]):
        return (Way.INNER if is_item else Way.FILLED), None
    way = Way.ITEM if is_item else _method(listing, at)
    item = _item(listing, at - 1) if way is Way.ITEM and not is_item else None
    return way, None if item is None else item[0]


def _begin(listing: list[Step], at: int) -> int:
    """Return the place where the expression begins whose last attribute is loaded at a place."""
    while at and listing[at].name in ATTRIBUTE:
        at -= 1
    return at


def _is_augmented(listing: list[Step], at: int) -> bool:
    """Return whether instructions copy a container and a key, as for ``n[k] += 1``."""
    return [each[:3:2] for each in listing[at : at + 2]] == [("COPY", 2)] * 2


def _is_counted(listing: list[Step], at: int, end: int) -> bool:
    """Return whether what the method ``n.get`` at a place returns only counts: in ``n[k] = n.get(k, 0) + 1``."""
    inner = [each.name for each in listing[at:end]]
    is_plain = inner.count("CALL") == 1 and "BINARY_OP" in inner and not {"COPY", "SWAP"} & {*inner}
    container, stored = listing[at - 1], listing[end - 2]
    return is_plain and (container.name, container.value) == (stored.name, stored.value)


def _stores_count(listing: list[Step], end: int) -> bool:
    """Return whether the instruction at a place stores a count, as in ``n[k] = n.get(k, 0) + 1``."""
    methods = (at for at in statement_before(listing, end) if listing[at].name in ATTRIBUTE and listing[at].called)
    return any(listing[at].value == "get" and _is_counted(listing, at, end) for at in methods)


def _method(listing: list[Step], at: int) -> Way:
    """Return how a container is used whose method is loaded at a place."""
    method = listing[at]
    if not method.called or method.value not in _OF_ITEMS:
        return Way.WHOLE
    end = next((n for n in range(at, len(listing)) if listing[n].name.startswith(ENDS_STATEMENT)), at)
    if method.value == "get" and listing[end].name == STORE_ITEM and _is_counted(listing, at, end):
        return Way.COUNTED
    call = next((n for n in range(at, end) if listing[n].name == "CALL"), at)
    default = listing[call - 1] if listing[call].number > 1 else None
    has_value = default is not None and default.name == "LOAD_CONST" and default.value is not None
    return Way.WHOLE if has_value and method.value == "get" else Way.ITEM
