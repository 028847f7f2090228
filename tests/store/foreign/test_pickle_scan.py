"""Pickles by their opcodes: the scan finds at least everything that an unpickler would look up."""

import io
import pickle
import pickletools
import random
from contextlib import suppress

from jcache.store.foreign import pickle_scan
from jcache.store.foreign.phasic import ADAPTER
from tests.helpers.phasic_caches import (
    DATA,
    KINDS,
    TRACE,
)

PIECES = [
    *(b"\x8c" + bytes([len(name)]) + name for name in (b"os", b"system", b"numpy", b"dtype")),
    *(b"\x94", b"\x94", b"h\x00", b"h\x01", b"h\x02", b"j\x00\x00\x00\x00", b"X\x02\x00\x00\x00os"),
    *(
        b"\x93",
        b"\x93",
        b"N",
        b"(",
        b"t",
        b"\x85",
        b"\x86",
        b"\x87",
        b")",
        b"]",
        b"a",
        b"e",
        b"}",
        b"s",
        b"u",
        b"K\x01",
    ),
    *(b"R", b"b", b"\x81", b"\x8f", b"\x90", b"\x91", b"C\x02os", b"\x95\x04\x00\x00\x00\x00\x00\x00\x00"),
]
STRANGE = [
    *(b"0", b"1", b"2", b"q\x00", b"r\x01\x00\x00\x00", b"p0\n", b"g0\n", b"S'os'\n", b"Vos\n", b"U\x02os", b"l", b"d"),
    *(b"\x92", b"cos\nsystem\n", b"ios\nsystem\n", b"o", b"\x82\x01", b"Pid\n", b"Q", b"\x97", b"\x98", b"\x80\x02"),
    b"\x8d\x02\x00\x00\x00\x00\x00\x00\x00os",
]


class Inert:
    """A stand-in for whatever is looked up."""

    def __init__(self, *arguments: object) -> None:
        del arguments

    def __setstate__(self, state: object) -> None:
        del state


class Unpickler(pickle._Unpickler):
    """Python's own unpickler, in Python, which looks nothing up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.names: set[str] = set()

    def find_class(self, module: str, name: str) -> type:
        self.names.add(f"{module}.{name}")
        return Inert

    def get_extension(self, code: int) -> None:
        self.names.add(f"extension {code}")
        raise pickle.UnpicklingError

    def persistent_load(self, identity: object) -> object:
        self.names.add(f"persistent {identity}")
        return identity


def test_no_name_escapes(chance: random.Random, full: bool) -> None:
    """Every name that a pickle of random opcodes looks up is reported, unless the pickle is reported as strange."""
    plain = looked_up = 0
    for number in range(400_000 if full else 20_000):
        pieces = PIECES if number % 3 else PIECES + STRANGE
        data = b"\x80\x05" + b"".join(chance.choice(pieces) for _ in range(chance.randrange(2, 14))) + b"."
        unpickler = Unpickler(data)
        with suppress(Exception):  # most of them are no pickles
            unpickler.load()
        try:
            program = pickle_scan.read(data)
        except pickle_scan.TornPickle:
            continue
        if program.strange is None:
            assert unpickler.names <= set(program.names), data
            plain, looked_up = plain + 1, looked_up + bool(unpickler.names)
    print(f"{plain} of them plain, {looked_up} looked something up")
    assert plain and looked_up


def data_of(key: str) -> bytes:
    name = ADAPTER.file_name(KINDS[key], key)
    assert name is not None
    return (DATA / name).read_bytes()


def test_opcodes_are_read_as_pickletools_reads_them() -> None:
    """The same number of opcodes, the same names, and nothing of a real trace is strange."""
    data = data_of(TRACE)
    program = pickle_scan.read(data)
    assert program.opcodes == sum(1 for _ in pickletools.genops(data)) and program.strange is None
    assert program.protocol == 5 and len(program.names) == 6
