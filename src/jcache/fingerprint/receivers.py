"""Which function takes a value that is on the stack, as the instructions show it, or how it is used otherwise."""

from __future__ import annotations

from collections import deque
from itertools import accumulate, takewhile
from typing import Final, NamedTuple

from jcache.fingerprint.instructions import ATTRIBUTE, Step
from jcache.fingerprint.uses import CELLS, ENDS_STATEMENT, GLOBALS, statement_before

PASSED: Final = "()"
"""What is asked by passing something to a function that is not known."""
NAMED: Final = "(name)"
"""What is asked by passing something to `getattr`, `isinstance` and the like, whose result counts anyway."""
COMPARED: Final = "=="
"""What is asked by comparing or showing something, by putting it into a container or looking for it there."""
RAISED: Final = "raise"
"""What is asked by showing something in an error, as in ``raise ValueError(f"{n}")``."""
GLOBAL: Final = "global"
CELL: Final = "cell"
METHOD: Final = "method"
_TRANSFORMS: Final = frozenset(  # of JAX; what they return takes the same arguments
    {"checkpoint", "grad", "hessian", "jacfwd", "jacrev", "jit", "remat", "value_and_grad", "vmap"}
)
_PARTIAL: Final = {("partial",), ("functools", "partial")}
_CALLS: Final = frozenset({"CALL", "CALL_KW"})
_SHOWS: Final = frozenset({"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"})
_COMPARES: Final = frozenset(
    {"COMPARE_OP", "CONTAINS_OP", *_SHOWS, "BINARY_OP", "BINARY_SUBSCR",
     "STORE_SUBSCR", "DELETE_SUBSCR", "UNARY_NOT", "CALL_INTRINSIC_1", "BUILD_LIST", "BUILD_TUPLE", "BUILD_SET",
     "BUILD_MAP", "BUILD_CONST_KEY_MAP", "LIST_APPEND", "SET_ADD", "MAP_ADD"}
)  # fmt: skip
_RAISES: Final = "RAISE_VARARGS"
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
call, COMPARED, RAISED, and None for any other use."""


def taken_by(listing: list[Step], at: int) -> tuple[Ask, ...]:
    """Return how something is used that is on the stack after an instruction: passed to a function, compared, …"""
    above = 0  # the number of values above it on the stack
    for end, each in enumerate(listing[at + 1 :], at + 1):
        if each.name != "KW_NAMES" and above + each.effect < 1:
            above -= each.name == "CALL_KW"  # the names of keywords are above the arguments then
            is_argument = each.name in _CALLS and above < each.number and not listing[at].called
            if is_argument and listing[end + 1].name == _RAISES:
                return (RAISED,)
            return _called(listing, at, end, each.number - 1 - above) if is_argument else (_used_by(listing, end),)
        above += each.effect
    return (None,)


def _used_by(listing: list[Step], at: int) -> Ask:
    """Return how the instruction at a place, which is no call, uses something."""
    name, after = listing[at].name, (each.name for each in listing[at:])
    last = next((each for each in after if each == _RAISES or each.startswith(ENDS_STATEMENT)), "")
    if name not in _COMPARES:
        return None
    return RAISED if last == _RAISES else COMPARED


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
        return _transformed(listing[start:at], before, call, place) or (COMPARED,)
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
