"""Files on their way into an archive: read, compared with what they were found to be, and written in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

from jcache.archive import Writer
from jcache.checks import check
from jcache.digests import Hasher, digest, digest_of_file
from jcache.findings import Damage, Finding
from jcache.shipping.reading import Mark, open_regular, read_marked
from jcache.shipping.surveying import Source

AT_ONCE: Final = 4 << 20
_CHUNK: Final = 1 << 20


def send(writer: Writer, name: str, source: Source, buffer: bytearray) -> bool:
    """Writes a member; whether it is the file that was read first, from the first byte to the last.

    A file that was not read is looked at before any byte of it is out: as a whole in the buffer, if it fits.
    """
    size = source.mark.stamp.bytes
    if source.unread is not None and size <= len(buffer):
        whole = memoryview(buffer)[:size]
        return _filled(whole, source) and writer.member(name, size, (whole,))
    try:
        file = open_regular(source.path)
    except OSError:
        return False
    with file:
        if Mark.of(file) != source.mark:
            return False
        if source.unread is not None:
            if digest_of_file(file) != source.digest:
                return False
            file.seek(0)
        hasher = None if source.settled else Hasher()
        is_whole = writer.member(name, size, _pieces(file, hasher))
        same = hasher is None or hasher.digest() == source.digest
        return is_whole and same and Mark.of(file) == source.mark


def damage_of(source: Source) -> Finding | None:
    """What is wrong with a file that was not read before, and that nobody has changed since it was looked at."""
    if source.unread is None:
        return None
    checked = check(Path(source.path).parent, source.unread)
    if checked.finding is None or checked.finding.damage is Damage.UNREADABLE:
        return checked.finding
    return checked.finding if (checked.stamp, checked.taken_ns) == source.mark else None


def _filled(memory: memoryview, source: Source) -> bool:
    """Fills the memory with a file; whether it is the one on record."""
    with suppress(OSError):
        return read_marked(source.path, source.mark, memory) and digest(memory) == source.digest
    return False


def _pieces(file: FileIO, hasher: Hasher | None) -> Iterator[bytes]:
    """The bytes of a file as far as it can be read."""
    with suppress(OSError):
        while piece := file.read(_CHUNK):
            if hasher is not None:
                hasher.update(piece)
            yield piece
