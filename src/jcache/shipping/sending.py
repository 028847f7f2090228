"""Files on their way into an archive: read, compared with what they were found to be, and written in pieces."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final, Self

from jcache.archive import Writer
from jcache.checks import check
from jcache.findings import Damage, Finding
from jcache.parallel import cores
from jcache.shipping.reading import Mark, hash_file, open_regular, read_marked
from jcache.shipping.surveying import Source

AT_ONCE: Final = 4 << 20
_CHUNK: Final = 1 << 20
_WORTH_IT: Final = 64 << 10  # hashing so much, other threads run


class Ahead:
    """Compares files that were not read with their digests, as long as the other end is busy with the manifest.

    It begins with the last one: what comes first in the archive is wanted at once, and compared then.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._compared: set[str] = set()
        self._is_over = cores() < 2  # there is no other end that would leave us one
        self._thread = threading.Thread(target=self._compare, args=(sources,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        """Compares no more."""
        self._is_over = True

    def __contains__(self, source: object) -> bool:
        """Whether a file was found to be as on record, and a later change of it would show in its times."""
        return isinstance(source, Source) and source.path in self._compared

    def _compare(self, sources: Sequence[Source]) -> None:
        for source in reversed(sources):
            if self._is_over:
                return
            if source.unread is not None and source.settled and source.mark.stamp.bytes >= _WORTH_IT:
                with suppress(OSError):
                    if hash_file(source.path) == (source.mark, source.digest):
                        self._compared.add(source.path)


def send(writer: Writer, name: str, source: Source, buffer: bytearray, ahead: Container[Source] = ()) -> bool:
    """Writes a member; whether it is the file that was read first, from the first byte to the last.

    A file that was neither read nor compared ahead is looked at before any byte of it is out: as a whole in the buffer,
    if it fits.
    """
    size = source.mark.stamp.bytes
    if source.unread is not None and size <= len(buffer):
        whole = memoryview(buffer)[:size]
        return _filled(whole, source, is_compared=source in ahead) and writer.member(name, size, (whole,))
    try:
        file = open_regular(source.path)
    except OSError:
        return False
    with file:
        if Mark.of(file) != source.mark:
            return False
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
    checked = check(Path(source.path).parent, source.unread)
    if checked.finding is None or checked.finding.damage is Damage.UNREADABLE:
        return checked.finding
    return checked.finding if (checked.stamp, checked.taken_ns) == source.mark else None


def _filled(memory: memoryview, source: Source, *, is_compared: bool) -> bool:
    """Fills the memory with a file; whether it is the one on record."""
    with suppress(OSError):
        is_same = read_marked(source.path, source.mark, memory)
        return is_same and (is_compared or hashlib.sha256(memory).hexdigest() == source.digest)
    return False


def _pieces(file: FileIO, hasher: hashlib._Hash | None) -> Iterator[bytes]:
    """The bytes of a file as far as it can be read."""
    with suppress(OSError):
        while piece := file.read(_CHUNK):
            if hasher is not None:
                hasher.update(piece)
            yield piece
