"""Entries that are written already become visible as wholes, each with its sidecar where one is needed."""

import os
from collections.abc import Callable, Iterator

import pytest

from jcache.layout import LOCK_NAME, Kind, Root
from jcache.store.directories import opened
from jcache.store.ledger import Known
from jcache.store.pending_file import PendingFile
from jcache.store.publishing import Arrival, holder, publishing
from jcache.store.quarantine import Quarantine
from tests.helpers.entries import add, executable, files_of, key, recency_of
from tests.helpers.stores import OLD

KIND = Kind.EXECUTABLES
Arriving = Callable[..., Arrival]


@pytest.fixture
def arriving(plain: Root) -> Iterator[Arriving]:
    """Make an entry that is written to the directory and not visible yet."""
    with opened(plain, holder(plain, KIND, key(0)), make=True) as directory:

        def make(number: int, data: bytes = executable(), **how: bool) -> Arrival:
            file = PendingFile(directory)
            file.write(data)
            return Arrival(Known(KIND, key(number)), file, OLD, **{"sidecar": False, **how})

        yield make


def publish(root: Root, *arrivals: Arrival) -> None:
    for _ in publishing(root, KIND, arrivals, {}):
        pass


def test_each_step_makes_one_entry_visible(plain: Root, arriving: Arriving) -> None:
    """Between two steps, the first entries are there and the others are not, and no other file is."""
    arrivals = [arriving(number) for number in range(3)]
    steps = publishing(plain, KIND, arrivals, {})
    for count in range(3):
        assert len(files_of(plain.path)) == len(list(plain.path.iterdir())) == count
        next(steps)
        assert [arrival.published for arrival in arrivals] == [True] * (count + 1) + [False] * (2 - count)
    assert next(steps, None) is None


def test_sidecars_are_written_on_request_and_always_beside_a_lock(plain: Root, arriving: Arriving) -> None:
    """A bounded JAX, whose lock file is there, needs a sidecar for each entry; elsewhere only some have one."""
    publish(plain, arriving(1), arriving(2, sidecar=True))
    assert not (plain.path / f"{key(1)}-atime").exists() and recency_of(plain.path, key(2)) == OLD
    (plain.path / LOCK_NAME).touch()
    publish(plain, arriving(3))
    assert recency_of(plain.path, key(3)) == OLD


def test_an_entry_that_is_there_stays(plain: Root, arriving: Arriving) -> None:
    """It keeps its bytes and its recency, and nothing is left of the other one."""
    before = add(plain.path, key(1), executable(7), used_ns=OLD + 5).read_bytes()
    late = arriving(1, executable(8), sidecar=True)
    publish(plain, late)
    assert not late.published
    assert (plain.path / f"{key(1)}-cache").read_bytes() == before and recency_of(plain.path, key(1)) == OLD + 5
    assert sorted(os.listdir(plain.path)) == [f"{key(1)}-atime", f"{key(1)}-cache"]


def test_what_is_replaced_goes_to_quarantine(plain: Root, arriving: Arriving) -> None:
    """The new entry is in its place, with its own recency, and the old bytes can be restored."""
    old, new = executable(7), executable(8)
    add(plain.path, key(1), old, used_ns=OLD + 5)
    publish(plain, arriving(1, new, sidecar=True, replace=True))
    assert (plain.path / f"{key(1)}-cache").read_bytes() == new and recency_of(plain.path, key(1)) == OLD
    (record,) = Quarantine(plain).records()
    assert (record.key, record.damage) == (key(1), "replaced")
