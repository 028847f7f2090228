"""Send files into an archive: read each and compare it with its digest before its first byte is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from jcache.findings import Damage, Finding
from jcache.formats.digest import Hasher, digest, digest_of_file
from jcache.shipping.archive import ArchiveWriter
from jcache.shipping.exporter.survey import SourceFile
from jcache.store.unmoved_reads import open_to_look
from jcache.verify.checks import check

BUFFER_BYTES: Final = 4 << 20
_PIECE_BYTES: Final = 1 << 20


def send_file(writer: ArchiveWriter, name: str, source: SourceFile, buffer: bytearray) -> bool:
    """Write a file as a member, if its bytes have the digest.

    A file that is larger than the buffer is read twice, once to compare it and once to write it, and is compared again
    while it is written.

    Args:
        writer: writer of the archive.
        name: name of the member.
        source: the file, its size and its digest.
        buffer: memory to use.

    Returns:
        Whether the archive has the bytes of the digest; otherwise the trailer must list the entry as omitted.
    """
    size = source.state.stamp.bytes
    with _opened(source) as descriptor:
        if descriptor is None:
            return False
        if size <= len(buffer):
            whole = memoryview(buffer)[:size]
            return (
                _fill(whole, descriptor)
                and digest(whole) == source.digest
                and writer.write_member(name, size, (whole,))
            )
        with FileIO(descriptor, closefd=False) as file:
            return _send_large(writer, name, size, source.digest, file)


@contextmanager
def _opened(source: SourceFile) -> Iterator[int | None]:
    """Open a file to look; yield None where it cannot be, or is no regular file of the surveyed size."""
    try:
        descriptor = open_to_look(source.path)
    except OSError:
        yield None
        return
    try:
        status = os.fstat(descriptor)
        yield descriptor if stat.S_ISREG(status.st_mode) and status.st_size == source.state.stamp.bytes else None
    finally:
        os.close(descriptor)


def _send_large(writer: ArchiveWriter, name: str, size: int, expected: str, file: FileIO) -> bool:
    if not _has_digest(file, expected):
        return False
    file.seek(0)
    hasher = Hasher()
    return writer.write_member(name, size, _read_pieces(file, hasher)) and hasher.digest() == expected


def find_damage(source: SourceFile) -> Finding | None:
    """Return the damage of a file that was not sent, if it is damaged and unchanged since it was surveyed."""
    if source.claim is None:
        return None
    checked = check(Path(source.path).parent, source.claim)
    if checked.finding is None or checked.finding.damage is Damage.UNREADABLE:
        return checked.finding
    return checked.finding if (checked.stamp, checked.taken_ns) == source.state else None


def _fill(memory: memoryview, descriptor: int) -> bool:
    """Fill the memory with a file's bytes; return whether it had so many."""
    try:
        while memory and (count := os.readv(descriptor, (memory,))):
            memory = memory[count:]
    except OSError:
        return False
    return not memory


def _has_digest(file: FileIO, expected: str) -> bool:
    with suppress(OSError):
        return digest_of_file(file) == expected
    return False


def _read_pieces(file: FileIO, hasher: Hasher) -> Iterator[bytes]:
    """Yield and hash the bytes of a file, as far as it can be read."""
    with suppress(OSError):
        while piece := file.read(_PIECE_BYTES):
            hasher.update(piece)
            yield piece


def read_whole(source: SourceFile) -> bytes | None:
    """Return a file's bytes; None unless they have the digest of its survey."""
    try:
        with _opened(source) as descriptor:
            if descriptor is None:
                return None
            with FileIO(descriptor, closefd=False) as file:
                data = file.readall()
    except OSError:
        return None
    return data if len(data) == source.state.stamp.bytes and digest(data) == source.digest else None
