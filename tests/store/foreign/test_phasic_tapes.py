"""Tapes of phasic: what their heads and operands must be."""

import struct

from jcache.findings import Damage
from jcache.store.foreign.phasic import ADAPTER
from jcache.store.foreign.phasic_content import fault_of
from tests.helpers.phasic_caches import (
    DATA,
    KINDS,
    OLD_TAPE,
    SCC,
    TAPE,
)


def data_of(key: str) -> bytes:
    name = ADAPTER.file_name(KINDS[key], key)
    assert name is not None
    return (DATA / name).read_bytes()


def fault(key: str, data: bytes) -> tuple[Damage, str] | None:
    return fault_of(key, data, quick=False)


def test_a_wrong_magic_is_found() -> None:
    """A tape begins with its format's name."""
    for key in (TAPE, SCC):
        found = fault(key, b"PTDPRMC4" + data_of(key)[8:])
        assert found is not None and found[0] is Damage.CODEC


def test_a_wrong_head_is_found() -> None:
    """Each count in a tape's head must add up, in the older format as well."""
    for key, data in ((TAPE, data_of(TAPE)), (TAPE, OLD_TAPE.read_bytes())):
        for at in range(24 if data[7:8] == b"1" else 8, 40, 8):
            changed = bytearray(data)
            changed[at] ^= 1
            assert fault(key, bytes(changed)) is not None, at


def test_an_operand_outside_of_the_tape_is_found() -> None:
    """An operand outside the tape is damage, since phasic would read or write beyond its mapped memory."""
    data = bytearray(data_of(TAPE))
    struct.pack_into("<QII", data, 40 + 80 + 32, 1 << 40, 0, 1)
    found = fault(TAPE, bytes(data))
    assert found is not None and found[0] is Damage.GRAMMAR and "Command 1" in found[1]


def test_a_tape_that_was_never_filled_is_found() -> None:
    """A tape of zeros, as a crash leaves it, is damage even without a record."""
    for key in (TAPE, SCC):
        data = data_of(key)
        for length in (24, len(data) // 2, len(data) - 40):
            assert fault(key, data[:-length] + bytes(length)) is not None, length
