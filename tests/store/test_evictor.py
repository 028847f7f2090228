"""The least recently used entries make room under a bound, and pinned ones stay."""

import os
import time
from pathlib import Path

import pytest

from jcache.errors import CannotWrite
from jcache.formats.digest import digest
from jcache.layout import Root
from jcache.store.ledger import Ledger
from jcache.store.ledger_removals import removals
from jcache.store.put_result import Outcome
from tests.helpers.entries import NOW, add, key
from tests.helpers.stores import EXECUTABLES, bounded, pin, shelf


def test_the_least_recently_used_make_room(plain: Root) -> None:
    """A bounded put evicts exactly as many of the least recently used entries as it must."""
    for i in range(10):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    with bounded(plain, 1000) as store:
        assert store.put(EXECUTABLES, key(50), b"x" * 100) is Outcome.STORED
        assert shelf(plain).keys() == {key(i) for i in (*range(1, 10), 50)}
        assert store.put(EXECUTABLES, key(51), b"x" * 101) is Outcome.STORED
        assert shelf(plain).keys() == {key(i) for i in (*range(3, 10), 50, 51)}
    assert sorted(p.name[:-6] for p in plain.path.glob("*-atime")) == sorted(shelf(plain))


def test_pinned_entries_are_not_evicted(plain: Root) -> None:
    """If pinned entries leave no room, the entry is not stored, nothing is evicted, and the bound holds."""
    for i in range(4):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    pin(plain, key(0), key(1))
    with bounded(plain, 400) as store:
        assert store.put(EXECUTABLES, key(5), b"x" * 150) is Outcome.STORED
        assert shelf(plain).keys() == {key(0), key(1), key(5)}
        assert store.put(EXECUTABLES, key(6), b"x" * 201) is Outcome.TOO_LARGE
        assert shelf(plain).keys() == {key(0), key(1), key(5)}
        store.pins.remove([(EXECUTABLES, key(0))])
        assert store.put(EXECUTABLES, key(6), b"x" * 201) is Outcome.STORED
        assert shelf(plain).keys() == {key(1), key(6)}
    assert not list(plain.path.glob(".jcache-tmp-*"))


def test_what_is_evicted_is_forgotten(plain: Root) -> None:
    """The ledger keeps no digest of an entry that is gone: another one under its key has other bytes."""
    with bounded(plain, 100) as store:
        for data in (b"1" * 100, b"2" * 100):
            store.put(EXECUTABLES, key(1), data)
            store.put(EXECUTABLES, key(2), data)
        store.put(EXECUTABLES, key(1), b"3" * 100)
    assert {k: v.digest for k, v in Ledger(plain.ledger).known(EXECUTABLES).items()} == {key(1): digest(b"3" * 100)}


def test_what_is_evicted_is_noted(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger tells which program evicted an entry, so that the next miss of it can be explained."""
    monkeypatch.setattr("sys.argv", ["/home/ada/train.py", "--lr", "1"])
    with bounded(plain, 100) as store:
        store.put(EXECUTABLES, key(1), b"1" * 100)
    with bounded(plain, 100) as store:
        store.put(EXECUTABLES, key(2), b"2" * 100)
    assert {k: v.remover for k, v in removals(Ledger(plain.ledger), EXECUTABLES).items()} == {key(1): "train.py"}


def test_recencies_that_others_move_are_respected(plain: Root) -> None:
    """A hit by another process changes a sidecar and not the directory; the entry is then no victim."""
    for i in range(5):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    store = bounded(plain, 600)
    store.put(EXECUTABLES, key(10), b"x" * 100)
    for i in (0, 2):
        (plain.path / f"{key(i)}-atime").write_bytes(time.time_ns().to_bytes(8, "little"))
    store.put(EXECUTABLES, key(11), b"x" * 300)
    assert shelf(plain).keys() == {key(0), key(2), key(11)} | {key(10)}


def test_a_victim_that_cannot_be_removed(plain: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """The put fails with the reason, and the next one looks at the directory afresh."""
    for i in range(3):
        add(plain.path, key(i), 100, used_ns=NOW + i)
    store = bounded(plain, 300)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", lambda *_, **__: (_ for _ in ()).throw(PermissionError(1, "no")))
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(CannotWrite, match="not permitted"):
            store.put(EXECUTABLES, key(9), b"x" * 100)
    assert shelf(plain).keys() == {key(0), key(1), key(2)}
    assert store.put(EXECUTABLES, key(9), b"x" * 100) is Outcome.STORED
    assert shelf(plain).keys() == {key(1), key(2), key(9)}
