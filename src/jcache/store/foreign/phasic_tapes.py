"""phasic's eliminations: tapes of commands over a memory of doubles, which phasic maps and runs.

Numbers are little-endian, sizes in bytes; there is no checksum::

    PTDPRMC3    magic[8] commands:u64 doubles:u64 inputs:u64 0:u64
                then 80 for each command, 8 for each double, 24 for each input
    command     type:u64 from:u64 to:u64 factor:f64 and three operands
    operand     offset:u64 input:u32 place:u32      place 1: the double at the offset; 2: the input of that number
    PTDPRMC1    magic[8] version:u32 revision:u32 graph:u64 commands:u64 doubles:u64 vertices:u64 0:u64
                then 128 for each command, 8 for each double, 8 for each vertex; of older releases, and what is pushed

The sizes held for every tape looked at: 25 of PTDPRMC3 (phasic 0.28.6 and 0.32.1), 7 of PTDPRMC1 (revisions 1 and 2).
"""

from __future__ import annotations

import struct
from typing import Final

from jcache.errors import DamagedEntry
from jcache.findings import Damage, Fault

_TAPE, _OLD_TAPE = b"PTDPRMC3", b"PTDPRMC1"
_COMMAND: Final = struct.Struct("<32x" + "QII" * 3)
_MEMORY, _INPUT = 1, 2


def fault_of(data: bytes, *, quick: bool) -> Fault | None:
    """Return the fault of a tape by itself; with ``quick`` check only its head."""
    magic = data[:8]
    if magic not in (_TAPE, _OLD_TAPE):
        if (_TAPE.startswith(data) or _OLD_TAPE.startswith(data)) and data:
            return Fault(Damage.TORN, f"It has {len(data)} bytes, not even its magic.")
        return Fault(Damage.CODEC, f"It begins with {magic.hex(' ')}, which is neither PTDPRMC3 nor PTDPRMC1.")
    sizes = _sizes(data)
    if sizes is None:
        return Fault(Damage.TORN, f"It has {len(data)} bytes, less than its head.")
    length = sizes["length"]
    if length != len(data):
        damage = Damage.TORN if length > len(data) else Damage.GRAMMAR
        return Fault(damage, f"It has {len(data):,} bytes, not the {length:,} that its head adds up to.")
    if sizes["zero"]:
        return Fault(Damage.GRAMMAR, f"Its head has {sizes['zero']:,} where 0 should be.")
    return None if quick or magic == _OLD_TAPE else _operand_fault(data, sizes)


def _sizes(data: bytes) -> dict[str, int] | None:
    """Return the fields in the head of a tape; None if it is not whole."""
    try:
        if data[:8] == _TAPE:
            commands, doubles, inputs, zero = struct.unpack_from("<4Q", data, 8)
            length = 40 + 80 * commands + 8 * doubles + 24 * inputs
            return {"commands": commands, "doubles": doubles, "inputs": inputs, "zero": zero, "length": length}
        version, revision, _, commands, doubles, vertices, zero = struct.unpack_from("<2I5Q", data, 8)
    except struct.error:
        return None
    found = {"version": version, "revision": revision, "commands": commands, "doubles": doubles, "vertices": vertices}
    return found | {"zero": zero, "length": 56 + 128 * commands + 8 * doubles + 8 * vertices}


def _operand_fault(data: bytes, sizes: dict[str, int]) -> Fault | None:
    """Return the first operand that lies outside of the tape's memory or inputs, where phasic would read or write.

    A command without operands, or a last input of zeros alone, is what a crash leaves where a file was never filled.
    """
    doubles, inputs = sizes["doubles"], sizes["inputs"]
    tape = memoryview(data)[40 : 40 + 80 * sizes["commands"]]
    for number, (a, i, x, b, j, y, c, k, z) in enumerate(_COMMAND.iter_unpack(tape)):
        if not (x or y or z):
            return Fault(Damage.GRAMMAR, f"Command {number:,} refers to nothing.")
        for offset, entry, place in ((a, i, x), (b, j, y), (c, k, z)):
            if (place == _MEMORY and offset >= doubles) or (place == _INPUT and entry >= inputs):
                return Fault(Damage.GRAMMAR, f"Command {number:,} refers to what lies outside of the tape.")
    if inputs and not any(data[-24:]):
        return Fault(Damage.GRAMMAR, "It ends in zeros.")
    return None


def facts_of(data: bytes) -> dict[str, object]:
    """Return the facts that a tape holds about itself.

    Raises:
        DamagedEntry: it has no whole head.
    """
    sizes = _sizes(data) if data[:8] in (_TAPE, _OLD_TAPE) else None
    if sizes is None:
        raise DamagedEntry(f"A tape that begins with {data[:8].hex(' ') or 'nothing'}, or is torn.")
    told = ("revision", "vertices", "commands", "doubles", "inputs")
    return {"format": data[:8].decode()} | {name: sizes[name] for name in told if name in sizes}
