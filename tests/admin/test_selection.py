"""Selection of the entries for a command."""

import random
from collections.abc import Iterable, Iterator, Sequence

import pytest

from jcache.admin import selection as module
from jcache.admin.fields import FIELDS
from jcache.admin.filters import parse_filter, parse_sort
from jcache.admin.selection import Selection, select, with_seconds
from jcache.entry import Entry
from jcache.formats.compression import Codec
from jcache.formats.envelope import seal
from jcache.layout import Kind, Root
from jcache.store import files
from jcache.store.ledger import Known
from jcache.store.store import Store
from tests.helpers.entries import DAY, NOW, add, digits, executable, key


@pytest.fixture
def store(plain: Root) -> Iterator[Store]:
    with Store(plain) as store:
        yield store


def fill(store: Store, chance: random.Random, count: int) -> None:
    """Entries of two kinds, many of them with equal sizes and times."""
    for i in range(count):
        kind = chance.choice([Kind.EXECUTABLES, Kind.TRACES])
        written = NOW - chance.randrange(4) * DAY
        used = chance.choice([None, NOW + chance.randrange(4) * DAY])
        add(store.root.directory(kind), key(i), chance.randrange(4) * 100, written_ns=written, used_ns=used)


def keys(entries: Iterable[Entry]) -> list[tuple[Kind, str]]:
    return [(entry.kind, entry.key) for entry in entries]


@pytest.mark.full
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("direction", ["", ":asc", ":desc"])
def test_a_limit_is_the_beginning_of_the_whole(store: Store, chance: random.Random, field: str, direction: str) -> None:
    """A limit gives exactly the first entries of the list without a limit, even among equal values."""
    fill(store, chance, 60)
    (store.root.path / digits(1)).write_bytes(executable())
    for legacy in (False, True):
        sort = parse_sort(field + direction)
        whole = select(store, Selection(sort=sort, legacy=legacy))
        assert len(whole) == 60 + legacy
        for limit in (0, 1, 7, 59, 1000):
            assert keys(select(store, Selection(sort=sort, limit=limit, legacy=legacy))) == keys(whole[:limit])


def test_kinds_and_filters_narrow(store: Store, chance: random.Random) -> None:
    """Only entries of the named kinds that match all filters are selected; the limit applies to these."""
    fill(store, chance, 60)
    filters = (parse_filter("size>=200"), parse_filter("name=jit_step"))
    some = select(store, Selection(kinds=(Kind.TRACES,), filters=filters))
    assert some
    assert all(e.kind is Kind.TRACES and e.bytes >= 200 for e in some)
    assert keys(select(store, Selection(kinds=(Kind.TRACES,), filters=filters, limit=2))) == keys(some[:2])
    assert not select(store, Selection(kinds=(Kind.GRAPHS,)))


def test_the_most_recently_used_come_first(store: Store) -> None:
    """The most recently used entries come first unless another order is given."""
    for i in range(3):
        add(store.root.path, key(i), used_ns=NOW + i)
    assert [e.key for e in select(store, Selection())] == [key(2), key(1), key(0)]


def test_seconds_come_from_the_ledger_or_the_entry(store: Store) -> None:
    """Build seconds come from the ledger, else from the entry's header; without either they are unknown."""
    trace = seal(b"x", kind="traces", name="f", key=key(4), build_seconds=0.25, created_ns=NOW)
    add(store.root.path, key(1), executable(3))
    add(store.root.path, key(2), executable(4, Codec.ZLIB))
    add(store.root.path, key(3), b"nonsense")
    add(store.root.directory(Kind.TRACES), key(4), trace)
    add(store.root.directory(Kind.TRACES), key(5), trace[:20])
    store.ledger.record([Known(Kind.EXECUTABLES, key(2), seconds=4.75)])
    seconds = {e.key: e.seconds for e in select(store, Selection())}
    assert seconds == {key(1): 3, key(2): 4.75, key(3): None, key(4): 0.25, key(5): None}
    assert {e.key for e in select(store, Selection(filters=(parse_filter("seconds>=3"),)))} == {key(1), key(2)}
    slowest = select(store, Selection(sort=parse_sort("seconds"), limit=2))
    assert [e.key for e in slowest] == [key(2), key(1)]
    assert all(e.seconds is None for e in select(store, Selection(), seconds=False) if e.key != key(2))


def test_only_what_is_asked_for_is_opened(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds are read only from entries that are shown, and progress counts these."""
    for i in range(20):
        add(store.root.path, key(i), executable(i), used_ns=NOW + i)
    told: list[str] = []

    def progress(entries: Sequence[Entry]) -> Iterator[Entry]:
        for entry in entries:
            told.append(entry.key)
            yield entry

    select(store, Selection(limit=3), progress=progress)
    assert sorted(told) == sorted([key(19), key(18), key(17)])
    monkeypatch.setattr(files, "read", pytest.fail)
    select(store, Selection(), seconds=False)


def test_many_seconds_are_remembered(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a thousand entries on, the ledger keeps the seconds that were read, so that they are read only once."""
    monkeypatch.setattr(module, "_MIN_RECORDED", 5)
    for i in range(5):
        add(store.root.path, key(i), executable(i))
    select(store, Selection())
    monkeypatch.setattr(files, "read", pytest.fail)
    assert sorted(e.seconds or 0 for e in select(store, Selection())) == [0, 1, 2, 3, 4]


def test_what_vanishes_has_no_seconds(store: Store) -> None:
    """An entry that is gone when its seconds are read is listed without."""
    path = add(store.root.path, key(1), executable())
    entries = store.entries()
    path.unlink()
    assert [e.seconds for e in with_seconds(store, entries)] == [None]


def test_pins_are_told(store: Store) -> None:
    """A selected entry says whether it is pinned."""
    for i in range(150):
        add(store.root.path, key(i), 1, used_ns=NOW + i)
    store.ledger.record([Known(Kind.EXECUTABLES, key(149), pinned_ns=1), Known(Kind.TRACES, key(148), pinned_ns=1)])
    assert [e.key for e in select(store, Selection(), seconds=False) if e.pinned] == [key(149)]
    assert [e.pinned for e in select(store, Selection(limit=2), seconds=False)] == [True, False]
