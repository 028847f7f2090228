"""How full a directory is, without reading it each time."""

import os
import random
import time
from pathlib import Path

import pytest

from jcache.layout import Kind, Root
from jcache.store.locking import locked
from jcache.store.lru_index import Occupancy
from tests.helpers.entries import NOW, add, executable, files_of, key


@pytest.fixture
def occupancy(plain: Root) -> Occupancy:
    return Occupancy(plain, Kind.EXECUTABLES, None)


def write(directory: Path, a_key: str, size: int, used_ns: int) -> None:
    add(directory, a_key, size, used_ns=used_ns)


def test_it_knows_what_was_there(plain: Root, occupancy: Occupancy) -> None:
    """The bytes are those of the entries' files, without sidecars, legacy entries and whatever else lies there."""
    write(plain.path, key(1), 100, NOW)
    (plain.path / key(2)).write_bytes(executable())
    (plain.path / "model-cache").write_bytes(b"foreign")
    occupancy.refresh()
    assert occupancy.bytes == 100
    assert occupancy.of([key(1), key(2)]) == 100


def test_every_change_by_others_is_seen(plain: Root, occupancy: Occupancy) -> None:
    """Every change by other processes is noticed, even right after a change of this one or during a read; own
    changes are not.
    """
    for i in range(100):
        assert not occupancy.undisturbed
        occupancy.refresh()
        assert occupancy.undisturbed
        occupancy.left_by_us()
        assert occupancy.undisturbed
        write(plain.path, key(i), 1, NOW)
    occupancy.refresh()
    assert occupancy.bytes == 100


def test_what_is_known_can_be_given_up(plain: Root, occupancy: Occupancy) -> None:
    """After a failure, the index is read again."""
    occupancy.refresh()
    occupancy.forget()
    assert not occupancy.undisturbed


def test_missing_sidecars_are_made(plain: Root, occupancy: Occupancy) -> None:
    """Missing sidecars get the files' times; another file of that name stays."""
    for i in range(3):
        add(plain.path, key(i), 10, written_ns=NOW + i)
    (plain.path / f"{key(1)}-atime").mkdir()
    occupancy.refresh()
    assert len(list(occupancy.adopting())) == 2
    assert (plain.path / f"{key(2)}-atime").read_bytes() == (NOW + 2).to_bytes(8, "little")
    assert (plain.path / f"{key(1)}-atime").is_dir()


def test_victims_are_those_of_a_full_look(plain: Root, occupancy: Occupancy, chance: random.Random) -> None:
    """Through puts, hits and evictions of this and other processes, the victims are exactly the least
    recently used entries.
    """
    model: dict[str, int] = {}
    clock = NOW
    for i in range(10):
        write(plain.path, key(i), 100, clock + i)
        model[key(i)] = clock + i
    occupancy.refresh()
    for i in range(10, 200):
        clock += 100
        for hit in chance.sample(sorted(model), min(3, len(model))):
            clock += 1
            (plain.path / f"{hit}-atime").write_bytes(clock.to_bytes(8, "little"))
            model[hit] = clock
        pinned = set(chance.sample(sorted(model), 2))
        bound = chance.randrange(300, 1500)
        expected: list[str] = []
        for a_key in sorted(model, key=lambda k: model[k]):
            if (len(model) - len(expected)) * 100 + 100 > bound and a_key not in pinned:
                expected.append(a_key)
        assert [entry.key for entry in occupancy.victims(bound, 100, pinned)] == expected
        for a_key in expected:
            occupancy.removed(a_key)
            del model[a_key]
            (plain.path / f"{a_key}-cache").unlink()
            (plain.path / f"{a_key}-atime").unlink()
        clock += 1
        write(plain.path, key(i), 100, clock)
        occupancy.added(key(i), 100, clock)
        model[key(i)] = clock
        assert occupancy.bytes == sum(files_of(plain.path).values())
    with locked(plain, Kind.EXECUTABLES):
        occupancy.forget()
        occupancy.refresh()
    assert occupancy.bytes == len(model) * 100


def test_victims_say_what_they_are(plain: Root, occupancy: Occupancy) -> None:
    """A victim has its size, times and sidecar, and enough of them are found even if none may stay."""
    write(plain.path, key(1), 100, NOW)
    occupancy.refresh()
    (victim,) = occupancy.victims(0, 1000)
    assert (victim.key, victim.bytes, victim.recency_ns, victim.sidecar) == (key(1), 100, NOW, True)


def test_times_ahead_of_the_clock(plain: Root, occupancy: Occupancy) -> None:
    """A directory or sidecar with a time in the future, or a damaged sidecar, changes no victim's turn."""
    write(plain.path, key(1), 100, time.time_ns() + 10**15)
    write(plain.path, key(2), 100, NOW)
    add(plain.path, key(3), 100, written_ns=NOW - 1)
    (plain.path / f"{key(3)}-atime").write_bytes(b"\xff" * 8)
    ahead = time.time_ns() + 10**15
    os.utime(plain.path, ns=(ahead, ahead))
    occupancy.refresh()
    assert [entry.key for entry in occupancy.victims(0, 0)] == [key(3), key(2), key(1)]
