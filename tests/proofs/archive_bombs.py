"""Archives that were made to fill a memory or to take for ever; each function returns the stream of one."""

import io
import tarfile
from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from jcache.layout import Kind
from jcache.shipping.archive.manifest_codec import encode
from jcache.shipping.archive.tar_headers import END, encode_header, pad_to_block
from tests.helpers.archives import TRAILER, Sample, compressed, item
from tests.helpers.entries import key

GIBIBYTE = 1 << 30
EMPTY_GZIP = bytes.fromhex("1f8b08000000000000ff0300000000000000 0000".replace(" ", ""))


class Endless(io.RawIOBase):
    """A stream of pieces that are made on request."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    def readable(self) -> bool:
        return True

    def readinto(self, memory: memoryview) -> int:  # type: ignore[override]
        self._held = self._held or next(self._pieces, b"")
        data, self._held = self._held[: len(memory)], self._held[len(memory) :]
        memory[: len(data)] = data
        return len(data)


def squeezed(pieces: Iterator[bytes]) -> BinaryIO:
    """The pieces, compressed on the way."""

    def compressed_pieces() -> Iterator[bytes]:
        stream = zstandard.ZstdCompressor(level=1).compressobj()
        for piece in pieces:
            yield stream.compress(piece)
        yield stream.flush()

    return Endless(piece for piece in compressed_pieces() if piece)  # type: ignore[return-value]


def stream(*pieces: bytes) -> BinaryIO:
    return io.BytesIO(b"".join(pieces))


def repeated(start: bytes, piece: bytes, times: int = 1 << 40) -> Iterator[bytes]:
    yield start
    for _ in range(times):
        yield piece


def member(name: str, data: bytes) -> bytes:
    return encode_header(name, len(data)) + pad_to_block(data)


def head(size: int = 1 << 33, kind: Kind = Kind.EXECUTABLES, *, solid: bool = False) -> tuple[bytes, str]:
    """A manifest of one entry of this size, and the entry's name."""
    made = Sample([(item(1, b"x", kind)._replace(bytes=size), b"x")], solid=solid)
    return member("manifest.json", encode(made.manifest)), next(iter(made.contents))


def zeros_in_an_entry() -> BinaryIO:
    start, name = head()
    return squeezed(repeated(start + encode_header(name, 1 << 33), bytes(1 << 20), 1 << 13))


def zeros_in_a_manifest() -> BinaryIO:
    return squeezed(repeated(encode_header("manifest.json", 500 << 20), bytes(1 << 20), 500))


def manifest_that_announces_terabytes() -> BinaryIO:
    return squeezed(repeated(encode_header("manifest.json", 1 << 42), b" " * (1 << 20)))


def window_of_a_gibibyte() -> BinaryIO:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=30)
    maker = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream(maker.compress(head()[0]), maker.flush())


def empty_frames_without_end() -> BinaryIO:
    return Endless(repeated(compressed(head()[0]), zstandard.compress(b"") * 1000))  # type: ignore[return-value]


def empty_blocks_without_end() -> BinaryIO:
    frame = b"\x28\xb5\x2f\xfd\x00\x58"  # a window of 2 MiB, no size; then raw blocks of 0 bytes, none of them the last
    return Endless(repeated(frame, b"\0\0\0" * 10_000))  # type: ignore[return-value]


def skippable_frames_without_end() -> BinaryIO:
    skippable = b"\x50\x2a\x4d\x18" + (1000).to_bytes(4, "little") + bytes(1000)
    return Endless(repeated(skippable, skippable))  # type: ignore[return-value]


def a_skippable_frame_of_four_gibibytes() -> BinaryIO:
    return Endless(repeated(b"\x50\x2a\x4d\x18\xff\xff\xff\xff", bytes(1 << 20)))  # type: ignore[return-value]


def ten_million_members() -> BinaryIO:
    start, _ = head()
    return squeezed(repeated(start, member(f"executables/{key(5)}-cache", b"x") * 100, 100_000))


def extension(kind: bytes, size: int) -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def pax_header_of_gigabytes() -> BinaryIO:
    return squeezed(repeated(head()[0] + extension(b"x", GIBIBYTE), b"9999999 path=" + b"x" * (1 << 20), 1024))


def long_name_of_gigabytes() -> BinaryIO:
    return squeezed(repeated(head()[0] + extension(b"L", GIBIBYTE), b"x" * (1 << 20), 1024))


def headers_without_a_member() -> BinaryIO:
    return squeezed(repeated(head()[0], extension(b"K", 4) + b"link".ljust(512, b"\0")))


def deep_manifest() -> BinaryIO:
    data = b'{"directory":"","host":{},"items":[\n{"bytes":' + b"[" * (1 << 20)
    return squeezed(iter((member("manifest.json", data), END)))


def manifest_of_lines() -> BinaryIO:
    """Return a manifest of one-byte lines, each of which would be kept as an object."""
    return squeezed(repeated(encode_header("manifest.json", 500 << 20), b"x\n" * (1 << 19), 500))


def padding_without_end() -> BinaryIO:
    made = Sample([])
    start = member("manifest.json", encode(made.manifest)) + member("trailer.json", TRAILER)
    return squeezed(repeated(start, bytes(1 << 20)))


def gzip_of_zeros() -> BinaryIO:
    import zlib

    def pieces() -> Iterator[bytes]:
        start, name = head()
        maker = zlib.compressobj(9, wbits=31)
        for piece in repeated(start + encode_header(name, 1 << 33), bytes(1 << 20), 1 << 13):
            yield maker.compress(piece)
        yield maker.flush()

    return Endless(piece for piece in pieces() if piece)  # type: ignore[return-value]


def empty_gzip_members_without_end() -> BinaryIO:
    return Endless(repeated(EMPTY_GZIP, EMPTY_GZIP * 1000))  # type: ignore[return-value]


def trailer_of_empty_lists() -> BinaryIO:
    made = Sample([])
    start = member("manifest.json", encode(made.manifest)) + encode_header("trailer.json", GIBIBYTE)
    return squeezed(repeated(start + b'{"omitted":[', b"[]," * (1 << 18)))


def content_for_a_small_entry() -> BinaryIO:
    """Return an entry of a thousand bytes for which a solid archive claims a hundred million."""
    start, name = head(1000, solid=True)
    return squeezed(repeated(start + encode_header(name + ".zlib-content", 100_000_000), bytes(100_000), 1000))
