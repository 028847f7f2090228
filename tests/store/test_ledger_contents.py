"""What the ledger tells of executables by the digests of their bytes: who made them, and for what."""

from jcache.layout import Kind
from jcache.store import ledger_contents
from jcache.store.ledger import Known
from jcache.store.ledger_contents import Content
from jcache.store.store import Store
from tests.helpers.entries import digits, key

KIND = Kind.EXECUTABLES


def record(store: Store, number: int, *, maker: str = "a", jaxlib: str | None = None, origin: str = "run") -> Content:
    """Record an entry and the content of its bytes."""
    content = Content(digits(number), "zstd", number, maker)
    store.ledger.record([Known(KIND, key(number), content.digest, 9, jaxlib=jaxlib, origin=origin)])
    ledger_contents.record_contents(store.ledger, [content])
    return content


def test_contents_are_read_back_by_digest(store: Store) -> None:
    """Every field comes back; executables with one maker share its text."""
    recorded = [record(store, 1), record(store, 2), record(store, 3, maker="b")]
    assert ledger_contents.contents(store.ledger) == {content.digest: content for content in recorded}
    assert sorted(ledger_contents.makers(store.ledger).values()) == ["a", "b"]
    assert ledger_contents.looked_into(store.ledger) == {key(1), key(2), key(3)}


def test_content_that_no_entry_has_is_forgotten(store: Store) -> None:
    """The next change drops the content of entries that have gone, and makers that nothing names any more."""
    record(store, 1, maker="gone")
    store.ledger.forget([(KIND, key(1))], "jcache prune")
    kept = record(store, 2)
    assert ledger_contents.contents(store.ledger) == {kept.digest: kept}
    assert list(ledger_contents.makers(store.ledger).values()) == ["a"]


def test_executables_are_found_by_their_maker(store: Store) -> None:
    """Each has the jaxlib and the origin on record; of no maker there are none."""
    record(store, 1, jaxlib="0.10.2"), record(store, 2, origin="import"), record(store, 3, maker="b")
    number = next(number for number, text in ledger_contents.makers(store.ledger).items() if text == "a")
    found = ledger_contents.made_by(store.ledger, [number])
    assert sorted(found) == [(key(1), "0.10.2", "run", number), (key(2), None, "import", number)]
    assert ledger_contents.made_by(store.ledger, []) == []


def test_jaxlibs_are_those_of_an_origin(store: Store) -> None:
    """Only versions on record count, and only those of entries that came in one of the ways."""
    record(store, 1, jaxlib="0.10.2"), record(store, 2, jaxlib="0.11.0", origin="import"), record(store, 3)
    assert ledger_contents.jaxlibs_of(store.ledger, ["run"]) == {"0.10.2"}
    assert ledger_contents.jaxlibs_of(store.ledger, ["run", "import"]) == {"0.10.2", "0.11.0"}
    assert ledger_contents.jaxlibs_of(store.ledger, []) == set()


def test_a_ledger_without_the_tables_knows_nothing(store: Store) -> None:
    """A ledger of an older jcache has none of them, which is no error."""
    store.ledger.record([Known(KIND, key(1))])
    assert ledger_contents.contents(store.ledger) == {} == ledger_contents.makers(store.ledger)
