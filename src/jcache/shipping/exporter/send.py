"""Files on their way into an archive: read, compared with what they were found to be, and written in pieces.

Into a pipe they are moved by reference, unread: what its reader takes are the bytes that the file has by then. So of
these files it is asked once more in the end, when nothing of them waits in the pipe, whether they are as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

from jcache.findings import Damage, Finding
from jcache.formats.digest import Hasher, digest, digest_of_file
from jcache.shipping.archive import Writer
from jcache.shipping.archive.extent import Extent, Movable
from jcache.shipping.exporter.scan import Mark, open_regular
from jcache.shipping.exporter.survey import Source
from jcache.verify.checks import check

AT_ONCE: Final = 4 << 20
_CHUNK: Final = 1 << 20


def send(writer: Writer, name: str, source: Source, buffer: bytearray, *, moving: bool = False) -> bool:
    """Writes a member; whether it is the file that was read first, from the first byte to the last.

    A file that was not read is looked at before any byte of it is out, as a whole in the buffer if it fits; not so one
    that is moved.

    Args:
        writer: of the archive.
        name: of the member.
        source: the file.
        buffer: memory to use.
        moving: whether the stream may move the file's bytes; see `is_as_sent`.
    """
    size = source.mark.stamp.bytes
    try:
        file = open_regular(source.path)
    except OSError:
        return False
    with file:
        if Mark.of(file) != source.mark:
            return False
        if moving and source.settled:
            movable = Movable(file.fileno())
            return writer.member(name, size, (Extent(movable, 0, size),)) and not movable.fell_short
        if source.unread is not None and size <= len(buffer):
            whole = memoryview(buffer)[:size]
            return _filled(whole, file) and digest(whole) == source.digest and writer.member(name, size, (whole,))
        if source.unread is not None:
            if digest_of_file(file) != source.digest:
                return False
            file.seek(0)
        hasher = None if source.settled else Hasher()
        is_whole = writer.member(name, size, _pieces(file, hasher))
        same = hasher is None or hasher.digest() == source.digest
        return is_whole and same and Mark.of(file) == source.mark


def is_as_sent(source: Source) -> bool:
    """Whether nobody has written to a file since it was sent; one that is gone, or replaced by another, is unharmed."""
    try:
        with open_regular(source.path) as file:
            now = Mark.of(file)
            other = now.stamp.inode != source.mark.stamp.inode
            return other or now == source.mark or digest_of_file(file) == source.digest
    except OSError:
        return True


def damage_of(source: Source) -> Finding | None:
    """What is wrong with a file that was not read before, and that nobody has changed since it was looked at."""
    if source.unread is None:
        return None
    checked = check(Path(source.path).parent, source.unread)
    if checked.finding is None or checked.finding.damage is Damage.UNREADABLE:
        return checked.finding
    return checked.finding if (checked.stamp, checked.taken_ns) == source.mark else None


def _filled(memory: memoryview, file: FileIO) -> bool:
    """Fills the memory with a file; whether there was so much."""
    with suppress(OSError):
        while memory and (count := file.readinto(memory)):
            memory = memory[count:]
    return not memory


def _pieces(file: FileIO, hasher: Hasher | None) -> Iterator[bytes]:
    """The bytes of a file as far as it can be read."""
    with suppress(OSError):
        while piece := file.read(_CHUNK):
            if hasher is not None:
                hasher.update(piece)
            yield piece
