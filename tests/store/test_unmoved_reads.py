"""Files are read without moving their access times; where that is not allowed, the moves are remembered."""

import os
import time

import pytest

from jcache.layout import Root
from jcache.store import files, unmoved_reads
from jcache.store.access_times import note_moved
from tests.helpers.entries import DAY, add, executable, key
from tests.store.test_access_times import OLD_NS, entry_of, others as others

MOVED = unmoved_reads.Moved(time.time_ns(), 0)


@pytest.mark.usefixtures("access_times_kept")
def test_what_was_moved_twice_was_used_before(others: Root) -> None:
    """A second look, days after the first one, does not take that for a use."""
    path = others.path / f"{key(0)}-cache"
    for first, later in ((OLD_NS + DAY, OLD_NS + 5 * DAY), (OLD_NS + 5 * DAY, OLD_NS + 9 * DAY)):
        unmoved_reads.note_moved_in(others.path, {path.stat().st_ino: unmoved_reads.Moved(later, first)})
        assert note_moved(others) is None
        os.utime(path, ns=(later, OLD_NS))
        assert entry_of(others, 0).recency_ns == OLD_NS + DAY


@pytest.mark.usefixtures("access_times_kept")
def test_many_marks_become_one(others: Root) -> None:
    """Many records become one, for all access times until then; an existing record is not written again."""
    path = others.path / f"{key(0)}-cache"
    status = path.stat()
    for count in (1, 5000):
        unmoved_reads.note_moved_in(others.path, {status.st_ino + i: MOVED for i in range(count)})
        assert note_moved(others) is None
        assert len(others.moved_mark.read_text().splitlines()) == 1
    os.utime(path, ns=(time.time_ns() - DAY, OLD_NS))
    assert entry_of(others, 0).unknown


def test_a_program_moves_them(plain: Root) -> None:
    """A read for a program moves the access time, as with plain JAX; a check does not."""
    path = add(plain.path, key(1), executable(), written_ns=OLD_NS)
    files.read(path)
    assert path.stat().st_atime_ns == OLD_NS
    files.read(path, as_use=True)
    assert path.stat().st_atime_ns > OLD_NS


def test_moves_are_added_up_by_inode() -> None:
    """A later move of the same file goes on from the first; a use in between begins anew."""
    known = {1: unmoved_reads.Moved(20, 10)}
    unmoved_reads.add_moved(known, {1: unmoved_reads.Moved(30, 20), 2: unmoved_reads.Moved(5, 4)})
    assert known == {1: unmoved_reads.Moved(30, 10), 2: unmoved_reads.Moved(5, 4)}
    unmoved_reads.add_moved(known, {1: unmoved_reads.Moved(50, 40)})
    assert known[1] == unmoved_reads.Moved(50, 40)


def test_links_are_not_followed(plain: Root) -> None:
    """A link with the name of an entry is refused, whatever it leads to."""
    path = add(plain.path, key(1), executable())
    (plain.path / "link").symlink_to(path)
    with pytest.raises(OSError):
        unmoved_reads.open_to_look(plain.path / "link")
    assert unmoved_reads.moved_in(plain.path / "nowhere") == {}
