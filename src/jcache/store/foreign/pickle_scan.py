"""What a pickle would do, by its opcodes, without doing any of it.

A pickle is a program for a stack machine. What it can reach are the classes and functions that it names; so it is read
opcode by opcode, and every name must be on a list. Names that are computed, not spelled out just before they are looked
up, and the opcodes by which other things than names reach code, are not understood, on purpose. Time is linear in the
bytes, and memory is what the names and the few texts take.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

_LONGEST_TEXT: Final = 256  # of what can be part of a name
_TEXTS: Final = frozenset({"SHORT_BINUNICODE", "BINUNICODE"})
_MEMOIZE: Final = 0x94
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


@dataclass(slots=True)
class PickleEffects:
    """The effects that a pickle would have.

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
    names: dict[str, None] = field(default_factory=dict)
    strange: str | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    behind: int = 0


@cache
def _opcodes() -> dict[int, _Opcode]:
    """Return the plain opcodes, by their bytes."""
    import pickletools

    found = {}
    counts = {
        pickletools.TAKEN_FROM_ARGUMENT1: 1,
        pickletools.TAKEN_FROM_ARGUMENT4: 4,
        pickletools.TAKEN_FROM_ARGUMENT4U: 4,
        pickletools.TAKEN_FROM_ARGUMENT8U: 8,
    }
    for opcode in pickletools.opcodes:
        if opcode.name in _PLAIN:
            size = 0 if opcode.arg is None else opcode.arg.n
            found[ord(opcode.code)] = _Opcode(opcode.name, counts.get(size, size), size in counts)
    return found


def _named(code: int) -> str:
    import pickletools

    names = (opcode.name for opcode in pickletools.opcodes if opcode.code == chr(code))
    return next(names, f"byte {code:02x}")


@cache
def _passed() -> tuple[int, ...]:
    """Return for each byte the length of its opcode's argument if only the length matters; else -1."""
    found = [-1] * 256
    for code, (name, size, counted) in _opcodes().items():
        if not counted and name not in {"PROTO", "STOP", "MEMOIZE", "STACK_GLOBAL", *_RECALLS}:
            found[code] = size
    return tuple(found)


def read(data: bytes) -> PickleEffects:
    """Return what a pickle would do, up to its first opcode that is not plain.

    Raises:
        TornPickle: the bytes end before the pickle does.
    """
    machine = _Machine(data)
    passed, at, end, count = _passed(), 0, len(data), 0
    while at < end:
        code = data[at]
        if machine.text is None and (size := passed[code]) >= 0:  # most of them
            machine.below = None
            at += 1 + size
        elif machine.text is None and code == _MEMOIZE:
            machine.remembered += 1
            at += 1
        else:
            at = machine.step(at)
        count += 1
        if machine.has_ended:
            machine.program.opcodes = count
            return machine.program
    raise TornPickle


@dataclass(slots=True)
class _Machine:
    """As much of the stack machine as tells names that are spelled out.

    Attributes:
        text, below: the topmost on the stack and the one below it, where they are texts.
        memo: the texts among what was remembered.
        remembered: how much was.
    """

    data: bytes
    program: PickleEffects = field(default_factory=PickleEffects)
    text: str | None = None
    below: str | None = None
    memo: dict[int, str] = field(default_factory=dict)
    remembered: int = 0
    has_ended: bool = False

    def step(self, at: int) -> int:
        """Take one opcode, and return the place of the next one."""
        opcode = _opcodes().get(self.data[at])
        if opcode is None:
            return self._stop(at, f"{_named(self.data[at])} at byte {at:,}")
        name, size, counted = opcode
        start = at + 1
        if counted:
            start, size = start + size, int.from_bytes(self.data[start : start + size], "little")
        if start + size > len(self.data):
            raise TornPickle
        argument = self.data[start : start + size] if size <= _LONGEST_TEXT else b""
        if name in _BETWEEN:
            self._remember(name)
        elif name in _TEXTS:
            self.below, self.text = self.text, argument.decode(errors="replace")
        elif name in _RECALLS:
            self.below, self.text = self.text, self.memo.get(int.from_bytes(argument, "little"))
        elif name == "STACK_GLOBAL":
            self._look_up(at)
        else:
            self._note(name, argument, start + size)
            self.below = self.text = None
        return start + size

    def _remember(self, name: str) -> None:
        if name == "MEMOIZE":
            if self.text is not None:
                self.memo[self.remembered] = self.text
            self.remembered += 1

    def _look_up(self, at: int) -> None:
        if not self.below or not self.text:
            self._stop(at, f"a name at byte {at:,} that is computed, not spelled out")
        else:
            self.program.names[f"{self.below}.{self.text}"] = None
        self.below = self.text = None

    def _note(self, name: str, argument: bytes, behind: int) -> None:
        if name == "PROTO":
            self.program.protocol = argument[0]
        elif name == "STOP":
            self.program.behind, self.has_ended = len(self.data) - behind, True
        elif name in _NUMBERS and self.text is not None:
            self.program.numbers.setdefault(self.text, struct.unpack(_NUMBERS[name], argument)[0])

    def _stop(self, at: int, strange: str) -> int:
        self.program.strange, self.has_ended = strange, True
        return at


def plain(value: Any) -> str:  # noqa: ANN401
    """Return the text of something that a file says, without what a terminal would obey."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape").decode()
