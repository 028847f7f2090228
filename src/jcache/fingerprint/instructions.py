"""Instructions of code objects, with differences between versions of Python removed as far as possible."""

import dis
import sys
from types import CodeType
from typing import Any, Final, NamedTuple

_SILENT: Final = frozenset({"EXTENDED_ARG", "CACHE", "NOP", "NOT_TAKEN", "RESUME", "MAKE_CELL", "COPY_FREE_VARS"})
_NULL: Final = "PUSH_NULL"
_CELL: Final = "LOAD_CLOSURE"
_PREPARES: Final = frozenset({_NULL, "PRECALL"})
_NULL_AFTER: Final = sys.version_info >= (3, 13)
_FLAGGED: Final = frozenset({"LOAD_GLOBAL", "LOAD_ATTR"} if sys.version_info >= (3, 12) else {"LOAD_GLOBAL"})
ATTRIBUTE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
NONE_TESTS: Final = ("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_N", "POP_JUMP_BACKWARD_IF_N")
"""The beginnings of the names of operations that jump if something is None, or is not."""
STORE_LOCAL: Final = "STORE_FAST"
INDEX: Final = 26  # argument with which BINARY_OP indexes, from 3.14 on


class Step(NamedTuple):
    """One instruction."""

    name: str  # the operation
    value: Any  # the resolved argument, such as a name or a constant
    number: int  # the argument as a number; for a call, the number of arguments
    called: bool  # whether it loads something that is then called
    effect: int  # by how many values the stack grows, with what is left out before


def steps_of(code: CodeType) -> list[Step]:
    """Return the instructions of a code object, without those that do nothing."""
    listing = [each for each in dis.get_instructions(code) if each.opname not in _SILENT]
    steps, grows = [], 0
    for at, each in enumerate(listing):
        grows += dis.stack_effect(each.opcode, each.arg, jump=False)
        if each.opname not in _PREPARES:
            beside = at + 1 if _NULL_AFTER else at - 1  # where PUSH_NULL prepares the call
            is_null = 0 <= beside < len(listing) and listing[beside].opname == _NULL
            flagged = each.opname in _FLAGGED and bool((each.arg or 0) & 1)
            called = is_null or flagged or each.opname == "LOAD_METHOD"
            value = code.co_consts[each.arg or 0] if each.opname == "KW_NAMES" else each.argval
            steps += _taken_apart(Step(each.opname, value, each.arg or 0, called, grows))
            grows = 0
    cells = {*code.co_cellvars, *code.co_freevars}  # what nested functions get of these are cells, and not values
    return [each._replace(name=_CELL) if each.name == "LOAD_FAST" and each.value in cells else each for each in steps]


def _taken_apart(step: Step) -> list[Step]:
    """Return an instruction that is about two local variables as two instructions."""
    first, is_pair, second = step.name.partition("_FAST_")
    if not is_pair or type(step.value) is not tuple:
        return [step]
    names = f"{first}_FAST", second
    if first == "LOAD" and second.startswith("BORROW_"):
        names = ("LOAD_FAST_BORROW",) * 2
    effect = 1 if second[0] in "BL" else -1
    made = zip(names, step.value, (step.effect - effect, effect), strict=True)
    return [Step(name, value, 0, called=False, effect=effect) for name, value, effect in made]
