"""Entries of a root, found by kind and by key."""

import pytest

from jcache.errors import UnknownKey
from jcache.layout import Kind
from jcache.store.ledger import Known
from jcache.store.store import Store
from tests.helpers.entries import NOW, add, digits, executable, key
from tests.helpers.stores import EXECUTABLES


def test_entries_of_all_kinds(store: Store) -> None:
    """All kinds are listed with pins and seconds; legacy entries only if asked for."""
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


def test_finding(store: Store) -> None:
    """A key, or an unambiguous beginning of it or of its hash, stands for one entry of any kind."""
    add(store.root.path, key(1))
    add(store.root.path, key(2))
    add(store.root.directory(Kind.TRACES), key(3, "loss"))
    (store.root.path / digits(4)).write_bytes(executable())
    assert store.find(key(1)).key == store.find(digits(1)[:12]).key == key(1)
    assert store.find("loss").kind is Kind.TRACES
    assert store.find(digits(4)[:12]).legacy
    assert store.path(store.find(digits(4))) == store.root.path / digits(4)
    with pytest.raises(UnknownKey, match=r"'jit_step' stands for 2 entries: .*; give more of the key"):
        store.find("jit_step")
    for unknown in ("step", "jit_steps", "-", key(9), "\udcff", "*"):
        with pytest.raises(UnknownKey, match=r"No entry .* has the key or prefix"):
            store.find(unknown)


def test_a_key_that_begins_another(store: Store) -> None:
    """A whole key stands for itself, even if another one begins with it."""
    longer = f"{key(1)}-{digits(2)}"
    add(store.root.path, key(1))
    add(store.root.path, longer)
    assert store.find(key(1)).key == key(1)
