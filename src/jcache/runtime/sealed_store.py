"""The graphs or the traces of a root, as a program reads and writes them.

What is served is verified in full: the seal over every bit, then kind and key. A hit takes no lock and writes nothing
but its recency, once in a process. Who wants the same of a root shares its store.
"""

from __future__ import annotations

import os
import stat
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jcache.errors import DamagedEntry, JcacheError
from jcache.findings import Damage, Finding, Stamp
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.runtime.events import Refusal, refusal_of
from jcache.runtime.program_store import ProgramStore, WriteQueue
from jcache.runtime.warn import warn_once
from jcache.store.economics import Spent
from jcache.store.mapped import open_sealed
from jcache.store.roots import create_root
from jcache.store.store import Outcome


class OpenedEntry(NamedTuple):
    """An entry that is sound.

    Attributes:
        header: what it says about itself.
        payload: its bytes, perhaps in a file that is mapped.
        root: where it lies.
        path: of its file.
        stamp: of its file.
    """

    header: EnvelopeHeader
    payload: memoryview
    root: Root
    path: Path
    stamp: Stamp

    def finding(self, damage: Damage, evidence: str) -> Finding:
        """What is wrong with it all the same."""
        kind, key = Kind(self.header.kind), self.header.key
        return Finding(damage=damage, path=self.path, evidence=evidence, kind=kind, key=key, stamp=self.stamp)


def open_entry(root: Root, kind: Kind, key: str) -> OpenedEntry | Finding | None:
    """The entry of a kind and key, what is wrong with it, or None if there is none.

    Raises:
        OSError: it is there and cannot be read.
    """
    path = root.directory(kind) / (key + ENTRY_SUFFIX)
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            from jcache.verify.checks import not_a_file

            return not_a_file(path, kind, key, status.st_mode)
        header, payload = open_sealed(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DamagedEntry as error:
        return Finding(damage=Damage.SEAL, path=path, evidence=str(error), kind=kind, key=key, stamp=Stamp.of(status))
    if (header.kind, header.key) != (kind, key):
        evidence = f"It was sealed as {header.kind} {header.key}."
        return Finding(damage=Damage.NAME, path=path, evidence=evidence, kind=kind, key=key, stamp=Stamp.of(status))
    return OpenedEntry(header, payload, root, path, Stamp.of(status))


def open_softly(root: Root, kind: Kind, key: str) -> OpenedEntry | Finding | None:
    """The same; what cannot be read is warned of, and counts as not there."""
    try:
        return open_entry(root, kind, key)
    except OSError as error:
        reason = f"jcache cannot read {key} in {root.directory(kind)}: {error.strerror or error}."
        warn_once(("read", root.path), reason)
        return None


def describe(finding: Finding) -> str:
    """What is wrong with an entry, as the beginning of a sentence."""
    what = "is stale" if finding.damage is Damage.STALE else "was damaged"
    return f"{finding.key} in {finding.path.parent} {what} ({finding.evidence.rstrip('.')})"


class SealedStore:
    """The entries of a root and a kind that a program writes.

    Args:
        root: which root.
        kind: graphs or traces.
        max_bytes: bound of their bytes together; None for no bound.
        lock_timeout: seconds that a put waits for the directory's lock.
    """

    def __init__(self, root: Root, kind: Kind, *, max_bytes: int | None, lock_timeout: float) -> None:
        self.root = root
        self.kind = kind
        self.max_bytes = max_bytes
        self._directory = root.directory(kind)
        make = partial(ProgramStore, root, max_bytes=max_bytes, lock_timeout=lock_timeout)
        self._queue = queue = WriteQueue(make, kind)
        self.close = queue.close
        weakref.finalize(self, queue.close)

    def has(self, key: str) -> bool:
        """Whether there is an entry of a key."""
        return os.path.lexists(self._directory / (key + ENTRY_SUFFIX))

    def mark_used(self, key: str) -> None:
        """Marks an entry as used, softly."""
        self._queue.mark_used(key)

    def put(self, key: str, data: bytes, seconds: float | None) -> Outcome:
        """Stores an entry unless there is one of its key.

        Raises:
            OSError, JcacheError: it could not be stored.
        """
        if not os.path.isdir(self.root.path):
            create_root(self.root.path, plain=self.root.plain)
        return self._queue.put(key, data, seconds=seconds, origin="program")[0]

    def quarantine(self, finding: Finding) -> bool:
        """Takes an entry out of the way, into quarantine; returns whether it was still the one that was looked at.

        Raises:
            OSError, JcacheError: it cannot be moved, or the lock not be had soon.
        """
        return self._queue.quarantine(finding)

    def put_softly(self, key: str, data: bytes, seconds: float | None) -> Outcome | Refusal:
        """Stores an entry unless there is one of its key; what goes wrong is warned of, once for each reason."""
        try:
            outcome = self.put(key, data, seconds)
        except (OSError, JcacheError) as error:
            return self.warn_refused(key, error)
        if outcome is not Outcome.TOO_LARGE:
            return outcome
        text = f"{key} of {len(data)} bytes is not stored in {self.root.path}"
        if len(data) > (self.max_bytes or 0):
            warn_once((Refusal.TOO_LARGE, key), f"{text}, whose {self.kind} are bounded by {self.max_bytes}.")
            return Refusal.TOO_LARGE
        warn_once((Refusal.PINNED, self.root.path), f"{text}: what is pinned leaves no room; unpin something.")
        return Refusal.PINNED

    def warn_refused(self, key: str, error: OSError | JcacheError) -> Refusal:
        """Why an entry was not stored, which is warned of."""
        refusal = refusal_of(error)
        warn_once((refusal, self.root.path), f"jcache cannot store {key}: {error}")
        return refusal

    def quarantine_softly(self, finding: Finding) -> None:
        """Takes what may not be served out of the way; what is damaged, or cannot be moved, is warned of."""
        try:
            moved = self.quarantine(finding)
        except (OSError, JcacheError) as error:
            warn_once(("set aside", self.root.path), f"{describe(finding)}, and stays there: {error}")
            return
        if moved and finding.damage is not Damage.STALE:
            warn_once(("damaged", self.root.path), f"{describe(finding)}: it is in quarantine now, and is made anew.")

    def record_spent(self, spent: Spent) -> None:
        """Keeps what a build or a load has cost, for the ledger."""
        self._queue.learn(spent)

    def flush(self) -> None:
        """Writes what has been learnt to the ledger, softly, as happens a moment later and at exit."""
        self._queue.flush()


_stores: weakref.WeakValueDictionary[tuple[Path, Kind, int | None, float], SealedStore] = weakref.WeakValueDictionary()
_mutex = threading.Lock()


def store_of(root: Root, kind: Kind, *, max_bytes: int | None, lock_timeout: float) -> SealedStore:
    """The store of a root and a kind, one for all who want it alike."""
    alike = root.path, kind, max_bytes, lock_timeout
    with _mutex:
        store = _stores.get(alike)
        if store is None:
            store = _stores[alike] = SealedStore(root, kind, max_bytes=max_bytes, lock_timeout=lock_timeout)
        return store


def _after_fork() -> None:
    global _mutex
    _mutex = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
