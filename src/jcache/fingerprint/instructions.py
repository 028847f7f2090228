"""The instructions of code objects, alike for the versions of Python as far as it goes."""

import dis
import sys
from types import CodeType
from typing import Any, Final, NamedTuple

_SILENT: Final = frozenset({"EXTENDED_ARG", "CACHE", "NOP", "PRECALL", "NOT_TAKEN", "RESUME"})
_NULL: Final = "PUSH_NULL"
_NULL_AFTER: Final = sys.version_info >= (3, 13)
_FLAGGED: Final = frozenset({"LOAD_GLOBAL", "LOAD_ATTR"} if sys.version_info >= (3, 12) else {"LOAD_GLOBAL"})
ATTRIBUTE: Final = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
INDEX: Final = 26  # of BINARY_OP, from 3.14 on


class Step(NamedTuple):
    """An instruction."""

    name: str  # of the operation
    value: Any  # what it is about
    number: int  # its argument, of a call how many it takes
    called: bool  # whether what it loads is about to be called


def steps_of(code: CodeType) -> list[Step]:
    """The instructions of a code object, without those that do nothing."""
    listing = [each for each in dis.get_instructions(code) if each.opname not in _SILENT]
    steps = []
    for at, each in enumerate(listing):
        if each.opname != _NULL:
            beside = at + 1 if _NULL_AFTER else at - 1  # where the call's empty place is made
            is_null = 0 <= beside < len(listing) and listing[beside].opname == _NULL
            flagged = each.opname in _FLAGGED and bool((each.arg or 0) & 1)
            called = is_null or flagged or each.opname == "LOAD_METHOD"
            steps.append(Step(each.opname, each.argval, each.arg or 0, called))
    return steps
