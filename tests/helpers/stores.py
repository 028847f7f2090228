"""Stores that tests make, and the entries in them."""

import time
from pathlib import Path

from jcache.entry import Snapshot
from jcache.findings import Damage, Finding, Stamp
from jcache.formats.digest import digest
from jcache.layout import Kind, Root
from jcache.store.ledger import Ledger
from jcache.store.store import Store
from tests.helpers.entries import DAY, add, executable, files_of, key

EXECUTABLES = Kind.EXECUTABLES


def bounded(root: Root, bound: int) -> Store:
    """Return a store under a bound."""
    return Store(root, max_bytes=bound, lock_timeout=60)


def pin(root: Root, *keys: str) -> None:
    """Pin executables."""
    with Store(root) as store:
        store.pins.add((EXECUTABLES, k) for k in keys)


def shelf(root: Root) -> dict[str, int]:
    """Return the bytes of the executables, by their keys."""
    return files_of(root.directory(EXECUTABLES))


def open_ledger(path: Path) -> Ledger:
    """Open a ledger that waits for others only briefly."""
    return Ledger(path, busy_timeout=0.05)


class Memory:
    """Snapshots kept in a ledger, and how often one was."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.saved = 0

    def drop_snapshot(self, directory: str) -> None:
        self.ledger.drop_snapshot(directory)

    def load_snapshot(self, directory: str) -> Snapshot | None:
        return self.ledger.load_snapshot(directory)

    def save_snapshot(self, directory: str, snapshot: Snapshot) -> None:
        self.saved += 1
        self.ledger.save_snapshot(directory, snapshot)


TORN = executable()[:-5]
OLD = time.time_ns() - DAY


def finding(root: Root, number: int = 1, kind: Kind = EXECUTABLES, *, used_ns: int | None = OLD) -> Finding:
    """Return the finding of an old torn entry in the root."""
    path = add(root.directory(kind), key(number), TORN, used_ns=used_ns, written_ns=OLD)
    stamp = Stamp(len(TORN), OLD, path.stat().st_ino)
    return Finding(
        damage=Damage.TORN, path=path, evidence="Torn.", kind=kind, key=key(number), stamp=stamp, digest=digest(TORN)
    )
