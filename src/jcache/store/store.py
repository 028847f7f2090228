"""The only writer under a root: entries in, entries out; `Upkeep`, its base, executes plans.

Order of every change, so that no reader and no crash ever meets half an entry:

- put: temporary file, then room is made, the sidecar is written, the file renamed into place; with a bound all but
  writing the data is done under the lock. A bounded JAX <= 0.11.1 fails on an entry without a sidecar, so the sidecar
  is there first.
- An entry that is there is never overwritten, as in JAX: equal keys mean equal programs.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache import clock
from jcache.entry import Entry
from jcache.errors import LedgerUnavailable
from jcache.layout import ENTRY_SUFFIX, LOCK_NAME, SIDECAR_SUFFIX, Kind, Root, check_key
from jcache.store import files
from jcache.store.directories import Directories, is_there, opened
from jcache.store.ledger import Known, Ledger
from jcache.store.locking import DEFAULT_TIMEOUT, FREE_S, HOLD_S, run_until
from jcache.store.maintenance import Upkeep
from jcache.store.pins import Pins

if TYPE_CHECKING:  # and imported where it is used: `jcache info` does not need it, and is to start fast
    from jcache.formats.envelope import EnvelopeHeader
    from jcache.store.lru_index import Occupancy
    from jcache.store.publishing import Arrival

_UNDER_LOCK: Final = 0.1


class Outcome(StrEnum):
    """What became of a put."""

    STORED = "stored"
    PRESENT = "present"
    TOO_LARGE = "too large"


class Store(Upkeep):
    """Reads and writes the entries of a root.

    Args:
        root: which root.
        max_bytes: bound of each kind's entries together, as ``jax_compilation_cache_max_size``; None for no bound.
        lock_timeout: seconds to wait for a directory's lock.
        waiting: is told, as a sentence, whom we wait for.
    """

    def __init__(
        self,
        root: Root,
        *,
        max_bytes: int | None = None,
        lock_timeout: float = DEFAULT_TIMEOUT,
        waiting: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(root, lock_timeout=lock_timeout, waiting=waiting)
        self.max_bytes = max_bytes
        self._occupancy: dict[Kind, Occupancy] = {}
        self._pinned: set[tuple[Kind, str]] | None = None
        self._quick = Ledger(root.ledger, busy_timeout=_UNDER_LOCK)  # for what is asked under the lock

    def close(self) -> None:
        super().close()
        self._quick.close()

    # -- looking

    def entries(self, kinds: Iterable[Kind] = tuple(Kind), *, legacy: bool = False, uses: bool = False) -> list[Entry]:
        """Return the entries of some kinds, with what the ledger knows of them.

        Args:
            kinds: which.
            legacy: whether to count in the entries that only jax <= 0.4.30 reads.
            uses: whether the last uses are to be those of now, also in large directories.
        """
        found: list[Entry] = []
        for kind in kinds:
            listing = self.listing(kind, uses=uses)
            some = [*listing.entries(), *(listing.legacy if legacy else ())]
            found += self.enrich(kind, some)
        return found

    def enrich(self, kind: Kind, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries of one kind with seconds and pins, as the ledger knows them."""
        keys = None if len(entries) > 100 else [entry.key for entry in entries]
        known = self.softly(lambda: self.ledger.known(kind, keys)) or {}
        pins = self.softly(self.pins.known)
        pinned = None if pins is None else {key for of, key in pins if of is kind}
        if not known and pinned == set():
            return list(entries)
        return [_with_known(entry, known.get(entry.key), pinned) for entry in entries]

    # -- single entries

    def get(self, kind: Kind, key: str) -> bytes | None:
        """Return the stored bytes of an entry, None if there is none; mark it as used now if the root is writable.

        Raises:
            InvalidValue: not a key.
            OSError: the file is there but cannot be read.
        """
        name = check_key(key) + ENTRY_SUFFIX
        try:
            with opened(self.root, self.root.directory(kind)) as directory:
                data = files.read(name, directory=directory, as_use=True)
                with suppress(OSError):  # a read-only root serves hits as well
                    files.write_recency(key + SIDECAR_SUFFIX, clock.now_ns(), directory=directory)
        except FileNotFoundError:
            return None
        return data

    def put(self, kind: Kind, key: str, data: bytes, *, seconds: float | None = None, origin: str = "put") -> Outcome:
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
        place, name = self.root.directory(kind), self._checked(key) + ENTRY_SUFFIX
        if self.max_bytes is not None and len(data) > self.max_bytes:
            return Outcome.TOO_LARGE
        with files.refusal(f"store {key} in {place}"):
            self.root.path.mkdir(parents=True, exist_ok=True)
            with opened(self.root, place, make=True) as directory:
                if is_there(name, directory):
                    return Outcome.PRESENT
                temporary = self._stage(kind, directory, data)
                taken_ns = os.lstat(temporary, dir_fd=directory).st_ctime_ns  # by the file system's clock
                outcome: Outcome | None = None
                try:
                    outcome = self._publish(kind, directory, temporary, key, len(data))
                finally:
                    if outcome is not Outcome.STORED:
                        with suppress(FileNotFoundError):
                            os.unlink(temporary, dir_fd=directory)
        if outcome is Outcome.STORED:
            from jcache.formats.digest import digest

            self._learn(Known(kind, key, digest(data), len(data), seconds, origin, digest_ns=taken_ns))
        return outcome

    def receive(self, kind: Kind, arrivals: Sequence[Arrival]) -> None:
        """Publish entries of one kind and directory that are written already, in a few holds of the lock, if any.

        No entry goes to make room for them. What is known of them is written to the ledger with the next large batch,
        or when the store is closed.

        Raises:
            CannotWrite: the root is read-only or full; those that say so are published.
            Locked: the lock could not be had in time.
        """
        from jcache.store.publishing import publishing

        replaced = [arrival.known.key for arrival in arrivals if arrival.replace]
        on_record = (self.softly(lambda: self.ledger.known(kind, replaced)) or {}) if replaced else {}
        self.softly(lambda: self.ledger.discredit([(kind, key) for key in replaced]))  # before: we may be killed
        directory, locks_always = self.root.directory(kind), not self.root.layout.follows_jax
        steps = publishing(self.root, kind, arrivals, on_record)
        with files.refusal(f"store entries in {directory}"):
            try:
                if self.max_bytes is not None or locks_always or os.path.lexists(directory / LOCK_NAME):
                    self.in_batches(kind, steps)
                else:
                    deque(steps, maxlen=0)
            finally:
                self.learn_all(arrival.known for arrival in arrivals if arrival.published)

    def _checked(self, key: str) -> str:
        """Return a key under which an entry may be put.

        Raises:
            InvalidValue: not a key.
        """
        return check_key(key)

    def _stage(self, kind: Kind, directory: int, data: bytes) -> str:
        """Write the data to a temporary file; that this changes the directory must not make us read it again."""
        if self.max_bytes is None:
            temporary = files.create_temporary(directory=directory)
        else:
            with self._locked(kind):
                occupancy = self._occupancy_of(kind)
                undisturbed = occupancy.undisturbed
                temporary = files.create_temporary(directory=directory)
                if undisturbed:
                    occupancy.left_by_us()
        files.fill(temporary, data, directory=directory)
        return temporary

    def _publish(self, kind: Kind, directory: int, temporary: str, key: str, size: int) -> Outcome:
        name, sidecar = key + ENTRY_SUFFIX, key + SIDECAR_SUFFIX
        if self.max_bytes is not None:
            return self._publish_bounded(kind, directory, temporary, key, size)
        files.write_recency(sidecar, clock.now_ns(), directory=directory)
        if not self._give_name(kind, directory, temporary, name):
            return Outcome.PRESENT
        if not is_there(sidecar, directory):  # a bounded process has evicted another entry of this key in between
            files.write_recency(sidecar, clock.now_ns(), directory=directory)
        return Outcome.STORED

    def _publish_bounded(self, kind: Kind, directory: int, temporary: str, key: str, size: int) -> Outcome:
        """Make room and publish, in as many holds of the lock as that takes."""
        occupancy = self._occupancy_of(kind)
        while True:
            occupancy.refresh()  # which may take long, and needs no lock
            with self._locked(kind):
                end = clock.monotonic() + HOLD_S
                try:
                    outcome = self._publish_locked(kind, occupancy, directory, temporary, key, size, end)
                except BaseException:
                    occupancy.forget()
                    raise
            if outcome is not None:
                return outcome
            clock.sleep(FREE_S)

    def _publish_locked(
        self, kind: Kind, occupancy: Occupancy, directory: int, temporary: str, key: str, size: int, end: float
    ) -> Outcome | None:
        """Publish in one hold of the lock, which ends at a time; return None if there is more to do."""
        if is_there(key + ENTRY_SUFFIX, directory):
            return Outcome.PRESENT
        occupancy.refresh()
        undisturbed = occupancy.undisturbed
        excess = occupancy.bytes + size - (self.max_bytes or 0)
        if excess > 0 and not self._may_make_room(kind, occupancy, size):
            return Outcome.TOO_LARGE
        outcome = None
        if run_until(chain(occupancy.adopting(), self._evicting(kind, occupancy, size)), end):
            now = clock.now_ns()
            files.write_recency(key + SIDECAR_SUFFIX, now, directory=directory)
            if not self._give_name_locked(directory, temporary, key + ENTRY_SUFFIX):  # without a bound there is no lock
                occupancy.forget()
                return Outcome.PRESENT
            occupancy.added(key, size, now)
            outcome = Outcome.STORED
        if undisturbed:
            occupancy.left_by_us()
        return outcome

    def _give_name(self, kind: Kind, directory: int, temporary: str, name: str) -> bool:
        """Publish a file unless there is one of its name: the digest on record is then always of the file there."""
        try:
            return files.give_name(temporary, name, directory=directory)
        except files.NoLinks:
            with self._locked(kind):
                return self._give_name_locked(directory, temporary, name)

    def _give_name_locked(self, directory: int, temporary: str, name: str) -> bool:
        """Publish a file as `_give_name` does, with the lock held."""
        try:
            return files.give_name(temporary, name, directory=directory)
        except files.NoLinks:
            if is_there(name, directory):
                return False
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            return True

    def _occupancy_of(self, kind: Kind) -> Occupancy:
        from jcache.store.lru_index import Occupancy

        if kind not in self._occupancy:
            self._occupancy[kind] = Occupancy(self.root, kind, self._quick)
        return self._occupancy[kind]

    def _may_make_room(self, kind: Kind, occupancy: Occupancy, size: int) -> bool:
        """Return whether entries may go for one of some size; none may if the pinned ones leave no room.

        Raises:
            LedgerUnavailable: what is pinned is not known.
        """
        self._pinned = self._pins_under_lock()
        return occupancy.of({key for of, key in self._pinned if of is kind}) + size <= (self.max_bytes or 0)

    def _pins_under_lock(self) -> set[tuple[Kind, str]]:
        try:
            return Pins(self.root, self._quick).known(sure=True)
        except LedgerUnavailable as error:
            if error.lost or self._pinned is None:
                raise
            return self._pinned  # the ledger is busy

    def _evicting(self, kind: Kind, occupancy: Occupancy, size: int) -> Iterator[None]:
        """Evict what must go for an entry of some size, a step each."""
        bound = self.max_bytes or 0
        if occupancy.bytes + size <= bound:
            return
        from jcache.store.removal import unlink

        pinned = {key for of, key in self._pinned or () if of is kind}
        victims = deque(occupancy.victims(bound, size, pinned))
        try:
            with Directories(self.root) as directories:
                while victims:
                    entry = victims.popleft()
                    unlink(self.root, entry, directories)
                    occupancy.removed(entry.key)
                    self._unlearn(kind, entry.key)
                    yield
        finally:
            occupancy.spare(victims)

    def touch(self, kind: Kind, keys: Iterable[str], time_ns: int) -> int:
        """Mark entries as used at a time, as far as possible; return how many were."""
        touched = 0
        if not self.root.layout.has_sidecars:
            return touched
        with Directories(self.root) as directories:
            for key in keys:
                with suppress(OSError):
                    directory = directories.descriptor(self.root.directory(kind))
                    if stat.S_ISREG(os.lstat(key + ENTRY_SUFFIX, dir_fd=directory).st_mode):
                        sidecar = key + SIDECAR_SUFFIX
                        if (files.read_recency(sidecar, directory=directory) or 0) < time_ns:
                            files.write_recency(sidecar, time_ns, directory=directory)
                        touched += 1
        return touched


def header_at(path: str | Path) -> EnvelopeHeader:
    """Return the header of a trace or graph, without reading its payload.

    Raises:
        DamagedEntry: the file does not begin with a whole, unchanged header.
        OSError: it cannot be read.
    """
    from jcache.formats.envelope import MAX_HEADER, header_length, read_header
    from jcache.formats.executable import HEAD_BYTES

    head = files.read(path, HEAD_BYTES)
    if HEAD_BYTES < (length := header_length(head)) <= MAX_HEADER + HEAD_BYTES:
        head = files.read(path, length)
    return read_header(head)


def _with_known(entry: Entry, known: Known | None, pinned: set[str] | None) -> Entry:
    seconds = entry.seconds if known is None else known.seconds
    return entry._replace(seconds=seconds, pinned=None if pinned is None else entry.key in pinned)
