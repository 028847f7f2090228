"""Writer of an archive, in one pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, Final

from jcache.formats.digest import digest
from jcache.layout import DIRECTORY_NAMES, Kind
from jcache.shipping.archive.compress import (
    CompressingFrameWriter,
    FrameWriter,
    StoringFrameWriter,
    level_compressor,
    solid_compressor,
)
from jcache.shipping.archive.manifest_schema import dumps
from jcache.shipping.archive.members import (
    DIGEST_NAME,
    MANIFEST_NAME,
    PIECE_BYTES,
    SIGNATURE_NAME,
    TRAILER_END,
    TRAILER_NAME,
    TRAILER_START,
)
from jcache.shipping.archive.recompression import MAX_CONTENT_BYTES, decompress_entry
from jcache.shipping.archive.tar_headers import BLOCK, END, encode_header

SMALL_MEMBER_BYTES: Final = 64 << 10  # a member up to this size is written together with its header
_EXECUTABLES: Final = DIRECTORY_NAMES[Kind.EXECUTABLES] + "/"


class ArchiveWriter:
    """Writes an archive to a stream. Call `write_manifest`, then `write_member` for each member, then `close`."""

    def __init__(self, stream: BinaryIO, *, level: int | None = None, solid: bool = False) -> None:
        """Write to a stream.

        Args:
            stream: the archive goes there.
            level: zstd's level; None stores compressed entries as they are, and compresses a solid archive thoroughly.
            solid: whether to recompress across entries.
        """
        self._stream = stream
        self._solid = solid
        self._level = level
        self._packer: FrameWriter | None = None

    @property
    def written(self) -> int:
        """Bytes given to the stream so far."""
        return self._packer.written if self._packer else 0

    def write_manifest(self, data: bytes, signature: bytes | None = None) -> None:
        """Write the manifest, as `manifest_codec.encode` returns it, and its signature or else its digest."""
        self._packer = self._made_packer()
        self._write, self._write_large = self._packer.write, self._packer.write_large
        self._file(MANIFEST_NAME, data)
        if signature is not None:
            self._file(SIGNATURE_NAME, signature)
        else:
            self._file(DIGEST_NAME, digest(data).encode())

    def _made_packer(self) -> FrameWriter:
        if self._solid:
            return CompressingFrameWriter(self._stream, solid_compressor(self._level))
        return (
            StoringFrameWriter(self._stream)
            if self._level is None
            else CompressingFrameWriter(self._stream, level_compressor(self._level))
        )

    def write_member(self, name: str, size: int, chunks: Iterable[bytes | memoryview]) -> bool:
        """Write a member.

        Args:
            name: name of the member (`item_name`, `neighbour_name`).
            size: size of the member, as in the manifest.
            chunks: bytes of the member.

        Returns:
            Whether the chunks had exactly this size. If not, they were cut or filled with zeros, and the trailer must
            list the entry as omitted.
        """
        if size <= SMALL_MEMBER_BYTES and not self._solid:
            data = _join_chunks(chunks, size)
            self._file(name, data if len(data) == size else data[:size].ljust(size, b"\0"))
            return len(data) == size
        if self._solid and size <= MAX_CONTENT_BYTES and name.startswith(_EXECUTABLES):
            stored = _join_chunks(chunks, size)
            suffix, content = decompress_entry(stored) if len(stored) == size else ("", None)
            if content is not None:
                self._file(name + suffix, content)
                return True
            chunks = (stored,)
        return self._streamed(name, size, chunks)

    def close(self, omitted: Iterable[tuple[str, str]] = ()) -> None:
        """Write the trailer and the end; flush the stream and leave it open.

        Args:
            omitted: kind (``"xla"`` for a neighbour) and key (its path) of the entries that the archive lacks, or holds
                with other bytes than the manifest lists.
        """
        pairs = sorted({(str(kind), key) for kind, key in omitted})
        self._file(TRAILER_NAME, TRAILER_START + ",".join(map(dumps, pairs)).encode() + TRAILER_END)
        self._write(END)
        if self._packer:
            self._packer.close()

    def _file(self, name: str, data: bytes) -> None:
        self._write(b"".join((encode_header(name, len(data)), data, bytes(-len(data) % BLOCK))))

    def _streamed(self, name: str, size: int, chunks: Iterable[bytes | memoryview]) -> bool:
        self._write(encode_header(name, size))
        left = size
        is_whole = True
        is_compressed = name.startswith(_EXECUTABLES)
        for chunk in chunks:
            is_whole = is_whole and len(chunk) <= left
            self._write_large(memoryview(chunk)[:left], is_compressed=is_compressed)
            left -= min(len(chunk), left)
        is_whole = is_whole and not left
        while left:
            zeros = bytes(min(left, PIECE_BYTES))
            self._write(zeros)
            left -= len(zeros)
        self._write(bytes(-size % BLOCK))
        return is_whole


def _join_chunks(chunks: Iterable[bytes | memoryview], size: int) -> bytes:
    """Return the chunks in one; stop after the first that exceeds the size."""
    pieces, length = [], 0
    for chunk in chunks:
        pieces.append(chunk)
        length += len(chunk)
        if length > size:
            break
    return b"".join(pieces)
