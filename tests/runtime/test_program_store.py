"""The store of a program never waits long, and makes no root again that is gone."""

from pathlib import Path

import pytest

from jcache.layout import Kind, Root
from jcache.runtime.events import EventKind, Refusal
from jcache.store.ledger import Known, Ledger
from jcache.store.quarantine import Quarantine
from tests.helpers.clocks import StoppedClock, waits_for_locks
from tests.helpers.entries import HOLD_LOCK, add, key, process
from tests.helpers.executable_caches import DATA, Caches, change, entry_of
from tests.helpers.jax_entries import cpu_entries_fixture as cpu_entries_fixture


def test_what_is_no_file_goes_to_quarantine(native: Root, caches: Caches, tmp_path: Path) -> None:
    """A directory or link with an entry's name is never followed; it is moved away for the entry, with one warning."""
    (tmp_path / "elsewhere").write_bytes(DATA)
    entry_of(native, key(1)).mkdir()
    entry_of(native, key(2)).symlink_to(tmp_path / "elsewhere")
    cache = caches(native)
    assert cache.get(key(1)) is None and cache.get(key(2)) is None
    cache.put(key(1), DATA)
    cache.put(key(2), DATA)
    assert cache.get(key(1)) == cache.get(key(2)) == DATA
    assert len(caches.said) == 1 and "quarantine" in caches.said[0]
    assert len(Quarantine(native).records()) == 2 and (tmp_path / "elsewhere").read_bytes() == DATA


def test_damage_stays_where_the_lock_is_held(native: Root, caches: Caches) -> None:
    """If the lock is held, a damaged entry is a miss after a short wait, with one warning."""
    cache = caches(native, lock_timeout=0.05)
    cache.put(key(1), DATA)
    change(entry_of(native, key(1)))
    with process(HOLD_LOCK, native.directory(Kind.EXECUTABLES)):
        assert cache.get(key(1)) is None
    assert len(caches.said) == 1 and "stays there" in caches.said[0]
    assert cache.get(key(1)) is None and not entry_of(native, key(1)).exists()


def test_a_broken_ledger_is_gone_on_without(native: Root, caches: Caches) -> None:
    """With a broken ledger, hits and puts work without a warning."""
    native.state.mkdir(exist_ok=True)
    native.ledger.write_bytes(b"no ledger" * 1000)
    add(native.directory(Kind.EXECUTABLES), key(1), DATA)
    cache = caches(native, max_size=10**6)
    assert cache.get(key(1)) == DATA
    cache.put(key(2), DATA)
    assert cache.get(key(2)) == DATA and caches.said == []


def test_what_is_pinned_stays(native: Root, caches: Caches) -> None:
    """An entry that fits only in the place of pinned ones is refused, with a warning."""
    cache = caches(native, max_size=len(DATA))
    cache.put(key(1), DATA)
    cache.flush()
    ledger = Ledger(native.ledger)
    ledger.record([Known(Kind.EXECUTABLES, key(1), pinned_ns=1)])
    ledger.close()
    cache.put(key(2), DATA)
    assert caches.refused(cache) == {Refusal.PINNED: 1}
    assert len(caches.said) == 1 and "unpin" in caches.said[0]


def test_a_root_that_is_gone_is_not_made_again(native: Root, caches: Caches) -> None:
    """If the root is removed before the end, it is not made again, and new records are dropped."""
    import shutil

    cache = caches(native)
    cache.put(key(1), DATA)
    shutil.rmtree(native.path)
    assert cache.get(key(1)) is None
    cache.close()
    assert not native.path.exists()


def test_a_lock_that_cannot_be_had_is_waited_for_once(
    native: Root, caches: Caches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that holds it for long costs one wait, not one for each put; then it is waited for in full again."""
    hands = StoppedClock(monkeypatch)
    cache = caches(native, max_size=10**6, lock_timeout=0.5)
    cache.put(key(1), DATA)
    waited = waits_for_locks(monkeypatch)
    with process(HOLD_LOCK, native.directory(Kind.EXECUTABLES)):
        for number in range(2, 8):
            cache.put(key(number), DATA)
        assert waited == [0.5, *[0.05] * 5]
    cache.put(key(9), DATA)
    assert {*waited[6:]} == {0.05}
    waited.clear()
    hands.go_on(60)
    cache.put(key(10), DATA)
    assert {*waited} == {0.5} and caches.count(cache, EventKind.STORED) == 3
