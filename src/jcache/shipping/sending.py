"""Files on their way into an archive: read, compared with what they were found to be, and written in pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from typing import Final

from jcache.archive import Writer
from jcache.checks import check
from jcache.findings import Damage, Finding
from jcache.shipping.reading import Mark, open_regular
from jcache.shipping.surveying import Source

AT_ONCE: Final = 4 << 20
_CHUNK: Final = 1 << 20


def send(writer: Writer, name: str, source: Source, buffer: bytearray) -> bool:
    """Writes a member; whether it is the file that was read first, from the first byte to the last.

    A file that was not read is looked at before any byte of it is out: as a whole in the buffer, if it fits.
    """
    try:
        file = open_regular(source.path)
    except OSError:
        return False
    size = source.mark.stamp.bytes
    with file:
        if Mark.of(file) != source.mark:
            return False
        if source.unread is not None and size <= len(buffer):
            whole = _whole(file, memoryview(buffer)[:size])
            return hashlib.sha256(whole).hexdigest() == source.digest and writer.member(name, size, (whole,))
        if source.unread is not None:
            if hashlib.file_digest(file, "sha256").hexdigest() != source.digest:
                return False
            file.seek(0)
        hasher = None if source.settled else hashlib.sha256()
        is_whole = writer.member(name, size, _pieces(file, hasher))
        same = hasher is None or hasher.hexdigest() == source.digest
        return is_whole and same and Mark.of(file) == source.mark


def damage_of(source: Source) -> Finding | None:
    """What is wrong with a file that was not read before, and that nobody has changed since it was looked at."""
    if source.unread is None:
        return None
    checked = check(source.path.parent, source.unread)
    if checked.finding is None or checked.finding.damage is Damage.UNREADABLE:
        return checked.finding
    return checked.finding if (checked.stamp, checked.taken_ns) == source.mark else None


def _whole(file: FileIO, view: memoryview) -> memoryview:
    """The bytes of a file as far as it can be read, in place."""
    filled = 0
    with suppress(OSError):
        while filled < len(view) and (count := file.readinto(view[filled:])):
            filled += count
    return view[:filled]


def _pieces(file: FileIO, hasher: hashlib._Hash | None) -> Iterator[bytes]:
    """The bytes of a file as far as it can be read."""
    with suppress(OSError):
        while piece := file.read(_CHUNK):
            if hasher is not None:
                hasher.update(piece)
            yield piece
