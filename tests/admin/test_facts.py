"""Facts that are read from the ledger and from inside executables, and remembered."""

import time
from collections.abc import Iterable, Iterator

from jcache.admin.facts import FactBook, device_of
from jcache.admin.fields import FIELDS, NO_FACTS, Facts
from jcache.entry import Entry
from jcache.layout import Kind, Root
from jcache.store.ledger import Known
from jcache.store.listing import list_root
from jcache.store.roots import open_root
from jcache.store.store import Store
from tests.helpers.command_line import H200, LEGACY, Jcache
from tests.helpers.entries import DAY, add, executable, key


def test_what_the_ledger_knows_is_listed(jcache: Jcache, native: Root) -> None:
    """Hits, jaxlib and run are columns, orders and JSON; an entry that nobody recorded was never hit."""
    for number in range(3):
        add(native.directory(Kind.EXECUTABLES), key(number), executable(number), used_ns=time.time_ns() - number * DAY)
    with Store(native) as store:
        store.ledger.record([Known(Kind.EXECUTABLES, key(1), hits=1200, jaxlib="0.10.2", run="2026-a")])
    listed = jcache("ls", "--sort", "hits", "--json", "--root", native.path).json["entries"]
    assert [(e["hits"], e["jaxlib"], e["run"]) for e in listed] == [
        (1200, "0.10.2", "2026-a"),
        (0, None, None),
        (0, None, None),
    ]
    shown = jcache("ls", "--sort", "hits", "--columns", "hits,jaxlib,run", "--root", native.path).out.splitlines()
    assert [line.split() for line in shown[2:]] == [["1,200", "0.10.2", "2026-a"], ["0", "–", "–"], ["0", "–", "–"]]
    (native.ledger).write_bytes(b"damaged" * 1000)
    listed = jcache("ls", "--json", "--root", native.path).json["entries"]
    assert {entry["hits"] for entry in listed} == {None}  # unknown, and not never


def test_the_content_of_an_entry_is_read_once() -> None:
    """Facts of content are read when a field asks for them; the second time, no entry is read again."""
    read: list[str] = []

    def counted(entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            read.append(entry.key)
            yield entry

    with Store(open_root(H200)) as store:
        entries = list(list_root(store.root, Kind.EXECUTABLES))
        book = FactBook(store, counted)
        book.learn(entries, [FIELDS["size"], FIELDS["hits"]])
        assert read == [] and book.of(entries[0]) == Facts(hits=0)
        for _ in range(2):
            book.learn(entries, [FIELDS["device"]])
        assert sorted(read) == sorted(entry.key for entry in entries)
        assert {book.of(entry) for entry in entries} == {Facts(hits=0, platform="cuda", device="cuda 9.0")}


def test_nothing_is_known_of_a_legacy_entry(plain: Root) -> None:
    """A legacy entry has no facts, though an entry of the same key may have some."""
    (plain.path / key(0)).write_bytes(LEGACY)
    with Store(plain) as store:
        store.ledger.record([Known(Kind.EXECUTABLES, key(0), hits=7)])
        (legacy,) = list_root(plain, Kind.EXECUTABLES).legacy
        book = FactBook(store)
        book.learn([legacy], FIELDS.values())
        assert book.of(legacy) == NO_FACTS and device_of(store, legacy) == (None, None)
