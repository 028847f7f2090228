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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jcache import clock, files
from jcache.entry import Entry
from jcache.errors import UnknownKey
from jcache.layout import ENTRY_SUFFIX, LOCK_NAME, SIDECAR_SUFFIX, Kind, Root, check_key, is_key, name_of
from jcache.ledger import Known, Ledger
from jcache.locking import DEFAULT_TIMEOUT
from jcache.upkeep import Upkeep

if TYPE_CHECKING:  # and imported where it is used: `jcache info` does not need it, and is to start fast
    from jcache.occupancy import Occupancy
    from jcache.receiving import Arrival
    from jcache.serialization import EnvelopeHeader

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
        self._pinned: set[tuple[Kind, str]] = set()
        self._quick = Ledger(root.ledger, busy_timeout=_UNDER_LOCK)  # for what is asked under the lock

    def close(self) -> None:
        super().close()
        self._quick.close()

    # -- looking

    def entries(self, kinds: Iterable[Kind] = tuple(Kind), *, legacy: bool = False) -> list[Entry]:
        """The entries of some kinds, with what the ledger knows of them.

        Args:
            kinds: which.
            legacy: whether to count in the entries that only jax <= 0.4.30 reads.
        """
        found: list[Entry] = []
        for kind in kinds:
            listing = self.listing(kind)
            some = [*listing.entries(), *(listing.legacy if legacy else ())]
            found += self.enrich(kind, some)
        return found

    def enrich(self, kind: Kind, entries: Sequence[Entry]) -> list[Entry]:
        """The entries of one kind with seconds and pins, as the ledger knows them."""
        keys = None if len(entries) > 100 else [entry.key for entry in entries]
        known = self.softly(lambda: self.ledger.known(kind, keys)) or {}
        if not known:
            return list(entries)
        return [_with_known(entry, known.get(entry.key)) for entry in entries]

    def find(self, prefix: str) -> Entry:
        """The entry that a key, or an unambiguous beginning of a key or of its hash, stands for.

        Raises:
            UnknownKey: none or several do.
        """
        found: list[Entry] = []
        prefix = self._key_of(prefix)
        for kind in Kind:
            listing = self.listing(kind)
            keys = listing.columns.keys
            found += (listing.entry(i) for i in range(len(listing)) if _answers(keys[i], prefix))
            found += (entry for entry in listing.legacy if _answers(entry.key, prefix))
        exact = [entry for entry in found if entry.key == prefix]
        found = exact if exact else found
        if not found:
            raise UnknownKey(f"No entry of {self.root.path} has the key or prefix '{prefix}': `jcache ls` lists them.")
        if len(found) > 1:
            some = ", ".join(sorted(entry.key for entry in found)[:3])
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            raise UnknownKey(f"'{prefix}' stands for {len(found)} entries: {some}{more}; give more of the key.")
        return self.enrich(found[0].kind, found)[0]

    def _key_of(self, text: str) -> str:
        """The key, where a file's name is given instead."""
        if self.root.adapter is None:
            return text.removesuffix(ENTRY_SUFFIX) if is_key(text.removesuffix(ENTRY_SUFFIX)) else text
        names = (text, *(f"{directory}/{text}" for directory in self.root.adapter.directories))
        return next((known[1] for name in names if (known := self.root.adapter.entry(name)) is not None), text)

    # -- single entries

    def get(self, kind: Kind, key: str) -> bytes | None:
        """The stored bytes of an entry, None if there is none; marks it as used now, where the root can be written.

        Raises:
            InvalidValue: not a key.
            OSError: the file is there but cannot be read.
        """
        path = self.root.directory(kind) / (check_key(key) + ENTRY_SUFFIX)
        try:
            data = files.read(path)
        except FileNotFoundError:
            return None
        with suppress(OSError):  # a read-only root serves hits as well
            files.write_recency(path.with_name(key + SIDECAR_SUFFIX), clock.now_ns())
        return data

    def put(self, kind: Kind, key: str, data: bytes, *, seconds: float | None = None, origin: str = "put") -> Outcome:
        """Stores an entry unless its key is there already.

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
        directory = self.root.directory(kind)
        path = directory / (self._checked(key) + ENTRY_SUFFIX)
        if self.max_bytes is not None and len(data) > self.max_bytes:
            return Outcome.TOO_LARGE
        with files.refusal(f"store {key} in {directory}"):
            if os.path.lexists(path):
                return Outcome.PRESENT
            if not os.path.isdir(directory):
                directory.mkdir(parents=True, exist_ok=True)
            temporary = self._stage(kind, directory, data)
            taken_ns = os.stat(temporary).st_ctime_ns  # by the clock that tells when files are born
            outcome: Outcome | None = None
            try:
                outcome = self._publish(kind, temporary, path, len(data))
            finally:
                if outcome is not Outcome.STORED:
                    temporary.unlink(missing_ok=True)
        if outcome is Outcome.STORED:
            from jcache.digests import digest

            self._learn(Known(kind, key, digest(data), len(data), seconds, origin, digest_ns=taken_ns))
        return outcome

    def receive(self, kind: Kind, arrivals: Sequence[Arrival]) -> None:
        """Publishes entries of one kind and directory that are written already, in a few holds of the lock, if any.

        No entry goes to make room for them. What is known of them is written to the ledger with the next large batch,
        or when the store is closed.

        Raises:
            CannotWrite: the root is read-only or full; those that say so are published.
            Locked: the lock could not be had in time.
        """
        from jcache.receiving import publishing

        replaced = [(kind, arrival.known.key) for arrival in arrivals if arrival.replace]
        self.softly(lambda: self.ledger.discredit(replaced))  # before: we may be killed in between
        directory = self.root.directory(kind)
        steps = publishing(self.root, kind, arrivals)
        with files.refusal(f"store entries in {directory}"):
            try:
                if self.max_bytes is not None or self.root.adapter or os.path.lexists(directory / LOCK_NAME):
                    self.in_batches(kind, steps)
                else:
                    deque(steps, maxlen=0)
            finally:
                self.learn_all(arrival.known for arrival in arrivals if arrival.published)

    def _checked(self, key: str) -> str:
        """A key under which an entry may be put.

        Raises:
            InvalidValue: not a key.
        """
        return check_key(key)

    def _stage(self, kind: Kind, directory: Path, data: bytes) -> Path:
        """Writes the data to a temporary file; that this changes the directory must not make us read it again."""
        if self.max_bytes is None:
            return files.stage(directory, data)
        pins = self.softly(self.ledger.pins)
        self._pinned = self._pinned if pins is None else pins
        with self._locked(kind):
            occupancy = self._occupancy_of(kind)
            undisturbed = occupancy.undisturbed
            temporary = files.create_temporary(directory)
            if undisturbed:
                occupancy.left_by_us()
        files.fill(temporary, data)
        return temporary

    def _publish(self, kind: Kind, temporary: Path, path: Path, size: int) -> Outcome:
        key = path.name.removesuffix(ENTRY_SUFFIX)
        sidecar = path.with_name(key + SIDECAR_SUFFIX)
        if self.max_bytes is None:
            files.write_recency(sidecar, clock.now_ns())
            if not self._give_name(kind, temporary, path):
                return Outcome.PRESENT
            if not os.path.lexists(sidecar):  # a bounded process has evicted another entry of this key in between
                files.write_recency(sidecar, clock.now_ns())
            return Outcome.STORED
        with self._locked(kind):
            if os.path.lexists(path):
                return Outcome.PRESENT
            occupancy = self._occupancy_of(kind)
            occupancy.refresh()
            undisturbed = occupancy.undisturbed
            try:
                if not self._make_room(kind, occupancy, size, self.max_bytes):
                    return Outcome.TOO_LARGE
                now = clock.now_ns()
                files.write_recency(sidecar, now)
                if not self._give_name_locked(temporary, path):  # a process without a bound takes no lock
                    occupancy.forget()
                    return Outcome.PRESENT
            except BaseException:
                occupancy.forget()
                raise
            occupancy.added(key, size, now)
            if undisturbed:
                occupancy.left_by_us()
        return Outcome.STORED

    def _give_name(self, kind: Kind, temporary: Path, path: Path) -> bool:
        """Publishes a file unless there is one of its name: the digest on record is then always of the file there."""
        try:
            return files.give_name(temporary, path)
        except files.NoLinks:
            with self._locked(kind):
                return self._give_name_locked(temporary, path)

    def _give_name_locked(self, temporary: Path, path: Path) -> bool:
        """The same under the lock."""
        try:
            return files.give_name(temporary, path)
        except files.NoLinks:
            if os.path.lexists(path):
                return False
            os.replace(temporary, path)
            return True

    def _occupancy_of(self, kind: Kind) -> Occupancy:
        from jcache.occupancy import Occupancy

        if kind not in self._occupancy:
            self._occupancy[kind] = Occupancy(kind, self.root.directory(kind), self._quick)
        return self._occupancy[kind]

    def _make_room(self, kind: Kind, occupancy: Occupancy, size: int, bound: int) -> bool:
        """Evicts what must go for an entry of some size; False, and nothing goes, if the pinned ones leave no room."""
        if occupancy.bytes + size <= bound:
            return True
        from jcache.removal import unlink

        pinned = {key for of, key in self._pinned if of is kind}
        if occupancy.of(pinned) + size > bound:
            return False
        for entry in occupancy.victims(bound, size, pinned):
            unlink(self.root, entry)
            occupancy.removed(entry.key)
            self._unlearn(kind, entry.key)
        return True

    def touch(self, kind: Kind, keys: Iterable[str], time_ns: int) -> int:
        """Marks entries as used at a time, softly; returns how many could be."""
        touched = 0
        if self.root.adapter is not None:
            return touched
        directory = self.root.directory(kind)
        for key in keys:
            sidecar = directory / (key + SIDECAR_SUFFIX)
            with suppress(OSError):
                if stat.S_ISREG(os.lstat(directory / (key + ENTRY_SUFFIX)).st_mode):
                    if (files.read_recency(sidecar) or 0) < time_ns:
                        files.write_recency(sidecar, time_ns)
                    touched += 1
        return touched


def header_at(path: str | Path) -> EnvelopeHeader:
    """What a trace or graph says about itself, without reading its payload.

    Raises:
        DamagedEntry: the file does not begin with a whole, unchanged header.
        OSError: it cannot be read.
    """
    from jcache.serialization import HEAD_BYTES, MAX_HEADER, header_length, read_header

    head = files.read(path, HEAD_BYTES)
    if HEAD_BYTES < (length := header_length(head)) <= MAX_HEADER + HEAD_BYTES:
        head = files.read(path, length)
    return read_header(head)


def _with_known(entry: Entry, known: Known | None) -> Entry:
    if known is None:
        return entry
    return entry._replace(seconds=known.seconds, pinned=known.pinned_ns is not None)


def _answers(key: str, prefix: str) -> bool:
    """Whether a prefix, which is not empty, begins the key or its hash."""
    return key.startswith(prefix) or key.startswith(prefix, len(name_of(key)) + 1)
