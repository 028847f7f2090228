"""Put entries into a root, so that no reader and no crash ever meets half an entry.

The order of a put:

- The bytes are written to a temporary file. Then room is made, the sidecar is written, and the file gets its name.
  Under a bound, all of this but the writing happens under the lock. A bounded JAX <= 0.11.1 fails on an entry without
  a sidecar, so the sidecar comes first.
- An entry that is there is never overwritten, as in JAX: equal keys mean equal programs.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from jcache import clock
from jcache.layout import ENTRY_SUFFIX, LOCK_NAME, SIDECAR_SUFFIX, Kind, Root
from jcache.store import files
from jcache.store.cache_rules import JCACHE_RULES, CacheRules
from jcache.store.directories import is_there, opened
from jcache.store.evictor import Evictor
from jcache.store.ledger import Known
from jcache.store.ledger_queue import LedgerQueue
from jcache.store.locking import FREE_S, HOLD_S, RootLocks, run_until
from jcache.store.put_result import Outcome, PutResult
from jcache.store.sidecar import write_recency

if TYPE_CHECKING:  # and imported where it is used: `jcache info` does not need it, and is to start fast
    from jcache.store.publishing import Arrival


class _Staged(NamedTuple):
    """An entry whose bytes are in a temporary file of its open directory, as of a time in nanoseconds since 1970."""

    kind: Kind
    key: str
    bytes: int
    file: str
    directory: int
    taken_ns: int


class EntryWriter:
    """Writes entries into a root.

    Args:
        root: the root.
        locks: its locks.
        queue: the queue of its ledger.
        evictor: makes room, and knows the bound.
        rules: the rules of the cache.
    """

    def __init__(
        self,
        root: Root,
        locks: RootLocks,
        queue: LedgerQueue,
        evictor: Evictor,
        *,
        rules: CacheRules = JCACHE_RULES,
    ) -> None:
        self._root = root
        self._locks = locks
        self._queue = queue
        self._evictor = evictor
        self._rules = rules
        self._places = {kind: root.directory(kind) for kind in Kind}

    def put(self, kind: Kind, key: str, data: bytes, *, seconds: float | None = None, origin: str = "put") -> PutResult:
        """Store an entry unless its key is there already.

        Args:
            kind: what the bytes are.
            key: ``<name>-<64 hex>``.
            data: the bytes to store, as the serialization of the kind gives them.
            seconds: what building it took.
            origin: where it comes from, for the ledger.

        Raises:
            InvalidValue: not a key.
            CannotWrite: the root is read-only or full; nothing has changed then.
            Locked: the lock could not be had in time.
        """
        place, name = self._places[kind], self._rules.check(key) + ENTRY_SUFFIX
        if self._evictor.max_bytes is not None and len(data) > self._evictor.max_bytes:
            return PutResult(Outcome.TOO_LARGE)
        with files.refusal(f"store {key} in {place}"):
            if not os.path.isdir(self._root.path):
                self._root.path.mkdir(parents=True, exist_ok=True)
            with opened(self._root, place, make=True) as directory:
                if is_there(name, directory):
                    return PutResult(Outcome.PRESENT)
                staged = self._stage(kind, key, data, directory)
                outcome: Outcome | None = None
                try:
                    outcome = self._publish(staged)
                finally:
                    if outcome is not Outcome.STORED:
                        with suppress(FileNotFoundError):
                            os.unlink(staged.file, dir_fd=directory)
        if outcome is not Outcome.STORED:
            return PutResult(outcome)
        from jcache.formats.digest import digest

        record = Known(kind, key, digest(data), len(data), seconds, origin, digest_ns=staged.taken_ns)
        self._queue.add(record)
        return PutResult(outcome, record)

    def receive(self, kind: Kind, arrivals: Sequence[Arrival]) -> None:
        """Publish entries of one kind and directory that are written already, in a few holds of the lock, if any.

        No entry goes to make room for them. What is known of them is written to the ledger with the next large batch,
        or when the store is closed.

        Raises:
            CannotWrite: the root is read-only or full; those that say so are published.
            Locked: the lock could not be had in time.
        """
        from jcache.store.publishing import publishing

        queue, replaced = self._queue, [arrival.known.key for arrival in arrivals if arrival.replace]
        on_record = (queue.attempt(lambda: queue.ledger.known(kind, replaced)) or {}) if replaced else {}
        queue.attempt(lambda: queue.ledger.discredit([(kind, key) for key in replaced]))  # before: we may be killed
        directory, locks_always = self._root.directory(kind), not self._root.layout.follows_jax
        steps = publishing(self._root, kind, arrivals, on_record)
        with files.refusal(f"store entries in {directory}"):
            try:
                if self._evictor.max_bytes is not None or locks_always or os.path.lexists(directory / LOCK_NAME):
                    self._locks.in_batches(kind, steps)
                else:
                    deque(steps, maxlen=0)
            finally:
                queue.add_many(arrival.known for arrival in arrivals if arrival.published)

    def _stage(self, kind: Kind, key: str, data: bytes, directory: int) -> _Staged:
        """Write the data to a temporary file; that this changes the directory must not make us read it again."""
        if self._evictor.max_bytes is None:
            temporary = files.temporary_name()
        else:
            with self._locks.hold(kind):
                occupancy = self._evictor.occupancy(kind)
                undisturbed = occupancy.undisturbed
                temporary = files.create_temporary(directory=directory)
                if undisturbed:
                    occupancy.left_by_us()
        taken_ns = files.fill(temporary, data, directory=directory)
        return _Staged(kind, key, len(data), temporary, directory, taken_ns)

    def _publish(self, staged: _Staged) -> Outcome:
        if self._evictor.max_bytes is not None:
            return self._publish_bounded(staged)
        directory, sidecar = staged.directory, staged.key + SIDECAR_SUFFIX
        if self._rules.always_recency:
            write_recency(sidecar, clock.now_ns(), directory=directory)
        if not self._give_name(staged):
            return Outcome.PRESENT
        if self._rules.always_recency and not is_there(sidecar, directory):
            # a bounded process has evicted another entry of this key in between
            write_recency(sidecar, clock.now_ns(), directory=directory)
        return Outcome.STORED

    def _publish_bounded(self, staged: _Staged) -> Outcome:
        """Make room and publish, in as many holds of the lock as that takes."""
        occupancy = self._evictor.occupancy(staged.kind)
        while True:
            occupancy.refresh()  # which may take long, and needs no lock
            with self._locks.hold(staged.kind):
                end = clock.monotonic() + HOLD_S
                try:
                    outcome = self._publish_locked(staged, end)
                except BaseException:
                    occupancy.forget()
                    raise
            if outcome is not None:
                return outcome
            clock.sleep(FREE_S)

    def _publish_locked(self, staged: _Staged, end: float) -> Outcome | None:
        """Publish in one hold of the lock, which ends at a time; return None if there is more to do."""
        kind, key, size, directory = staged.kind, staged.key, staged.bytes, staged.directory
        if is_there(key + ENTRY_SUFFIX, directory):
            return Outcome.PRESENT
        occupancy = self._evictor.occupancy(kind)
        occupancy.refresh()
        undisturbed = occupancy.undisturbed
        if not self._evictor.fits(kind, size) and not self._evictor.can_make_room(kind, size):
            return Outcome.TOO_LARGE
        outcome = None
        if run_until(chain(occupancy.adopting(), self._evictor.evicting(kind, size)), end):
            now = clock.now_ns()
            write_recency(key + SIDECAR_SUFFIX, now, directory=directory)
            if not _give_name_locked(staged):  # without a bound there is no lock
                occupancy.forget()
                return Outcome.PRESENT
            occupancy.added(key, size, now)
            outcome = Outcome.STORED
        if undisturbed:
            occupancy.left_by_us()
        return outcome

    def _give_name(self, staged: _Staged) -> bool:
        """Publish a file unless there is one of its name: the digest on record is then always of the file there."""
        try:
            return files.give_name(staged.file, staged.key + ENTRY_SUFFIX, directory=staged.directory)
        except files.NoLinks:
            with self._locks.hold(staged.kind):
                return _give_name_locked(staged)


def _give_name_locked(staged: _Staged) -> bool:
    """Publish a file as `EntryWriter._give_name` does, with the lock held."""
    name, directory = staged.key + ENTRY_SUFFIX, staged.directory
    try:
        return files.give_name(staged.file, name, directory=directory)
    except files.NoLinks:
        if is_there(name, directory):
            return False
        os.replace(staged.file, name, src_dir_fd=directory, dst_dir_fd=directory)
        return True
