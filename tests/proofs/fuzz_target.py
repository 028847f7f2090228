"""The functions that the fuzzers call, and a coverage-guided fuzzer for each of them.

    python -m tests.proofs.fuzz_target TARGET CORPUS [libFuzzer's options]

Any exception of a target is a crash, since documented ones are caught here. If a checksum or a compressor protects the
code behind it, a mutator opens the input, changes the content and closes it again.
"""

import hashlib
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress

import zstandard

MAGIC = b"\x89jcache\n\x00\x00\x00\x01"
RIEGELI_START = bytes.fromhex(  # the header of the first block, and the chunk of the signature
    "83af70d10d884a3f 0000000000000000 4000000000000000 91bac23c9287e1a9 0000000000000000 e19f13c0e9b1c372 73"
) + bytes(15)
CONTENT_LIMIT = 64 << 20  # of what is opened in order to be changed


def executable(data: bytes) -> None:
    """Anything as an entry: inspected and unpacked."""
    from jcache.errors import DamagedEntry
    from jcache.formats.executable import executable_seconds, may_be_executable, unpack_executable
    from jcache.formats.inspection import inspect

    seconds, may_be = executable_seconds(data), may_be_executable(data)
    with suppress(DamagedEntry):
        found = inspect(data)
        entry = unpack_executable(data)
        assert (found.stored_bytes, found.raw_bytes) == (len(data), len(entry.payload))
        assert entry.seconds == found.seconds
        assert seconds in (found.seconds, None)
        assert may_be or seconds is None or entry.payload[:1] != b"\x0a" or seconds >= 10_000_000


def inside(data: bytes) -> None:
    """Use any bytes as the content of an entry: it is inspected, and only its container may raise."""
    from jcache.formats.inspection import inspect

    assert inspect(zlib.compress(bytes(4) + data, 0)).raw_bytes == len(data)


def envelope(data: bytes) -> None:
    """Anything as a trace: unsealed, and its header read."""
    from jcache.errors import DamagedEntry
    from jcache.formats.envelope import read_header, unseal

    with suppress(DamagedEntry):
        header = read_header(data)
        opened = unseal(data)
        assert opened.header == header
        assert len(opened.payload) == header.payload_length


def tree(data: bytes) -> None:
    """Anything as the payload of a graph, and as a tree in one."""
    from jcache.errors import DamagedEntry, Unresolved
    from jcache.formats import pytrees
    from tests.helpers import graph_classes  # noqa: F401  (so that they are found)

    size = data.rfind(b"}") + 1 or len(data)
    for payload in (data, b"jctree1\n" + size.to_bytes(8, "big") + data):
        with suppress(DamagedEntry, Unresolved):
            pytrees.load(memoryview(payload))


def riegeli(data: bytes) -> None:
    """Read any bytes as a Riegeli file, as the part after its signature, and as a snappy stream."""
    from jcache.errors import DamagedEntry
    from jcache.formats import riegeli as module
    from jcache.formats.snappy import decompress_snappy

    for file in (memoryview(data), memoryview(RIEGELI_START + data)):
        with suppress(DamagedEntry):
            module.read_split_proto(file, limit=1 << 20)
        with suppress(DamagedEntry):
            module.check_hashes(file)
    with suppress(DamagedEntry):
        assert len(decompress_snappy(memoryview(data), limit=1 << 20)) <= 1 << 20


def texts(data: bytes) -> None:
    """Anything as the text of a size, age, filter, order, kind, key or file name."""
    from jcache import layout, units
    from jcache.admin import filters
    from jcache.errors import InvalidValue

    text = data.decode("utf-8", "surrogateescape")
    for parse in (units.parse_size, units.parse_age):
        with suppress(InvalidValue):
            assert parse(text) >= 0
    with suppress(InvalidValue):
        filters.parse_filter(text)
    with suppress(InvalidValue):
        filters.parse_filter("name~" + text)
    with suppress(InvalidValue):
        filters.parse_sort(text)
    with suppress(InvalidValue):
        assert layout.parse_kind(text) == text
    what, key = layout.member(text)
    assert (what in (layout.FileKind.ENTRY, layout.FileKind.SIDECAR, layout.FileKind.LEGACY)) == bool(key)
    assert not key or what is layout.FileKind.LEGACY or layout.is_key(key)
    with suppress(InvalidValue):
        assert layout.is_key(layout.check_key(text))


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (executable, inside, envelope, tree, riegeli, texts)
}


def compressed(content: bytes, form: int) -> bytes:
    """Content as an entry may hold it: zlib, a zstd frame with its size, and one without."""
    if form == 0:
        return zlib.compress(content, 1)
    if form == 1:
        return zstandard.ZstdCompressor(level=1).compress(content)
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    return stream.compress(content) + stream.flush()


def aligned(header: bytes) -> bytes:
    """A header with blanks and a line feed, so that the payload starts at a multiple of 64."""
    return header + b" " * (-(56 + len(header) + 1) % 64) + b"\n"


def sealed(header: bytes, payload: bytes) -> bytes:
    """An envelope with a correct seal around any header, whose lengths are true."""
    prefix = MAGIC + len(header).to_bytes(4, "big") + len(payload).to_bytes(8, "big")
    return prefix + hashlib.sha256(prefix + header).digest() + header + payload


Mutate = Callable[[bytes, int], bytes]


def mutate_executable(data: bytes, max_size: int, seed: int, mutate: Mutate) -> bytes:
    """Mutate the compressed bytes, or their content."""
    if seed % 4 == 0:
        return mutate(data, max_size)
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            content = reader.read(CONTENT_LIMIT)
    except zstandard.ZstdError:
        try:
            content = zlib.decompressobj().decompress(data, CONTENT_LIMIT)
        except zlib.error:
            content = data
    return compressed(mutate(content, max(max_size, len(content))), seed % 3)[:max_size]


def mutate_envelope(data: bytes, max_size: int, seed: int, mutate: Mutate) -> bytes:
    """Mutate any bytes, or the header or payload, and seal them again with the payload's new digest."""
    length = int.from_bytes(data[12:16], "big")
    header, payload = data[56 : 56 + length], data[56 + length :]
    if seed % 4 == 0 or not header:
        return mutate(data, max_size)
    if seed % 4 == 1:
        changed = mutate(header, max(max_size, len(header)))
        return sealed(aligned(changed.rstrip()) if seed % 8 == 1 else changed, payload)[:max_size]
    known = hashlib.sha256(payload).hexdigest().encode()
    payload = mutate(payload, max(max_size, len(payload)))
    return sealed(header.replace(known, hashlib.sha256(payload).hexdigest().encode()), payload)[:max_size]


def main() -> None:
    """Fuzz one target until libFuzzer's own options end it."""
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    target = TARGETS[sys.argv.pop(1)]
    with atheris.instrument_imports(include=["jcache"]):
        import jcache.admin.filters
        import jcache.formats.inspection
        import jcache.formats.pytrees.decoding  # as `pytrees` does when it is first asked
        import jcache.formats.riegeli  # noqa: F401
    mutator = {"executable": mutate_executable, "envelope": mutate_envelope}.get(target.__name__)
    options = {}
    if mutator is not None:
        options["custom_mutator"] = lambda data, max_size, seed: mutator(data, max_size, seed, atheris.Mutate)
    atheris.Setup(sys.argv, target, **options)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
