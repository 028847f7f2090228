"""Bytes that were made to fill a memory, and a process that reads one of them under a limit.

    python -m tests.proofs.bombs READER FILE LIMIT

The process may take LIMIT MiB more than it has, of memory and of address space. It prints what reading ended in.
"""

import hashlib
import json
import resource
import sys
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import zstandard

from tests.helpers.jax_entries import number, text, varint
from tests.proofs.fuzz_target import RIEGELI_START, aligned, sealed

MANY = 999_000  # fields: a message may have a million


@cache
def zstd(content: bytes, times: int = 1, *, declared: bool = True) -> bytes:
    """Return one zstd frame that repeats a content, without holding it."""
    stream = zstandard.ZstdCompressor().compressobj(size=len(content) * times if declared else -1)
    return b"".join([*(stream.compress(content) for _ in range(times)), stream.flush()])


def zlib_zeros(megabytes: int) -> bytes:
    """Return a zlib stream of so many MiB of zeros."""
    stream = zlib.compressobj(9)
    begin = stream.compress(b"") + stream.flush(zlib.Z_FULL_FLUSH)
    each = stream.compress(ZEROS) + stream.flush(zlib.Z_FULL_FLUSH)  # which says nothing of what is before it
    checksum = (megabytes << 20) % 65521 << 16 | 1
    return begin + each * megabytes + b"\x03\x00" + checksum.to_bytes(4, "big")


def entry(content: bytes) -> bytes:
    return zstd(bytes(4) + content)


def module(*fields: bytes) -> bytes:
    """An entry of the CPU with these fields in its HLO module."""
    name = text(1, b"jit_f")
    return entry(text(1, text(1, text(1, name + b"".join(fields))) + number(5, 2)) + text(2, b""))


def outputs(count: int) -> bytes:
    """Return an entry whose metadata announce so many outputs of a million dimensions, all different."""
    dimensions = [varint(index) + b"\x01" * (MANY - 1000) for index in range(count)]
    specs = (text(5, text(6, text(1, packed)) + text(2, number(1, 11))) for packed in dimensions)
    metadata = text(2, b"pjrt_ifrt") + b"".join(specs)
    return entry(varint(len(metadata)) + metadata + text(1, b"") + text(2, b""))


def nested(depth: int) -> bytes:
    """A message in a message, and so on, each with as many fields as allowed beside it."""
    inner = b""
    for field in (17, 1, 1, 1)[:depth]:
        inner = text(field, inner) + text(4, b"") * MANY
    return entry(inner + text(2, b""))


def chunk(codec: int, sizes: bytes, values: bytes, count: int, decoded: int) -> bytes:
    """A chunk of records of a Riegeli file, with whatever it declares."""
    data = bytes([codec]) + varint(len(sizes)) + sizes + values
    header = bytes(8) + len(data).to_bytes(8, "little") + bytes(8) + b"r" + count.to_bytes(7, "little")
    return header + decoded.to_bytes(8, "little") + data


def riegeli(*chunks: bytes) -> bytes:
    """An entry whose body is a Riegeli file of these chunks, with block headers where they belong."""
    data = RIEGELI_START[24:] + b"".join(chunks)
    return entry(b"".join(RIEGELI_START[:24] + data[i : i + 65512] for i in range(0, len(data), 65512)))


def envelope(length: int, payload: bytes, **changes: object) -> bytes:
    """An envelope whose seal is right and whose header declares a length of the payload."""
    record = {
        "kind": "traces", "name": "n", "key": "k", "key_parts": {}, "producers": {}, "build_seconds": 1.0,
        "created_ns": 1, "parents": [], "payload_codec": "zstd", "payload_length": length,
        "payload_sha256": hashlib.sha256(payload).hexdigest(),
    }  # fmt: skip
    header = json.dumps(record | changes, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sealed(aligned(header.encode()), payload)


def lie(size: int) -> bytes:
    """A zstd frame of twelve bytes that declares a size."""
    return b"\x28\xb5\x2f\xfd\xe0" + size.to_bytes(8, "little") + b"\x01\x00\x00"


def window() -> bytes:
    """A frame that declares no size and asks for a window of 128 MiB."""
    return b"\x28\xb5\x2f\xfd\x00\x88" + (b"\x02\x00\x10" + b"\x00") * 100_000


MIB, ZEROS = 1 << 20, bytes(1 << 20)
SMALL = 64  # MiB, for what is refused by its container
KEPT = 256 + 64  # for what may be kept, and then turns out to be no executable
FIELDS = 192  # for a million fields
HEADER = 160  # for a header of 4 MiB

# How it is made, what reads it, how many MiB that may take, and what it must end in
Bomb = tuple[Callable[[], bytes], str, int, str]
BOMBS: dict[str, Bomb] = {
    "zstd-lie": (lambda: lie(7 << 30), "inspect", SMALL, "claim to hold more"),
    "zstd-declared": (lambda: zstd(ZEROS, 2000), "inspect", SMALL, "claim to hold more"),
    "zstd-undeclared": (lambda: zstd(ZEROS, 2000, declared=False), "inspect", SMALL, "claim to hold more"),
    "zstd-window": (window, "inspect", 256, "cannot be read|claim to hold more"),
    "zstd-frames": (lambda: zstd(ZEROS[:9999]) * 50_000, "inspect", SMALL, "unused data"),
    "zstd-undeclared-frames": (lambda: zstd(ZEROS, declared=False) * 2000, "inspect", SMALL, "claim to hold more"),
    "zstd-kept": (lambda: zstd(ZEROS, 255), "inspect", KEPT, "body: field number 0"),
    "zstd-undeclared-kept": (lambda: zstd(ZEROS, 255, declared=False), "inspect", KEPT, "body: field number 0"),
    "zlib": (lambda: zlib_zeros(2000), "inspect", 128, "claim to hold more"),
    "zlib-kept": (lambda: zlib_zeros(255), "inspect", KEPT, "body: field number 0"),
    "seconds": (lambda: zstd(ZEROS, 2000, declared=False), "executable_seconds", SMALL, "^0$"),
    "fields": (lambda: entry(number(1, 1) * (8 * MIB)), "inspect", FIELDS, "more fields than"),
    "fields-of-all-numbers": (
        lambda: entry(b"".join(number(n, 0) for n in range(1, MANY))), "inspect", FIELDS, "no Executable",
    ),
    "fields-nested": (lambda: nested(4), "inspect", FIELDS, "more fields than"),
    "frames": (lambda: module(text(17, text(4, b"") * MANY)), "inspect", FIELDS, r"^\(\)$"),
    "dimensions": (lambda: module(text(4, text(2, number(2, 11) + text(3, b"\x01" * (64 * MIB))))), "inspect", KEPT,
                   "more than"),
    "shapes": (
        lambda: module(text(4, text(2, number(2, 13) + text(4, number(3, 1) * MANY) * 20))), "inspect", KEPT,
        "more fields than",
    ),
    "outputs": (lambda: outputs(60), "inspect", KEPT, "metadata: more than"),
    "snappy": (
        lambda: riegeli(chunk(0x73, varint(1) + b"\x01\x00\x01", varint(31 * MIB) * 2 + b"\x00a", 1, 31 * MIB)),
        "inspect", SMALL, "snappy stream",
    ),
    "snappy-beyond-the-limit": (
        lambda: riegeli(chunk(0x73, b"\x01\x01\x00\x01", varint(1 << 40) * 2 + b"\x00a", 1, 1 << 40)),
        "inspect", SMALL, r"^\(\)$",
    ),
    "riegeli-sizes": (
        lambda: riegeli(chunk(0x7A, varint(2000 * MIB) + zstd(ZEROS, 2000), b"\x00", 1 << 40, 0)),
        "inspect", SMALL, "records|declare",
    ),
    "riegeli-records": (
        lambda: riegeli(*[chunk(0, bytes(MANY), b"", MANY, 0) for _ in range(8)]),
        "inspect", KEPT, "records",
    ),
    "riegeli-plain-sizes": (
        lambda: riegeli(chunk(0, bytes(60 * MIB), b"", 60 * MIB, 0)), "inspect", KEPT, "more than|records",
    ),
    "envelope-length": (lambda: envelope(1 << 40, zstd(b"a")), "unseal", SMALL, "claim to hold more"),
    "envelope-length-within": (lambda: envelope(7 << 30, zstd(b"a")), "unseal", SMALL, "payload of 1 bytes"),
    "envelope-yields": (lambda: envelope(9, zstd(ZEROS, 2000)), "unseal", SMALL, "claim to hold more"),
    "envelope-yields-undeclared": (
        lambda: envelope(9, zstd(ZEROS, 2000, declared=False)), "unseal", SMALL, "claim to hold more",
    ),
    "header-deep": (lambda: sealed(b"[" * MIB + b"]" * MIB, b""), "unseal", HEADER, "recursion"),
    "header-wide": (
        lambda: sealed(b"[" + b"[]," * 1_390_000 + b"[]]", b""), "unseal", HEADER, "not have exactly the field",
    ),
    "header-objects": (
        lambda: sealed(b"[" + b'{"":0},' * 590_000 + b"[]]", b""), "unseal", HEADER, "not have exactly the fields",
    ),
    "header-texts": (
        lambda: envelope(0, b"", parents=["ab"] * 800_000, payload_codec="none"), "unseal", HEADER, "^Envelope",
    ),
    "header-too-long": (lambda: sealed(b"[" * (17 * MIB), b""), "unseal", SMALL, "announces a header"),
}  # fmt: skip


def peak() -> int:
    """The most memory that this process ever had, in bytes; on Linux `getrusage` would count its parent's as well."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) << 10 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Read the bytes, and print the outcome and the memory used."""
    from jcache.errors import DamagedEntry
    from jcache.formats.envelope import unseal
    from jcache.formats.executable import executable_seconds
    from jcache.formats.inspection import inspect

    reader, file, limit = sys.argv[1:]
    readers: dict[str, Callable[[bytes], object]] = {
        "inspect": lambda data: inspect(data).problems,
        "unseal": unseal,
        "executable_seconds": executable_seconds,
    }
    data = Path(file).read_bytes()
    statm = Path("/proc/self/statm")
    if statm.exists():
        address_space = int(statm.read_text().split()[0]) * resource.getpagesize() + (int(limit) << 20)
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    before = peak()
    try:
        end = str(readers[reader](data))
    except DamagedEntry as error:
        end = str(error)
    print(json.dumps({"end": end[:2000], "peak": peak() - before}))


if __name__ == "__main__":
    main()
