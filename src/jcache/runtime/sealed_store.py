"""The graphs or the traces of a root, as a program reads and writes them.

An entry is verified in full before it is served: the seal over every bit, then kind and key. A hit takes no lock and
writes nothing but the recency, once in a process. All users of the same root and kind share one store.
"""

from __future__ import annotations

import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jcache.errors import DamagedEntry, JcacheError
from jcache.findings import Damage, Finding, Stamp
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import ENTRY_SUFFIX, Kind, Root
from jcache.runtime.events import Refusal, refusal_of
from jcache.runtime.program_store import ProgramStore
from jcache.runtime.warn import warn_once
from jcache.runtime.write_queue import WriteQueue
from jcache.store.economics import Spent
from jcache.store.mapped import open_sealed
from jcache.store.put_result import Outcome
from jcache.store.remote_entries import RemoteEntries
from jcache.store.roots import create_root, in_use


class OpenedEntry(NamedTuple):
    """An entry whose seal, kind and key are verified.

    Attributes:
        header: the header of its envelope.
        payload: the bytes of its payload, perhaps in a mapped file.
        root: the root that it lies in.
        path: the path of its file.
        stamp: the identity of its file.
    """

    header: EnvelopeHeader
    payload: memoryview
    root: Root
    path: Path
    stamp: Stamp

    def finding(self, damage: Damage, evidence: str) -> Finding:
        """Return a finding about this entry."""
        kind, key = Kind(self.header.kind), self.header.key
        return Finding(damage=damage, path=self.path, evidence=evidence, kind=kind, key=key, stamp=self.stamp)


def open_entry(
    root: Root, kind: Kind, key: str, on_record: Callable[[], str | None] | None = None
) -> OpenedEntry | Finding | None:
    """Return the entry of a kind and key, the finding if it is damaged, or None if there is none.

    Args:
        root: the root.
        kind: the kind.
        key: the key.
        on_record: returns the digest of the entry's file that the ledger has, as for `open_sealed`.

    Raises:
        OSError: the entry exists and cannot be read.
    """
    path = root.directory(kind) / (key + ENTRY_SUFFIX)
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            from jcache.verify.checks import not_a_file

            return not_a_file(path, kind, key, status.st_mode)
        header, payload = open_sealed(str(path), seen=status, on_record=on_record)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DamagedEntry as error:
        return Finding(damage=Damage.SEAL, path=path, evidence=str(error), kind=kind, key=key, stamp=Stamp.of(status))
    if (header.kind, header.key) != (kind, key):
        evidence = f"It was sealed as {header.kind} {header.key}."
        return Finding(damage=Damage.NAME, path=path, evidence=evidence, kind=kind, key=key, stamp=Stamp.of(status))
    return OpenedEntry(header, payload, root, path, Stamp.of(status))


def open_softly(
    root: Root, kind: Kind, key: str, on_record: Callable[[], str | None] | None = None
) -> OpenedEntry | Finding | None:
    """Return the same as `open_entry`; if the entry cannot be read, warn and return None."""
    try:
        return open_entry(root, kind, key, on_record)
    except OSError as error:
        reason = f"jcache cannot read {key} in {root.directory(kind)}: {error.strerror or error}."
        warn_once(("read", root.path), reason)
        return None


def describe(finding: Finding) -> str:
    """Return the beginning of a sentence that says what is wrong with an entry."""
    what = "is stale" if finding.damage is Damage.STALE else "was damaged"
    return f"{finding.key} in {finding.path.parent} {what} ({finding.evidence.rstrip('.')})"


# -- the store


class SealedStore:
    """The entries of a root and kind that a program writes.

    Args:
        root: the root.
        kind: graphs or traces.
        max_bytes: bound of the entries' total size; None for no bound.
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
        """Return whether the root has an entry of this key."""
        return os.path.lexists(self._directory / (key + ENTRY_SUFFIX))

    def digest_on_record(self, key: str) -> str | None:
        """Return the digest of an entry's file in the ledger; None if there is none that was taken in this root."""
        return self._queue.digest_on_record(key)

    def mark_used(self, key: str) -> None:
        """Mark an entry as used; a failure is ignored."""
        self._queue.mark_used(key)

    def put(self, key: str, data: bytes, seconds: float | None) -> Outcome:
        """Store an entry, unless the root has one of this key.

        Args:
            key: the key.
            data: the sealed bytes.
            seconds: the build time; None if it is not known.

        Raises:
            OSError, JcacheError: the entry could not be stored.
        """
        if not os.path.isdir(self.root.path):
            create_root(self.root.path, plain=self.root.plain)
        outcome = self._queue.put(key, data, seconds=seconds, origin="program")[0]
        if outcome is Outcome.STORED and (remote := self._remote()) is not None:
            remote.offer(self.kind, key, data, seconds)
        return outcome

    def sources(self, key: str, shared: Iterable[Root], is_wanted: Callable[[], bool]) -> Iterator[Root]:
        """Yield the root, the read-only ones, and the root again if it has then got the entry from the store behind.

        Args:
            key: key of the entry.
            shared: the read-only roots.
            is_wanted: returns whether to ask that store, once all roots were looked in.
        """
        yield self.root
        yield from shared
        if is_wanted() and self.fetch(key):
            yield self.root

    def fetch(self, key: str) -> bool:
        """Keep the entry of a key that the store behind the root has; return whether the root has one now."""
        remote = self._remote()
        found = None if remote is None else remote.get(self.kind, key)
        if found is None:
            return False
        try:
            self._queue.put(key, found[0], seconds=found[1], origin="copy")
        except (OSError, JcacheError) as error:
            self.warn_refused(key, error)
            return False
        return self.has(key)

    def _remote(self) -> RemoteEntries | None:
        """Return the store behind the root, if it is the root in use."""
        ours = in_use()
        return ours.remote if ours is not None and ours.root == self.root else None

    def quarantine(self, finding: Finding) -> bool:
        """Move an entry to quarantine; return whether its file was still the one that was checked.

        Raises:
            OSError, JcacheError: the entry cannot be moved, or another process holds the lock for over a second.
        """
        return self._queue.quarantine(finding)

    def put_softly(self, key: str, data: bytes, seconds: float | None) -> Outcome | Refusal:
        """Store an entry, unless the root has one of this key; on failure, warn once for each reason and return it."""
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
        warn_once((Refusal.PINNED, self.root.path), f"{text}: the pinned entries leave no room; unpin some of them.")
        return Refusal.PINNED

    def warn_refused(self, key: str, error: OSError | JcacheError) -> Refusal:
        """Warn that an entry was not stored, and return the reason."""
        refusal = refusal_of(error)
        warn_once((refusal, self.root.path), f"jcache cannot store {key}: {error}")
        return refusal

    def quarantine_softly(self, finding: Finding) -> None:
        """Move an entry to quarantine; warn if it is damaged, or if it cannot be moved."""
        try:
            moved = self.quarantine(finding)
        except (OSError, JcacheError) as error:
            warn_once(("set aside", self.root.path), f"{describe(finding)}, and stays there: {error}")
            return
        if moved and finding.damage is not Damage.STALE:
            warn_once(
                ("damaged", self.root.path), f"{describe(finding)}: it is in quarantine now, and will be made again."
            )

    def record_spent(self, spent: Spent) -> None:
        """Keep the cost of a build or a load for the next write to the ledger."""
        self._queue.learn(spent)

    def flush(self) -> None:
        """Write all pending records to the ledger; a failure is ignored."""
        self._queue.flush()


_stores: weakref.WeakValueDictionary[tuple[Path, Kind, int | None, float], SealedStore] = weakref.WeakValueDictionary()
_mutex = threading.Lock()


def store_of(root: Root, kind: Kind, *, max_bytes: int | None, lock_timeout: float) -> SealedStore:
    """Return the shared store of a root and kind; `max_bytes` and `lock_timeout` are as in `SealedStore`."""
    identity = root.path, kind, max_bytes, lock_timeout
    with _mutex:
        store = _stores.get(identity)
        if store is None:
            store = _stores[identity] = SealedStore(root, kind, max_bytes=max_bytes, lock_timeout=lock_timeout)
        return store


def _after_fork() -> None:
    """Replace the lock in a forked child, where a thread that is gone may hold it."""
    global _mutex
    _mutex = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
