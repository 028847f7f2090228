"""The store of a root: its entries, and the parts that find, write and maintain them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jcache import clock
from jcache.layout import ENTRY_SUFFIX, SIDECAR_SUFFIX, Kind, Root, check_key
from jcache.store import files
from jcache.store.access_times import note_moved
from jcache.store.cache_rules import JCACHE_RULES, CacheRules
from jcache.store.catalog import Catalog
from jcache.store.directories import Directories, opened
from jcache.store.evictor import BUSY_TIMEOUT_S, Evictor
from jcache.store.ledger import Ledger
from jcache.store.ledger_queue import LedgerQueue
from jcache.store.locking import DEFAULT_TIMEOUT, RootLocks
from jcache.store.put_result import Outcome
from jcache.store.sidecar import read_recency, write_recency

if TYPE_CHECKING:  # and imported where they are used: a program that only hits needs none of them
    from jcache.formats.envelope import EnvelopeHeader
    from jcache.store.entry_writer import EntryWriter
    from jcache.store.maintenance import Maintenance


class Store:
    """Reads and writes the entries of a root.

    Args:
        root: the root.
        max_bytes: bound of each kind's entries together, as ``jax_compilation_cache_max_size``; None for no bound.
        lock_timeout: seconds to wait for a directory's lock.
        lock_retry: seconds to wait for a lock while one has timed out lately; None for `lock_timeout`.
        waiting: is told, as a sentence, whom we wait for.
        ledger: the root's ledger, if it is not to be an ordinary one.
        quick_ledger: the same with a short wait for other writers, for what is asked while a lock is held.
        rules: the rules of the cache.

    Attributes:
        root: the root.
        locks: the locks on its entries.
        queue: the records that wait to be written to the ledger.
        catalog: lists entries.
        entries, listing, path: methods of the catalog.
        writer: writes entries.
        ledger: what is known of the root's entries.
        pins: what must stay.
        notices: what went wrong with the ledger and was gone on without, as sentences.
    """

    def __init__(
        self,
        root: Root,
        *,
        max_bytes: int | None = None,
        lock_timeout: float = DEFAULT_TIMEOUT,
        lock_retry: float | None = None,
        waiting: Callable[[str], None] | None = None,
        ledger: Ledger | None = None,
        quick_ledger: Ledger | None = None,
        rules: CacheRules = JCACHE_RULES,
    ) -> None:
        self.root = root
        bounded = max_bytes is not None
        self.locks = RootLocks(root, timeout=lock_timeout, waiting=waiting, bounded=bounded, retry=lock_retry)
        self.queue = LedgerQueue(root, ledger or Ledger(root.ledger, outside=root.state_path is not None))
        self.ledger, self.pins, self.notices = self.queue.ledger, self.queue.pins, self.queue.notices
        catalog = self.catalog = Catalog(root, self.queue, rules)
        self.entries, self.listing, self.path = catalog.entries, catalog.listing, catalog.path
        quick_ledger = quick_ledger or Ledger(root.ledger, busy_timeout=BUSY_TIMEOUT_S)
        self._evictor = Evictor(root, max_bytes, self.queue, quick_ledger, rules)
        self._rules = rules

    @cached_property
    def writer(self) -> EntryWriter:
        """Writes entries."""
        from jcache.store.entry_writer import EntryWriter

        return EntryWriter(self.root, self.locks, self.queue, self._evictor, rules=self._rules)

    @cached_property
    def maintenance(self) -> Maintenance:
        """Removes, restores and repairs entries."""
        from jcache.store.maintenance import Maintenance

        return Maintenance(self.root, self.locks, self.queue, self.catalog)

    @property
    def writes_recency(self) -> bool:
        """Whether an entry gets a sidecar."""
        return self._rules.always_recency or self.max_bytes is not None

    @property
    def max_bytes(self) -> int | None:
        """Bound of each kind's entries together; None for no bound."""
        return self._evictor.max_bytes

    @max_bytes.setter
    def max_bytes(self, value: int | None) -> None:
        self._evictor.max_bytes = value
        self.locks.bounded = value is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what has been learnt to the ledger, if it can be written, and close it."""
        self.queue.flush()
        self.ledger.close()
        if (notice := note_moved(self.root)) is not None:
            self.queue.notice(notice)
        self._evictor.close()

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
                    write_recency(key + SIDECAR_SUFFIX, clock.now_ns(), directory=directory)
        except FileNotFoundError:
            return None
        return data

    def put(self, kind: Kind, key: str, data: bytes, *, seconds: float | None = None, origin: str = "put") -> Outcome:
        """Store an entry unless its key is there already; arguments and errors are those of `EntryWriter.put`."""
        return self.writer.put(kind, key, data, seconds=seconds, origin=origin).outcome

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
                        if (read_recency(sidecar, directory=directory) or 0) < time_ns:
                            write_recency(sidecar, time_ns, directory=directory)
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
