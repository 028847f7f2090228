"""No operation on a quarantine makes a changed entry count as sound.

If bytes under a key were never stored there, `verify` must not call them sound, and no program may get them. The
generator flips bits, verifies, repairs, restores, swaps and replaces entries, in any order.
"""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from jcache.errors import JcacheError
from jcache.formats.digest import digest
from jcache.layout import Kind
from jcache.runtime.threads_ledger import ThreadsLedger
from jcache.runtime.verified_read import VerifiedEntry, VerifiedReader
from jcache.store import files
from jcache.store.directories import opened
from jcache.store.ledger import Known
from jcache.store.pending_file import PendingFile
from jcache.store.publishing import Arrival
from jcache.store.quarantine import Quarantine
from jcache.store.roots import create_root
from jcache.store.store import Store
from jcache.verify.repair import repair
from jcache.verify.result import VerifyRequest
from jcache.verify.verification import verify
from tests.helpers.entries import DAY, NOW, add, executable, key

pytestmark = pytest.mark.smoke
KIND, OLD = Kind.EXECUTABLES, NOW - DAY
ACTIONS = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 1 << 20)),
    st.tuples(st.sampled_from(["repair", "restore", "swap", "replace"]), st.integers(0, 3)),
)


def flip(path: Path, bit: int) -> None:
    """Changes one bit of the file, in place."""
    if path.exists():
        data = bytearray(path.read_bytes())
        data[bit // 8 % len(data)] ^= 1 << bit % 8
        with path.open("r+b") as file:
            file.write(data)


def act(store: Store, path: Path, action: str, number: int) -> bytes | None:
    """Does one thing; returns the bytes that it stored, if any."""
    place = Quarantine(store.root)
    records = place.records()
    if action == "flip":
        flip(path, number)
    elif action == "repair":
        repair(store, verify(store, VerifyRequest()).findings, grace_ns=0)
    elif action == "replace":
        data = executable(10 + number)
        with opened(store.root, path.parent) as directory:
            file = PendingFile(directory)
            file.write(data)
            known = Known(KIND, key(1), digest(data), len(data), origin="import")
            store.writer.receive(KIND, [Arrival(known, file, OLD, sidecar=True, replace=path.exists())])
        store.queue.flush()
        return data
    elif records:
        try:
            store.maintenance.restore(place, records[number % len(records)], replace=action == "swap")
            store.queue.flush()
        except JcacheError:
            assert action == "restore" and path.exists()
    return None


@pytest.mark.full
@given(st.lists(ACTIONS, max_size=10), st.booleans())
@example([("flip", 0), ("flip", 88), ("replace", 0), ("swap", 0), ("flip", 0), ("restore", 0)], False)
def test_no_changed_entry_becomes_right(actions: list[tuple[str, int]], plain: bool) -> None:
    """After any operations, an entry was stored under its key, or `verify` names it and no program gets it."""
    with tempfile.TemporaryDirectory() as scratch:
        root = create_root(Path(scratch) / "root", plain=plain)
        path = add(root.directory(KIND), key(1), executable(5), used_ns=OLD, written_ns=OLD)
        stored = {path.read_bytes()}
        for action, number in actions:
            with Store(root) as store:
                verify(store, VerifyRequest(grace_ns=0))
                data = act(store, path, action, number)
                stored |= set() if data is None else {data}
            if path.exists():
                os.utime(path, ns=(OLD, OLD))
        with Store(root) as store:
            got = VerifiedReader(root, ThreadsLedger(root.ledger), None).get(key(1))
            found = verify(store, VerifyRequest(grace_ns=0)).findings
        if path.exists() and files.read(path) not in stored:
            assert [one.key for one in found] == [key(1)] and not isinstance(got, VerifiedEntry)
        elif path.exists():
            assert found == [] and isinstance(got, VerifiedEntry)
