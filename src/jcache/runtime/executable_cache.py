"""The cache that jcache installs in JAX: ``get``, ``put``, ``clear`` and ``_path``, on the command line's store.

    get    looks in the root, in the read-only roots in order, then in the store; takes no lock; returns verified bytes
           (`jcache.runtime.verified_read`); moves a damaged entry to quarantine, and JAX compiles and puts it again
    put    is atomic, never replaces an entry, and evicts under a bound without reading the directory
           (`jcache.store.store`)

The cache may fail, the program may not: a failed read is a miss, a failed write stores nothing, and each reason gives
one warning. Under ``jax_raise_persistent_cache_errors`` such a failure raises an error instead of the warning, and so
does damage, as in JAX. This module does not import JAX.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from jcache.errors import CannotWrite, DamagedEntry, InvalidValue, JcacheError
from jcache.forking import TellInChild
from jcache.frozen import Frozen
from jcache.jax_internals import speculation
from jcache.layout import Root
from jcache.runtime.events import CacheEvent, EventKind, Refusal, refusal_of
from jcache.runtime.program_store import ProgramStore
from jcache.runtime.threads_ledger import ThreadsLedger
from jcache.runtime.verified_read import EXECUTABLES, VerifiedEntry, VerifiedReader, build_seconds
from jcache.runtime.warn import WarnOnce, warn_outside
from jcache.runtime.write_queue import WriteQueue
from jcache.store.cache_rules import JCACHE_RULES, CacheRules
from jcache.store.locking import DEFAULT_TIMEOUT
from jcache.store.put_result import Outcome
from jcache.store.remote_entries import RemoteEntries

if TYPE_CHECKING:
    from jcache.findings import Finding

GetPlatforms = Callable[[], frozenset[str] | None]


class ExecutableCache:
    """JAX's persistent compilation cache over a jcache root.

    Args:
        root: the root that is read and written.
        max_size: bound of the executables' total size in bytes, as ``jax_compilation_cache_max_size``: -1 for no bound,
            0 to store nothing; or a function that returns the bound, called at each put.
        read_only: roots that are read in this order if the root has no entry, and never written.
        copy_on_hit: whether an entry that a read-only root serves is stored in the root.
        may_write: whether this process stores entries; a function is called at each put.
        warn: receives a sentence on each failure.
        on_event: receives each hit, miss, put and damage, in the thread where it happens.
        lock_timeout: seconds that a put waits for the directory's lock.
        path_keys: keys of JAX alone that depend on a directory's path, each with the key under which it is copied.
        raises: returns whether failures and damage raise an error, as ``jax_raise_persistent_cache_errors`` demands.
        known_refusals: refusals of the root that the user knows of already.
        platforms: returns JAX's platforms in this process; None if they are not known.
        rules: the rules of the cache.
        remote: the store that is asked last, and whose entries are kept in the root; None for none.

    Raises:
        InvalidValue: ``max_size`` is below what the rules allow.
    """

    def __init__(
        self,
        root: Root,
        *,
        max_size: int | Callable[[], int] = -1,
        read_only: Sequence[Root] = (),
        copy_on_hit: bool = False,
        may_write: Callable[[], bool] | bool = True,
        warn: Callable[[str], None] = warn_outside,
        on_event: Callable[[CacheEvent], None] | None = None,
        lock_timeout: float = DEFAULT_TIMEOUT,
        path_keys: Mapping[str, str] = Frozen({}),
        raises: Callable[[], bool] = lambda: False,
        known_refusals: Collection[Refusal] = (),
        platforms: GetPlatforms = lambda: None,
        rules: CacheRules = JCACHE_RULES,
        remote: RemoteEntries | None = None,
    ) -> None:
        self._get_bound = max_size if callable(max_size) else None
        max_size = max_size() if callable(max_size) else max_size
        if rules.least_size is not None and max_size < rules.least_size:
            raise InvalidValue(f"{max_size} is no bound: give bytes, 0 to store nothing, or -1 for no bound.")
        self.root = root
        self.path = self._path = root.directory(EXECUTABLES)
        self.max_size = max_size
        self.eviction_enabled = max_size != -1
        self._copy_on_hit, self._may_write, self._path_keys = copy_on_hit, may_write, path_keys
        self._warn, self._on_event, self._raises = warn, on_event, raises
        self._name = rules.stored_as
        self._remote = remote
        self._warn_once = WarnOnce(warn, {(refusal, root.path) for refusal in known_refusals})
        max_bytes = max_size if self.eviction_enabled else None
        make = partial(ProgramStore, root, max_bytes=max_bytes, lock_timeout=lock_timeout, rules=rules)
        self._open(make, read_only, platforms)

    def _open(self, make: Callable[[], ProgramStore], read_only: Sequence[Root], platforms: GetPlatforms) -> None:
        """Open the root for reading and writing, and the read-only roots for reading.

        `make`, which makes the store, must not refer to this object: then it is closed with its last reference.
        """
        self._queue = queue = WriteQueue(make, EXECUTABLES)
        self._reader = VerifiedReader(self.root, queue.store.threads_ledger, queue.learn, platforms)
        ledgers = [ThreadsLedger(other.ledger) for other in read_only]
        self._shared = [
            (other, VerifiedReader(other, ledger, None, platforms))
            for other, ledger in zip(read_only, ledgers, strict=True)
        ]
        self._close = partial(_close, queue, ledgers)
        weakref.finalize(self, self._close)
        _CACHES.add(self)

    def get(self, key: str) -> bytes | None:
        """Return the verified bytes of an executable, None if there is none.

        Raises:
            ValueError: the key is empty.
            DamagedEntry, OSError: the entry is damaged or cannot be read, and `raises` returns True.
        """
        if not key:
            raise ValueError("key cannot be empty")
        name = self._name(key)
        found = self._read(self._reader, self.root, key, name)
        if isinstance(found, VerifiedEntry):
            speculation.run_or_defer(partial(self._served, key, name, found))
            return found.data
        if speculation.is_deferring():
            return None
        if found is not None:
            self._remove_damaged(key, name, found)
        for other, reader in self._shared:
            found = self._read(reader, other, key, name)
            if isinstance(found, VerifiedEntry):
                return self._hit_shared(key, found, is_kept=self._copy_on_hit)
            if found is not None:
                self._emit(CacheEvent(EventKind.DAMAGED, key, detail=found.damage, shared=True))
                self._fail("damaged", other, f"{found.key} in {found.path.parent} is damaged: {found.evidence}")
        if self._remote is not None and (fetched := self._remote.get(EXECUTABLES, name)) is not None:
            return self._hit_shared(key, VerifiedEntry(*fetched), is_kept=True)
        self._emit(CacheEvent(EventKind.MISS, key))
        return None

    def put(self, key: str, value: bytes) -> None:
        """Store an executable, unless there is one of this key.

        Raises:
            ValueError: the key is empty.
            OSError, JcacheError: the entry could not be stored, and `raises` returns True.
        """
        if not key:
            raise ValueError("key cannot be empty")
        if not self._is_writer():
            self._refuse(key, Refusal.NOT_ALLOWED)
            return
        self._follow_bound()
        origin = "seen" if key in self._path_keys else "program"  # as of JAX's own where the key depends on a path
        name, seconds = self._name(key), build_seconds(value)
        if self._remote is not None and key not in self._path_keys:
            self._remote.offer(EXECUTABLES, name, value, seconds)
        self._put(key, name, value, seconds, origin)

    def clear(self) -> None:
        """Remove all executables of the root; warn on failure."""
        self._reader.forget_all()
        try:
            self._queue.clear()
        except (OSError, JcacheError) as error:
            self._warn_once(("clear", self.root.path), f"jcache cannot clear {self.path}: {error}")

    def __len__(self) -> int:
        """Return the number of executables in the root."""
        try:
            return self._queue.count()
        except (OSError, JcacheError):
            return 0

    def __bool__(self) -> bool:
        return True

    def prepare(self) -> None:
        """Open the ledgers now, so that the first look-up need not wait for them."""
        for reader in (self._reader, *(reader for _, reader in self._shared)):
            reader.prepare()

    def flush(self) -> None:
        """Write all pending records to the ledger; a failure is ignored."""
        self._queue.flush()

    def close(self) -> None:
        """Flush, and close the connections of this thread; the cache remains usable."""
        self._close()

    def _is_writer(self) -> bool:
        return self._may_write() if callable(self._may_write) else self._may_write

    def _read(self, reader: VerifiedReader, root: Root, key: str, name: str) -> VerifiedEntry | Finding | None:
        try:
            return reader.get(name)
        except OSError as error:
            if self._raises():
                raise
            place, reason = root.directory(EXECUTABLES), error.strerror or error
            self._warn_once(("read", root.path), f"jcache cannot read {name} in {place}: {reason}.")
            return None

    def _served(self, key: str, name: str, found: VerifiedEntry) -> None:
        if self._is_writer():
            self._queue.mark_used(name)
        self._hit(key, found, shared=False)

    def _hit_shared(self, key: str, found: VerifiedEntry, *, is_kept: bool) -> bytes:
        if is_kept and self._is_writer() and not -1 < self.max_size < len(found.data):
            own = self._path_keys.get(key, key)
            self._put(own, self._name(own), found.data, found.seconds, "copy")
        return self._hit(key, found, shared=True)

    def _hit(self, key: str, found: VerifiedEntry, *, shared: bool) -> bytes:
        self._emit(CacheEvent(EventKind.HIT, key, len(found.data), found.seconds, shared=shared))
        return found.data

    def _remove_damaged(self, key: str, name: str, finding: Finding) -> None:
        self._emit(CacheEvent(EventKind.DAMAGED, key, detail=finding.damage))
        about = f"{name} in {self.path} was damaged ({finding.evidence.rstrip('.')})"
        reason, text = "damaged", f"{about}: it is in quarantine now, and will be compiled again."
        try:
            if not self._is_writer():
                raise CannotWrite("this process only reads.")
            if not self._queue.quarantine(finding):
                return
            self._reader.forget(name)
        except (OSError, JcacheError) as error:
            reason, text = "quarantine", f"{about}, and stays there: {error}"
        self._fail(reason, self.root, text)

    def _put(self, key: str, name: str, value: bytes, seconds: float | None, origin: str) -> None:
        try:
            outcome, known = self._queue.put(name, value, seconds=seconds, origin=origin)
        except (OSError, JcacheError) as error:
            refusal = refusal_of(error)
            self._refuse(key, refusal)
            if self._raises():
                raise
            self._warn_once((refusal, self.root.path), f"jcache cannot store {key}: {error}")
            return
        if known is not None:
            self._reader.remember(known)
        if outcome is Outcome.TOO_LARGE:
            self._too_large(key, len(value))
        else:
            kind = EventKind.STORED if outcome is Outcome.STORED else EventKind.PRESENT
            self._emit(CacheEvent(kind, key, len(value)))

    def _follow_bound(self) -> None:
        """Apply the bound that holds now."""
        if self._get_bound is not None and (bound := self._get_bound()) != self.max_size:
            self.max_size, self.eviction_enabled = bound, bound != -1
            self._queue.set_bound(bound if self.eviction_enabled else None)

    def _too_large(self, key: str, size: int) -> None:
        if size > self.max_size:
            self._refuse(key, Refusal.TOO_LARGE)
            self._warn(  # in JAX's words, and for each entry as in JAX
                f"Cache value for key {key!r} of size {size} bytes exceeds the maximum cache size of {self.max_size} "
                "bytes"
            )
            return
        self._refuse(key, Refusal.PINNED)
        pinned = f"The pinned entries in {self.path} leave no room for {key} under a bound of {self.max_size} bytes"
        self._warn_once((Refusal.PINNED, self.root.path), f"{pinned}: raise the bound, or unpin some of them.")

    def _refuse(self, key: str, refusal: Refusal) -> None:
        self._emit(CacheEvent(EventKind.REFUSED, key, detail=refusal))

    def _emit(self, event: CacheEvent) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _fail(self, reason: str, root: Root, text: str) -> None:
        """Warn of damage, or raise an error if the program wants errors."""
        if self._raises():
            raise DamagedEntry(text)
        self._warn_once((reason, root.path), text)

    def _after_fork(self) -> None:
        self._reader.change_ledger(self._queue.store.threads_ledger)


_CACHES: Final = TellInChild(ExecutableCache._after_fork)


def _close(queue: WriteQueue, ledgers: Sequence[ThreadsLedger]) -> None:
    queue.close()
    for ledger in ledgers:
        ledger.close()
