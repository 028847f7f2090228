"""How code uses what it names: whether it only counts in an integer, asks a dict for certain items, or fills it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jcache.fingerprint.instructions import ATTRIBUTE, INDEX, Step

GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
CELLS: Final = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
LOADS: Final = GLOBALS | CELLS | ATTRIBUTE | {"LOAD_SUPER_ATTR"}
_BEFORE_STORE: Final = frozenset({"SWAP", "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_GLOBAL"})
_BINDS: Final = frozenset({"DELETE_GLOBAL", "IMPORT_FROM", "STORE_DEREF", "STORE_GLOBAL"})
NAMES: Final = LOADS | _BINDS
_STORED: Final = {
    "STORE_GLOBAL": GLOBALS, "STORE_NAME": GLOBALS, "STORE_DEREF": CELLS, "STORE_ATTR": ATTRIBUTE,
}  # fmt: skip
ENDS_STATEMENT: Final = ("STORE_", "POP_TOP", "RETURN_", "POP_JUMP", "JUMP")
TELLS: Final = frozenset(  # methods of a logger
    {"critical", "debug", "error", "exception", "fatal", "info", "log", "warning"}
)
_SETS_ATTRIBUTE: Final = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_ADDITIVE: Final = frozenset({0, 10, 13, 23})  # the numbers of +, -, += and -=
_MOST_BEFORE: Final = 4  # operations between a sum and its store
STORE_ITEM: Final = "STORE_SUBSCR"
_NO_STEP: Final = Step("", None, 0, called=False, effect=0)
_STRANGE: Final = ("YIELD", "SEND", "GET_AWAITABLE", "IMPORT", "MAKE_FUNCTION")  # they run other code, or import
_SHOW: Final = frozenset({"float", "int", "len", "list", "max", "min", "repr", "round", "sorted", "str", "sum"})
_ADDS: Final = frozenset({"add", "append", "appendleft", "extend", "update"})  # methods that return None


def used(listing: list[Step]) -> Iterator[str]:
    """Yield the names that are loaded or bound, but for those in which code counts, for what is only printed or logged,
    and for what only an item is stored in.
    """
    filling = {at for at, each in enumerate(listing) if each.name in LOADS and _is_filled(listing, at)}
    left_out = _counting(listing) | filling | told(listing)
    for at, each in enumerate(listing):
        is_left_out = _before(listing, at) == "BINARY_OP" if each.name in _BINDS else at in left_out
        if each.name in NAMES and not is_left_out:
            yield each.value


def _counting(listing: list[Step]) -> set[int]:
    """Return the places of the first loads in statements like ``n += 1`` or ``o.n = o.n + 1``."""
    found = set[int]()
    for at, each in enumerate(listing):
        if each.name in _STORED and _before(listing, at) == "BINARY_OP":
            steps = ((number, listing[number]) for number in statement_before(listing, at))
            loads = (n for n, step in steps if step.name in _STORED[each.name] and step.value == each.value)
            found.update(number for number in [next(loads, None)] if number is not None and _is_added(listing, number))
    return found


def only_counted(listing: list[Step]) -> set[str]:
    """Return the names of variables from outside, and of attributes, of which code does nothing but ``n += 1``, or
    prints them as well.
    """
    steady = {at: end for at in range(len(listing) - 3) if (end := _end_of_count(listing, at))}
    printed = {at for places in _telling(listing) if _prints(listing[places.start]) for at in places}
    other = {at for at, each in enumerate(listing) if each.name in NAMES} | {*_stores_of_attributes(listing)}
    used = {listing[at].value for at in other - steady.keys() - {*steady.values()} - printed}
    return {listing[at].value for at in steady} - used


def set_attributes(listing: list[Step]) -> set[str]:
    """Return the names of attributes that code sets or deletes."""
    return {listing[at].value for at in _stores_of_attributes(listing)}


def _stores_of_attributes(listing: list[Step]) -> Iterator[int]:
    return (at for at, each in enumerate(listing) if each.name in _SETS_ATTRIBUTE)


def _end_of_count(listing: list[Step], at: int) -> int | None:
    """Return the place of the store if ``n += 1`` or ``o.n += 1`` begins to load at a place, with any integer."""
    load, constant, operator = listing[at : at + 3]
    end = at + (4 if load.name in ATTRIBUTE else 3)
    store = listing[end] if end < len(listing) else _NO_STEP
    if load.name not in _STORED.get(store.name, ()) or load.value != store.value:
        return None
    if load.name in ATTRIBUTE and not (listing[at - 1].name == "COPY" and listing[end - 1].name == "SWAP"):
        return None
    is_integer = constant.name == "LOAD_CONST" and type(constant.value) is int
    return end if is_integer and operator.name == "BINARY_OP" and operator.number in _ADDITIVE else None


def _is_added(listing: list[Step], at: int) -> bool:
    """Return whether only operators take what is loaded at a place, and what they make of it, until it is stored."""
    above = 0  # the number of values above it on the stack
    for each in listing[at + 1 :]:
        if each.name.startswith("STORE_") or each.name == "YIELD_VALUE":
            return each.name != "YIELD_VALUE"
        above += each.effect
        if each.effect < 0 and above < 1:
            if each.name != "BINARY_OP":
                return False
            above = 0
    return False


def statement_before(listing: list[Step], end: int) -> range:
    """Return the places of a statement's instructions before its last one."""
    ends = (number for number in range(end - 1, -1, -1) if listing[number].name.startswith(ENDS_STATEMENT))
    return range(next(ends, -1) + 1, end)


def _prints(first: Step) -> bool:
    return first.name in GLOBALS and first.value == "print"


def said(listing: list[Step]) -> Iterator[str]:
    """Yield the names that are loaded in statements that call a method of a logger, or one of the same name."""
    for places in _telling(listing):
        if not _prints(listing[places.start]):
            yield from (listing[number].value for number in places if listing[number].name in NAMES)


def _telling(listing: list[Step]) -> Iterator[range]:
    """Yield the places of each statement that only prints or logs something."""
    for at, each in enumerate(listing):
        if each.name == "POP_TOP" and (places := statement_before(listing, at)) and _tells(listing[places.start : at]):
            yield places


def without_told(listing: list[Step]) -> tuple[list[Step], set[str]]:
    """Return the instructions without statements like ``print(n)`` and ``logger.info("%s", n)`` that call nothing else
    than a global's method or `print`; and the names of these globals.

    All are there in a function with ``try``: what it prints may raise.
    """
    left, heads = [*listing], set[str]()
    for places in [] if handles_errors(listing) else _telling(listing):
        statement = listing[places.start : places.stop]
        calls = [each for each in statement if each.name.startswith("CALL")]
        is_plain = statement[0].name in GLOBALS and len(calls) == sum(each.called for each in statement) == 1
        if is_plain and not any(each.name.startswith(_STRANGE) or "file" in _names_in(each) for each in statement):
            heads.add(statement[0].value)
            left[places.start : places.stop] = [_NO_STEP] * len(statement)
            left[places.stop] = listing[places.stop]._replace(effect=0)
    return [each for each in left if each is not _NO_STEP], heads


def handles_errors(listing: list[Step]) -> bool:
    """Return whether there are handlers of errors besides those of ``with``."""
    names = [each.name for each in listing]
    return names.count("PUSH_EXC_INFO") > names.count("WITH_EXCEPT_START")


def _names_in(step: Step) -> tuple[object, ...]:
    """Return the names of keywords that an instruction gives to a call."""
    return step.value if type(step.value) is tuple and step.name in {"KW_NAMES", "LOAD_CONST"} else ()


def _tells(statement: list[Step]) -> bool:
    """Return whether a statement calls `print`, or a method of a logger."""
    first, second = statement[0], statement[min(1, len(statement) - 1)]
    is_called = second.called or first.called  # the latter for a function of a module that the module imports
    is_method = is_called and second.name in ATTRIBUTE and second.value in TELLS
    return _prints(first) or (is_method and first.value != "jax")


def _before(listing: list[Step], at: int) -> str:
    """Return the operation before a store, beside those that only prepare it."""
    names = (each.name for each in reversed(listing[max(at - _MOST_BEFORE, 0) : at]))
    return next((name for name in names if name not in _BEFORE_STORE), "")


def told(listing: list[Step]) -> set[int]:
    """Return the places of the instructions in statements that only print or log something, and call nothing else but
    functions such as `len`. There are none in a function with ``try``: what it prints may raise.
    """
    told = [] if handles_errors(listing) else _telling(listing)
    return {at for places in told if _is_mere(listing[places.start : places.stop]) for at in places}


def _is_mere(statement: list[Step]) -> bool:
    """Return whether a statement that calls one function only shows it something."""
    calls = [each for each in statement if each.called][1:]
    is_plain = all(each.name in GLOBALS and each.value in _SHOW for each in calls)
    return is_plain and not any(each.name.startswith(_STRANGE) or "file" in _names_in(each) for each in statement)


def filled(listing: list[Step]) -> Iterator[str]:
    """Yield the names of what only gets an item, as in ``n[k] = v`` and ``n.append(v)``."""
    for at, each in enumerate(listing):
        if each.name in LOADS and _is_filled(listing, at):
            yield each.value


def _is_filled(listing: list[Step], at: int) -> bool:
    """Return whether what is loaded at a place only gets an item: it lies below the item's key on the stack then."""
    above = 0  # the number of values above it
    for each in listing[at + 1 :]:
        if above == 0 and each.name in ATTRIBUTE:
            return adds(each)
        if each.name == STORE_ITEM or each.name.startswith(ENDS_STATEMENT):
            return each.name == STORE_ITEM and above == 1
        above += each.effect
        if above < 1:
            return False
    return False


def adds(step: Step) -> bool:
    """Return whether a step loads a method of a container that adds to it, to call it."""
    return step.called and step.name in ATTRIBUTE and step.value in _ADDS


def indexes(step: Step) -> bool:
    return step.name == "BINARY_SUBSCR" or step[:3:2] == ("BINARY_OP", INDEX)
