"""What a pickle would do, by its opcodes, without doing any of it.

A pickle is a program for a stack machine. What it can reach are the classes and functions that it names; so it is read
opcode by opcode, and every name must be on a list. Names that are computed, not spelled out just before they are looked
up, and the opcodes by which other things than names reach code, are not understood, on purpose. Time is linear in the
bytes, and memory is what the names and the few texts take.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

_LONGEST_TEXT: Final = 256  # of what can be part of a name
_TEXTS: Final = frozenset({"SHORT_BINUNICODE", "BINUNICODE"})
_RECALLS: Final = frozenset({"BINGET", "LONG_BINGET"})
_BETWEEN: Final = frozenset({"MEMOIZE", "FRAME"})  # which leave the stack as it is
_NUMBERS: Final = {"BININT": "<i", "BININT1": "<B", "BININT2": "<H"}
_PLAIN: Final = frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "MEMOIZE", "BINGET", "LONG_BINGET", "NONE", "NEWTRUE", "NEWFALSE", "BININT",
    "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES",
    "BINBYTES", "BINBYTES8", "BYTEARRAY8", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST",
    "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_SET", "ADDITEMS", "FROZENSET", "STACK_GLOBAL",
    "NEWOBJ", "REDUCE", "BUILD",
})  # fmt: skip


class TornPickle(Exception):
    """The bytes end before the pickle does."""


class _Opcode(NamedTuple):
    name: str
    size: int  # of the argument, or of the length before it
    counted: bool  # whether a length stands before it


class Step(NamedTuple):
    """One opcode: its name, its argument's bytes, and where it stands."""

    name: str
    argument: bytes
    at: int


@dataclass(slots=True)
class Program:
    """What a pickle would do.

    Attributes:
        protocol: of the pickle.
        opcodes: how many there are.
        names: the classes and functions that it looks up, as ``module.name``, each once, in order.
        strange: the first opcode that is none of plain data and names that are spelled out, as a sentence.
        numbers: the whole numbers that follow a text at once, as values in a dict follow their keys; the first of each.
        behind: how many bytes lie behind its end.
    """

    protocol: int = 0
    opcodes: int = 0
    names: list[str] = field(default_factory=list)
    strange: str | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    behind: int = 0


@cache
def _opcodes() -> dict[int, _Opcode]:
    """The machine's opcodes, by their bytes; those with an argument that ends at a line feed are not among them."""
    import pickletools

    found = {}
    for opcode in pickletools.opcodes:
        size = 0 if opcode.arg is None else opcode.arg.n
        counts = {
            pickletools.TAKEN_FROM_ARGUMENT1: 1,
            pickletools.TAKEN_FROM_ARGUMENT4: 4,
            pickletools.TAKEN_FROM_ARGUMENT4U: 4,
            pickletools.TAKEN_FROM_ARGUMENT8U: 8,
        }
        if size != pickletools.UP_TO_NEWLINE:
            found[ord(opcode.code)] = _Opcode(opcode.name, counts.get(size, size), size in counts)
    return found


def _steps(data: bytes) -> Iterator[Step]:
    """The opcodes up to the end of the pickle, or up to the first that is not plain.

    Raises:
        TornPickle: the bytes end before.
    """
    opcodes, at, end = _opcodes(), 0, len(data)
    while at < end:
        opcode = opcodes.get(data[at])
        if opcode is None or opcode.name not in _PLAIN:
            yield Step(f"byte {data[at]:02x}" if opcode is None else opcode.name, b"", at)
            return
        name, size, counted = opcode
        start = at + 1
        if counted:
            length = int.from_bytes(data[start : start + size], "little")
            start, size = start + size, length
        if start + size > end:
            break
        argument = data[start : start + size] if size <= _LONGEST_TEXT else b""
        yield Step(name, argument, at)
        at = start + size
        if name == "STOP":
            return
    raise TornPickle


def read(data: bytes) -> Program:
    """What a pickle would do, as far as its first opcode that is not plain.

    Raises:
        TornPickle: the bytes end before the pickle does.
    """
    program = Program()
    memo: dict[int, str] = {}
    remembered = 0
    top: list[str | None] = [None, None]  # the texts that are the two topmost on the stack, where they are texts
    for step in _steps(data):
        program.opcodes += 1
        name, argument, at = step
        if name in _BETWEEN:
            if name == "MEMOIZE":
                if top[1] is not None:
                    memo[remembered] = top[1]
                remembered += 1
        elif name in _TEXTS:
            top = [top[1], argument.decode(errors="replace")]
        elif name in _RECALLS:
            top = [top[1], memo.get(int.from_bytes(argument, "little"))]
        elif name == "STACK_GLOBAL":
            _look_up(program, top, at)
            top = [None, None]
        else:
            _note(program, step, top, len(data))
            top = [None, None]
        if program.strange is not None:
            break
    return program


def _look_up(program: Program, top: list[str | None], at: int) -> None:
    module, name = top
    if not module or not name:
        program.strange = f"a name at byte {at:,} that is computed, not spelled out"
    elif (full := f"{module}.{name}") not in program.names:
        program.names.append(full)


def _note(program: Program, step: Step, top: list[str | None], end: int) -> None:
    """What is to be known of the other opcodes."""
    name, argument, at = step
    if name not in _PLAIN:
        program.strange = f"{name} at byte {at:,}"
    elif name == "PROTO":
        program.protocol = argument[0]
    elif name == "STOP":
        program.behind = end - at - 1
    elif name in _NUMBERS and top[1] is not None:
        program.numbers.setdefault(top[1], struct.unpack(_NUMBERS[name], argument)[0])


def plain(value: Any) -> str:  # noqa: ANN401
    """The text of something that a file says, without what a terminal would obey."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode()
