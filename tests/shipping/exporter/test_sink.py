"""Where an archive goes gets all bytes in their order, whether they are copied there or moved."""

import errno
import os
import random
import socket
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from jcache.errors import JcacheError
from jcache.shipping.archive.extent import Extent, Movable
from jcache.shipping.exporter.sink import FileSink, OpenSink, Piece
from jcache.store.files import Unpublished

CONTENT = random.Random(5).randbytes(3_000_000)  # more than a pipe holds


class Reader:
    """The other end of a pipe, which takes its time."""

    def __init__(self, read: int) -> None:
        self.content = bytearray()
        self._read = read
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        while data := os.read(self._read, 99_999):
            self.content += data
        os.close(self._read)

    def all(self) -> bytes:
        self._thread.join()
        return bytes(self.content)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "content").write_bytes(CONTENT)
    descriptor = os.open(tmp_path / "content", os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def mixed(file: Movable) -> list[Piece]:
    """The content in pieces of all sizes, every other one an extent."""
    cuts = [0, 3, 5, 4099, 4100, 200_000, 200_001, 2_900_000, 2_900_003, len(CONTENT)]
    return [
        CONTENT[start:stop] if number % 2 else Extent(file, start, stop - start)
        for number, (start, stop) in enumerate(pairwise(cuts))
    ]


@pytest.mark.parametrize("waits", [True, False])
def test_a_pipe_gets_what_is_copied_and_what_is_moved(file: int, waits: bool) -> None:
    """In its order, and counted, also where somebody has told the pipe not to wait."""
    read, write = os.pipe()
    os.set_blocking(write, waits)
    reader, sink = Reader(read), OpenSink(write, "there")
    assert sink.holds >= 1 << 20
    sink.writelines(mixed(Movable(file)))
    os.close(write)
    assert reader.all() == CONTENT and sink.written == len(CONTENT)


def test_what_cannot_be_moved_is_copied(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system of which the kernel moves nothing."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "splice", refuse)
    read, write = os.pipe()
    reader, sink = Reader(read), OpenSink(write, "there")
    movable = Movable(file)
    sink.writelines(mixed(movable))
    os.close(write)
    assert reader.all() == CONTENT and sink.written == len(CONTENT) and not movable.fell_short


@pytest.mark.parametrize("how", ["shorter", "unreadable"])
def test_what_cannot_be_read_becomes_zeros_and_is_told(file: int, how: str) -> None:
    """Of a file that has become shorter, or that cannot be read, all that was promised comes, and is known to be no
    good.
    """
    read, write = os.pipe()
    reader, sink = Reader(read), OpenSink(write, "there")
    with socket.socket() as no_file:
        os.ftruncate(file, 1_000_000)
        movable = Movable(file if how == "shorter" else no_file.fileno())
        sink.writelines(mixed(movable))
    os.close(write)
    found = reader.all()
    assert movable.fell_short and len(found) == sink.written == len(CONTENT)
    assert found[200_001:1_000_000] == (CONTENT if how == "shorter" else bytes(len(CONTENT)))[200_001:1_000_000]
    assert not any(found[1_000_000:2_900_000]) and found[2_900_000:2_900_003] == CONTENT[2_900_000:2_900_003]


def test_a_reader_that_has_gone_is_told(file: int) -> None:
    """One sentence says so, whether it was to be written or moved."""
    for pieces in ([CONTENT[:9]], [Extent(Movable(file), 0, 9)]):
        read, write = os.pipe()
        sink = OpenSink(write, "there")
        os.close(read)
        with pytest.raises(JcacheError, match="ended before it had all"):
            sink.writelines(list(pieces))
        os.close(write)


def test_nothing_is_moved_to_what_is_no_pipe(file: int, tmp_path: Path) -> None:
    """Files and devices are written to, and hold nothing that could change."""
    with open(os.devnull, "wb") as device:
        assert OpenSink(device.fileno(), "there").holds == 0
    directory = os.open(tmp_path, os.O_RDONLY)
    new = Unpublished(directory)
    sink = FileSink(new, "there")
    assert sink.holds == 0
    sink.writelines(mixed(Movable(file)))
    assert sink.written == len(CONTENT)
    new.publish("new")
    os.close(directory)
    assert (tmp_path / "new").read_bytes() == CONTENT
