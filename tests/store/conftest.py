"""Fixtures that several tests of the store share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jcache.layout import Kind, Root
from jcache.store import listing
from jcache.store.ledger import Known, Ledger
from jcache.store.quarantine import Quarantine
from jcache.store.store import Store
from tests.helpers.entries import key
from tests.helpers.stores import Memory


@pytest.fixture
def store(plain: Root) -> Iterator[Store]:
    """A store without a bound over an empty JAX directory."""
    with Store(plain, lock_timeout=5) as store:
        yield store


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A ledger that keeps a snapshot of every directory, however small."""
    monkeypatch.setattr(listing, "SNAPSHOT_FROM", 0)
    return Memory(Ledger(tmp_path / "state" / "ledger.sqlite3"))


@pytest.fixture
def place(plain: Root) -> Quarantine:
    """Return the quarantine of an empty JAX directory."""
    return Quarantine(plain)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a ledger with 500 entries, one of them pinned."""
    path = tmp_path / ".jcache" / "ledger.sqlite3"
    ledger = Ledger(path)
    ledger.record(Known(Kind.EXECUTABLES, key(i), digest="d" * 64, pinned_ns=1 if i == 1 else None) for i in range(500))
    ledger.close()
    return path
