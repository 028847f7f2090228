"""A second thread writes all bytes in order from a few pages of memory, and reports errors."""

import errno
import random
import threading
from collections.abc import Iterator

import pytest

from jcache.shipping.importer import write_behind
from jcache.shipping.importer.write_behind import WriteBehind
from tests.helpers.waiting import LIMIT_S

Made = list[tuple[int, bytes | OSError]]


@pytest.fixture
def writing() -> Iterator[WriteBehind[int, bytes]]:
    writer: WriteBehind[int, bytes] = WriteBehind()
    yield writer
    writer.close()


def give(writer: WriteBehind[int, bytes], number: int, data: bytes) -> None:
    room = writer.reserve(len(data))
    assert len(room) == len(data)
    room[:] = data
    writer.add(number, room, bytes)


@pytest.mark.full
def test_what_is_written_is_what_was_given_in_its_order(writing: WriteBehind[int, bytes]) -> None:
    """Thousands of pieces of all sizes, more than the pages hold together, come back as they were, and in order."""
    chance = random.Random(7)
    pieces = [
        chance.randbytes(chance.choice((0, 1, 300, 40_000, 400_000, write_behind._PAGE_BYTES))) for _ in range(400)
    ]
    assert sum(map(len, pieces)) > 5 * write_behind._PAGE_BYTES * write_behind._MAX_PAGES
    made: Made = []
    for number, piece in enumerate(pieces):
        give(writing, number, piece)
        made += writing.results()
    made += writing.results(all_=True)
    assert [number for number, _ in made] == list(range(len(pieces)))
    assert [data for _, data in made] == pieces
    assert writing.results(all_=True) == []


def test_nothing_is_overwritten_while_it_waits(writing: WriteBehind[int, bytes]) -> None:
    """A page is reused only after all of it was written, however slow the writer is."""
    go, seen = threading.Event(), []

    def slowly(data: memoryview) -> bytes:
        go.wait(LIMIT_S)
        seen.append(threading.get_ident())
        return bytes(data)

    for number in range(write_behind._MAX_PAGES):
        room = writing.reserve(write_behind._PAGE_BYTES)
        room[:] = bytes([number]) * write_behind._PAGE_BYTES
        writing.add(number, room, slowly)
    threading.Timer(0.3, go.set).start()
    give(writing, write_behind._MAX_PAGES, b"the next")  # waits for the first page
    assert go.is_set()
    made = writing.results(all_=True)
    assert [data[:1] for _, data in made if isinstance(data, bytes)] == [b"\0", b"\1", b"\2", b"t"]
    assert set(seen).isdisjoint({threading.get_ident()})


def test_an_error_is_given_back_in_its_place_and_the_others_are_written(writing: WriteBehind[int, bytes]) -> None:
    """The caller learns which file could not be written and why; the files before and after it are written."""

    def refuses(data: memoryview) -> bytes:
        raise OSError(errno.ENOSPC, "no space")

    give(writing, 0, b"before")
    room = writing.reserve(3)
    writing.add(1, room, refuses)
    give(writing, 2, b"behind")
    made = writing.results(all_=True)
    assert made[0] == (0, b"before") and made[2] == (2, b"behind")
    assert isinstance(made[1][1], OSError) and made[1][1].errno == errno.ENOSPC


def test_what_is_larger_than_a_page_has_a_page_at_a_time(writing: WriteBehind[int, bytes]) -> None:
    """Bytes that exceed a page use one page after the other."""
    assert len(writing.reserve(write_behind._PAGE_BYTES + 1)) == write_behind._PAGE_BYTES


def test_closing_finishes_all(writing: WriteBehind[int, bytes]) -> None:
    """After the thread has ended, the results of all scheduled writes can be collected or dropped."""
    for number in range(write_behind._MAX_JOBS + 1):
        give(writing, number, b"x")
    writing.close()
    assert len(writing.results()) == write_behind._MAX_JOBS + 1
