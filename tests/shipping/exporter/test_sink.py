"""A sink writes all bytes in their order, or raises an error."""

import os
import random
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from jcache.errors import JcacheError
from jcache.shipping.exporter.sink import DescriptorSink, FileSink
from jcache.store.pending_file import PendingFile

CONTENT = random.Random(5).randbytes(3_000_000)  # more than a pipe holds
CUTS = [0, 3, 5, 4099, 4100, *range(4101, 4301), 200_001, 2_900_000, 2_900_003, len(CONTENT)]
PIECES: list[bytes | memoryview] = [
    CONTENT[start:stop] if number % 2 else memoryview(CONTENT)[start:stop]
    for number, (start, stop) in enumerate(pairwise(CUTS))
]


class Reader:
    """The other end of a pipe, which reads slowly."""

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


@pytest.mark.parametrize("waits", [True, False])
def test_a_pipe_gets_all(waits: bool) -> None:
    """A pipe gets all pieces in order, even if it is non-blocking, and their bytes are counted."""
    read, write = os.pipe()
    os.set_blocking(write, waits)
    reader, sink = Reader(read), DescriptorSink(write, "there")
    sink.writelines(PIECES)
    os.close(write)
    assert reader.all() == CONTENT and sink.written == len(CONTENT)


def test_a_reader_that_has_gone_is_told() -> None:
    """If the reader of the pipe has ended, one sentence says so."""
    read, write = os.pipe()
    sink = DescriptorSink(write, "there")
    os.close(read)
    with pytest.raises(JcacheError, match="ended early"):
        sink.writelines([CONTENT[:9]])
    os.close(write)


def test_a_file_gets_all(tmp_path: Path) -> None:
    """A new file has all pieces in their order."""
    directory = os.open(tmp_path, os.O_RDONLY)
    new = PendingFile(directory)
    sink = FileSink(new, "there")
    sink.writelines(PIECES)
    assert sink.written == len(CONTENT)
    new.publish("new")
    os.close(directory)
    assert (tmp_path / "new").read_bytes() == CONTENT
