"""A catalog lists the entries of all kinds."""

from jcache.layout import Kind
from jcache.store.ledger import Known
from jcache.store.store import Store
from tests.helpers.entries import NOW, add, digits, executable, key
from tests.helpers.stores import EXECUTABLES


def test_entries_of_all_kinds(store: Store) -> None:
    """Entries of all kinds are listed with pins and seconds; legacy entries only on request."""
    for kind in Kind:
        add(store.root.directory(kind), key(1), used_ns=NOW)
    (store.root.path / digits(2)).write_bytes(executable())
    store.ledger.record([Known(Kind.TRACES, key(1), seconds=4.0, pinned_ns=1)])
    assert [(e.kind, e.seconds, e.pinned) for e in store.entries()] == [
        (Kind.EXECUTABLES, None, False),
        (Kind.TRACES, 4.0, True),
        (Kind.GRAPHS, None, False),
    ]
    assert [e.key for e in store.entries([EXECUTABLES], legacy=True)] == [key(1), digits(2)]
