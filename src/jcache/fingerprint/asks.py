"""What code asks of what it names: certain items and attributes, or more than that, and to which function it passes it.

Where a function is passed something, its parameter is asked in its place, see `jcache.fingerprint.passes`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import accumulate, takewhile
from types import CodeType
from typing import Any, Final, NamedTuple

from jcache.fingerprint.bytecode import nested, written
from jcache.fingerprint.instructions import ATTRIBUTE, Step, steps_of
from jcache.fingerprint.uses import (
    CELLS,
    ENDS_STATEMENT,
    GLOBALS,
    LOADS,
    NAMES,
    indexes,
    statement_before,
    without_told,
)

PASSED: Final = "()"
"""What is asked by passing something to a function that is not known."""
NAMED: Final = "(name)"
"""What is asked by passing something to `getattr`, `isinstance` and the like, whose result counts anyway."""
COMPARED: Final = "=="
"""What is asked by comparing or showing something, by putting it into a container or looking for it there."""
GLOBAL: Final = "global"
CELL: Final = "cell"
METHOD: Final = "method"
_TRANSFORMS: Final = frozenset(  # of JAX; what they return takes the same arguments
    {"checkpoint", "grad", "hessian", "jacfwd", "jacrev", "jit", "remat", "value_and_grad", "vmap"}
)
_PARTIAL: Final = {("partial",), ("functools", "partial")}
_BIND_LOCAL: Final = frozenset({"STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"})
_DEEPEST: Final = 8  # items within one another
_STORE_AND_LOAD: Final = "STORE_FAST_LOAD_FAST"
_CALLS: Final = frozenset({"CALL", "CALL_KW"})
_COMPARES: Final = frozenset(
    {"COMPARE_OP", "CONTAINS_OP", "FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BINARY_OP", "BINARY_SUBSCR",
     "STORE_SUBSCR", "DELETE_SUBSCR", "UNARY_NOT", "CALL_INTRINSIC_1", "BUILD_LIST", "BUILD_TUPLE", "BUILD_SET",
     "BUILD_MAP", "BUILD_CONST_KEY_MAP", "LIST_APPEND", "SET_ADD", "MAP_ADD"}
)  # fmt: skip
_READ_WHOLE: Final = frozenset(  # functions and methods that show, compare or iterate over what they are given
    {"all", "any", "ascii", "bool", "dict", "enumerate", "filter", "hash", "iter", "len", "list", "map", "max", "min",
     "print", "repr", "reversed", "set", "sorted", "str", "sum", "tuple", "zip", "format_map"}
    | {name for kind in (dict, list, set, frozenset, str, tuple, deque) for name in dir(kind)}
)  # fmt: skip


class Passed(NamedTuple):
    """What is asked by passing something to a function.

    Attributes:
        chain: the name by which code reaches the function, and the attributes that it reads from there.
        kind: whether that is the name of a GLOBAL, of a variable in a CELL, or of a METHOD of any object.
        argument: the place of the argument, or its keyword.
        wrapper: the global name of what makes the function that is called of that function, such as `functools.partial`
            or `jax.grad`, if that is known then; else empty.
    """

    chain: tuple[str, ...]
    kind: str
    argument: int | str
    wrapper: tuple[str, ...] = ()


Ask = str | Passed | None
"""``[key]`` for ``n["key"]`` and ``n.get("key")``, ``.key`` for an attribute, PASSED or `Passed` for an argument of a
call, COMPARED, and None for any other use."""


class Asks(NamedTuple):
    """What a function asks of names and of its own parameters, see `jcache.fingerprint.asks`."""

    of_names: Mapping[str, Set[Ask]]
    of_parameters: Mapping[str, Set[Ask]]


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
    return Asks(of_names, of_parameters)


def asked(listing: list[Step]) -> Iterator[tuple[str, Ask]]:
    """Yield the names of what is loaded, each with what it is asked for.

    An item has the name ``n[key]``, and a local name that is bound once stands for what it is bound to.
    """
    bound = Counter(name for each in listing for name in _bound(each))
    seen = set[tuple[str, str]]()
    for at, each in enumerate(listing):
        if each.name in LOADS:
            yield from _asked_of(each.value, listing, at, bound, seen)
        elif each.name in NAMES:
            yield each.value, None


def asked_of_parameters(listing: list[Step], parameters: Iterable[str]) -> Iterator[tuple[str, Ask]]:
    """Yield the names of parameters and of their items, each with what it is asked for."""
    bound = Counter(name for each in listing for name in _bound(each))
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
    elif "_NONE" in after.name or (
        after.name == "LOAD_CONST" and (after.value, listing[at + 2].name) == (None, "IS_OP")
    ):
        return  # whether it is None follows from its type
    elif after.name == "CONTAINS_OP" and (text := _text_before(listing, at)) is not None:
        yield name, f"[{text}]"
    elif after.name in _BIND_LOCAL and bound[local := next(_bound(after))] == 1:
        yield from _asked_locally(name, local, listing, bound, seen)
    else:
        yield from ((name, each) for each in _passed(listing, at))


def _asked_locally(
    name: str, local: str, listing: list[Step], bound: Counter[str], seen: set[tuple[str, str]]
) -> Iterator[tuple[str, Ask]]:
    """Yield what something of a name is asked for by a local name of the function."""
    if (name, local) in seen:
        return
    seen.add((name, local))
    if name.count("[") > _DEEPEST:  # as where a loop steps from item to item
        yield name, None
        return
    for at, each in enumerate(listing):
        loaded = each.value if type(each.value) is tuple else (each.value,)
        loaded = loaded[1:] if each.name == _STORE_AND_LOAD else loaded if "LOAD_FAST" in each.name else ()
        if loaded and loaded[-1] == local:
            yield from _asked_of(name, listing, at, bound, seen)
        if local in loaded[:-1]:
            yield name, None


def _bound(step: Step) -> Iterator[str]:
    """Yield the local names that an instruction binds, that of what is on top of the stack first."""
    if "STORE_FAST" in step.name:
        given = step.value if type(step.value) is tuple else (step.value,)
        yield from given[:1] if step.name == _STORE_AND_LOAD else given


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


def _passed(listing: list[Step], at: int) -> tuple[Ask, ...]:
    """Return how something is used that is on the stack after an instruction: passed to a function, compared, …"""
    above = 0  # the number of values above it on the stack
    for end, each in enumerate(listing[at + 1 :], at + 1):
        if each.name != "KW_NAMES" and above + each.effect < 1:
            above -= each.name == "CALL_KW"  # the names of keywords are above the arguments then
            is_argument = each.name in _CALLS and above < each.number and not listing[at].called
            other = COMPARED if each.name in _COMPARES else None
            return _called(listing, at, end, each.number - 1 - above) if is_argument else (other,)
        above += each.effect
    return (None,)


def _called(listing: list[Step], at: int, end: int, place: int) -> tuple[Ask, ...]:
    """Return which functions a call may call that has something as its argument.

    Args:
        listing: the instructions.
        at: the place after which the argument is on the stack.
        end: the place of the call.
        place: the number of arguments before it.
    """
    call, before, begun, start = listing[end], listing[end - 1], list[int](), statement_before(listing, at).start
    for number in range(start, end):
        if listing[number].name.startswith("CALL"):
            begun = begun[:-1] if begun else [end]
        if listing[number].called:
            begun.append(number)
    if not begun or begun[-1] >= at or listing[begun[-1]].name.startswith("CALL"):  # what a call returns is called
        return _transformed(listing[start:at], before, call, place) or (None,)
    first = begun[-1]
    while first and listing[first].name in ATTRIBUTE:
        first -= 1
    if (chain := _chain(listing, first, at))[-1] in _READ_WHOLE:
        return (COMPARED,)
    if not _are_arguments(listing[(inner := first + len(chain)) : end]):
        return _transformed(listing[start:at], before, call, place) or (PASSED,)
    names = before.value if before.name == "KW_NAMES" or call.name == "CALL_KW" else ()
    keyword = place - (call.number - len(names))
    argument = names[keyword] if keyword >= 0 else place
    if _is_carried(listing, first):
        return (PASSED,)
    if chain in _PARTIAL and place and listing[first].name in GLOBALS:  # its first argument takes the others
        argument = argument if keyword >= 0 else place - 1
        return (_of_function(listing[inner], _chain(listing, inner, at), argument, chain),)
    return (_of_function(listing[first], chain, argument),)


def _is_carried(listing: list[Step], first: int) -> bool:
    """Return whether an instruction may be one of several that load something, of which a condition chooses one."""
    before, last = listing[max(first - 1, 0)].name, listing[max(first - 2, 0)].name
    return (before.startswith("JUMP") and not last.startswith(ENDS_STATEMENT)) or (
        before == "POP_TOP" and "JUMP" in last
    )


def _chain(listing: list[Step], first: int, end: int) -> tuple[str, ...]:
    """Return the name that an instruction loads, and the attributes that are read from there."""
    attributes = takewhile(lambda each: each.name in ATTRIBUTE, listing[first + 1 : end])
    return listing[first].value, *(each.value for each in attributes)


def _of_function(loaded: Step, chain: tuple[str, ...], argument: int | str, wrapper: tuple[str, ...] = ()) -> Ask:
    """Return how something is used that is passed to a function, which code reaches from what an instruction loads."""
    if loaded.name in GLOBALS | CELLS:
        return Passed(chain, GLOBAL if loaded.name in GLOBALS else CELL, argument, wrapper)
    return PASSED if len(chain) == 1 else Passed(chain[-1:], METHOD, argument)


def _transformed(begun: list[Step], last: Step, call: Step, place: int) -> tuple[Ask, ...]:
    """Return which functions may be called where the result of a call is called with something as its argument.

    It is the function in ``jax.grad(function, …)(…)``, and in ``lru_cache(function)(…)`` also one that is not known.
    There is none if nothing was called before.
    """
    ends = [at for at, each in enumerate(begun) if each.name.startswith("CALL")]
    if not ends:
        return ()
    first = ends[0]
    missing = begun[first].number + (begun[first].name == "CALL_KW")  # the names of keywords are above the arguments
    while first and missing > 0:
        first -= 1
        missing -= begun[first].effect
    if len(ends) > 1 or call.name != "CALL" or last.name == "KW_NAMES" or _is_carried(begun, first):
        return (PASSED,)
    head = begun[max(first - 2, 0)]
    wrapper = (head.value, begun[max(first - 1, 0)].value) if first > 1 and head.name in GLOBALS else ()
    is_transform = wrapper in {("jax", each) for each in _TRANSFORMS}
    chain = _chain(begun, first, ends[0])
    function = _of_function(begun[first], chain, place, wrapper if is_transform else ())
    return (function,) if is_transform else (function, PASSED)


def _are_arguments(listing: list[Step]) -> bool:
    """Return whether instructions only put values on the stack, and use none that was there before."""
    depths = list(accumulate(each.effect for each in listing))
    return bool(depths) and min(depths) > 0
