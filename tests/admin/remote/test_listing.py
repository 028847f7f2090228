"""A store's entries in columns, with what names and batches of uses tell."""

from pathlib import Path

import pytest

from jcache import clock
from jcache.admin.fields import Facts
from jcache.admin.filters import parse_filter, parse_sort
from jcache.admin.remote.listing import RemoteListing, facts_of
from jcache.layout import Kind
from jcache.remote.client import Remote, open_remote
from jcache.remote.usage import record_uses
from jcache.store.entries import KIND_CODES
from tests.helpers.entries import key

SPACE = "0.10.2_cuda_9.0"
PLACES = [
    (Kind.EXECUTABLES, SPACE, key(1)),
    (Kind.EXECUTABLES, "unknown_unknown_unknown", key(2)),
    (Kind.TRACES, "", key(3)),
]


@pytest.fixture
def listing(tmp_path: Path) -> RemoteListing:
    return RemoteListing.of(filled(tmp_path))


def filled(tmp_path: Path) -> Remote:
    store = open_remote(f"file://{tmp_path}/store")
    for number, place in enumerate(PLACES):
        store.put(*place, b"x" * (10 + number))
    return store


def row_of(listing: RemoteListing, number: int) -> int:
    (row,) = (row for row in range(len(listing)) if listing.place(row)[2] == key(number))
    return row


@pytest.mark.parametrize(
    ("namespace", "facts"),
    [
        ("0.10.2_cpu_cpu", Facts(jaxlib="0.10.2", platform="cpu", device="cpu")),
        (SPACE, Facts(jaxlib="0.10.2", platform="cuda", device="cuda 9.0")),
        ("0.10.2_tpu_unknown", Facts(jaxlib="0.10.2", platform="tpu", device="tpu")),
        ("unknown_unknown_unknown", Facts()),
        ("", Facts()),
    ],
)
def test_what_a_namespace_tells(namespace: str, facts: Facts) -> None:
    """A device is the platform with its model, where that is known."""
    assert facts_of(namespace) == facts


def test_columns(listing: RemoteListing) -> None:
    """Each column has what the entries have."""
    assert sorted(map(listing.place, range(3))) == sorted(PLACES)
    entries = list(listing)
    assert list(listing.numbers("bytes")) == [entry.bytes for entry in entries]
    assert list(listing.numbers("kind")) == [KIND_CODES[entry.kind] for entry in entries]
    assert list(listing.numbers("recency_ns")) == [entry.recency_ns for entry in entries]
    assert [listing.key_at(row) for row in range(3)] == [entry.key for entry in entries]
    listing.pinned = {1}
    assert list(listing.rows_with("pinned")) == [1] and listing[1].pinned and not list(listing.rows_with("legacy"))


def test_facts_and_filters(listing: RemoteListing) -> None:
    """Namespaces tell jaxlib, platform and device."""
    assert listing.facts(row_of(listing, 1)) == Facts(jaxlib="0.10.2", platform="cuda", device="cuda 9.0")
    assert listing.facts(row_of(listing, 2)) == Facts() == listing.facts(row_of(listing, 3))
    found = [listing.key_at(row) for row in listing.matching([parse_filter("jaxlib>=0.10"), parse_filter("size>5")])]
    assert found == [key(1)]
    by_size = listing.selected([], parse_sort("size"), 2)
    assert [listing[row].bytes for row in by_size] == [12, 11]
    assert len(listing.selected([], parse_sort("jaxlib"), None)) == 3


def test_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest use of all batches counts, one from the future as now, and one before the entry was stored not."""
    store = filled(tmp_path)
    now = clock.now_ns() + 10**12
    monkeypatch.setattr(clock, "now_ns", lambda: now)
    record_uses(store, {PLACES[0]: now - 7, PLACES[1]: 5})
    record_uses(store, {PLACES[0]: now - 9, PLACES[2]: now + 10**15})
    listing = RemoteListing.of(store)
    created = list(listing.numbers("created_ns"))
    assert listing.add_uses(store) == 2
    used = {listing.key_at(row): listing[row].recency_ns for row in range(3)}
    assert used == {key(1): now - 7, key(2): created[row_of(listing, 2)], key(3): now}


def test_young_ones(listing: RemoteListing) -> None:
    """Rows of entries since a time are found."""
    assert listing.written_between(0, 2**62) == {0, 1, 2}
    assert listing.written_between(2**62, 2**63) == set() == listing.written_between(0, 0)
