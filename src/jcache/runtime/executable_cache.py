"""The cache that JAX is given: ``get``, ``put``, ``clear`` and ``_path``, over the same store as the command line's.

    get    the first root, then the read-only ones in order; no lock; not a byte passes that is damaged
    (`jcache.runtime.verified_read`);
           what is damaged goes to quarantine, and JAX compiles it anew and puts it in the same call
    put    atomic, never over what is there, evicting under a bound without reading the directory (`jcache.store.store`)

The cache may fail, the program may not: whatever cannot be read is a miss, whatever cannot be written is let be, and
one warning says so for each reason. Under ``jax_raise_persistent_cache_errors`` such a failure is an
error in place of the warning, and so is damage, as in JAX. JAX itself is not imported here.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from jcache.errors import CannotWrite, DamagedEntry, InvalidValue, JcacheError
from jcache.forking import TellInChild
from jcache.frozen import Frozen
from jcache.jax_internals import speculation
from jcache.layout import Root, storable
from jcache.runtime.events import Event, Refusal, What, refusal_of
from jcache.runtime.program_store import Desk, ProgramStore, ThreadsLedger
from jcache.runtime.verified_read import EXECUTABLES, Gate, Sound, build_seconds
from jcache.runtime.warn import warn
from jcache.store.locking import DEFAULT_TIMEOUT
from jcache.store.store import Outcome

if TYPE_CHECKING:
    from jcache.findings import Finding


def _warn(text: str) -> None:
    warn(text, stacklevel=4)


class ExecutableCache:
    """JAX's persistent compilation cache over a jcache root.

    Args:
        root: is read and written.
        max_size: bound of its executables' bytes together, as ``jax_compilation_cache_max_size``: -1 for none, 0 to
            store nothing; or a function that is asked for it at each put.
        read_only: are read in this order where the root has no entry, and never written.
        copy_on_hit: whether what a read-only root serves is stored in the root.
        may_write: whether this process stores anything; asked at each put.
        warn: is told, as a sentence, what went wrong and the program goes on without.
        on_event: is told of each hit, miss, put and damage, in the thread where it happens.
        lock_timeout: seconds that a put waits for the directory's lock.
        path_keys: keys that depend on a directory's path, of entries that JAX has stored by itself, and for each the
            key that does not, under which it is copied.
        raises: returns whether damage, and what cannot be read or stored, is raised in place of a warning, as
            ``jax_raise_persistent_cache_errors`` asks for.
        told: what whoever is warned knows already, of the root.
        platforms: tells which ones JAX has here; None where nobody knows.
        always_recency: whether use is written down without a bound, too, so that `jcache prune` knows of it.

    Raises:
        InvalidValue: ``max_size`` is below -1.
    """

    _store: ClassVar[type[ProgramStore]] = ProgramStore
    _least_bound: ClassVar[int | None] = -1

    def __init__(
        self,
        root: Root,
        *,
        max_size: int | Callable[[], int] = -1,
        read_only: Sequence[Root] = (),
        copy_on_hit: bool = False,
        may_write: Callable[[], bool] | bool = True,
        warn: Callable[[str], None] = _warn,
        on_event: Callable[[Event], None] | None = None,
        lock_timeout: float = DEFAULT_TIMEOUT,
        always_recency: bool = True,
        path_keys: Mapping[str, str] = Frozen({}),
        raises: Callable[[], bool] = lambda: False,
        told: Collection[Refusal] = (),
        platforms: Callable[[], frozenset[str] | None] = lambda: None,
    ) -> None:
        self._ask_bound = max_size if callable(max_size) else None
        max_size = max_size() if callable(max_size) else max_size
        if self._least_bound is not None and max_size < self._least_bound:
            raise InvalidValue(f"{max_size} is no bound: give bytes, 0 to store nothing, or -1 for no bound.")
        self.root = root
        self.path = self._path = root.directory(EXECUTABLES)
        self.max_size = max_size
        self.eviction_enabled = max_size != -1
        self._copy_on_hit = copy_on_hit
        self._may_write = may_write
        self._warn = warn
        self._on_event = on_event
        self._path_keys = path_keys
        self._raises = raises
        self._warned: set[tuple[str, str]] = {(refusal, str(root.path)) for refusal in told}
        bound = max_size if self.eviction_enabled else None
        make = partial(  # holds on to nothing of ours, so that the end of the last reference to us is the end
            self._store, root, max_bytes=bound, lock_timeout=lock_timeout, always_recency=always_recency
        )
        self._desk = desk = Desk(make, EXECUTABLES)
        self._gate = Gate(root, desk.store.threads_ledger, desk.learn, platforms)
        ledgers = [ThreadsLedger(other.ledger) for other in read_only]
        self._shared = [
            (other, Gate(other, ledger, None, platforms)) for other, ledger in zip(read_only, ledgers, strict=True)
        ]
        self._close = partial(_close, desk, ledgers)
        weakref.finalize(self, self._close)
        _CACHES.add(self)

    # -- what JAX calls

    def get(self, key: str) -> bytes | None:
        """The stored bytes of an executable, None if there is none that may be served.

        Raises:
            ValueError: the key is empty.
            DamagedEntry, OSError: where `raises` says so, what cannot be served.
        """
        if not key:
            raise ValueError("key cannot be empty")
        name = self._name(key)
        found = self._look(self._gate, self.root, key, name)
        if isinstance(found, Sound):
            speculation.run_or_defer(partial(self._served, key, name, found))
            return found.data
        if speculation.is_deferring():
            return None
        if found is not None:
            self._remove_damaged(key, name, found)
        for other, gate in self._shared:
            found = self._look(gate, other, key, name)
            if isinstance(found, Sound):
                if self._copy_on_hit and self._writes():
                    own = self._path_keys.get(key, key)
                    self._put(own, self._name(own), found.data, found.seconds, "copy")
                return self._hit(key, found, shared=True)
            if found is not None:
                self._tell(Event(What.DAMAGED, key, detail=found.damage, shared=True))
                self._fail("damaged", other, f"{found.key} in {found.path.parent} is damaged: {found.evidence}")
        self._tell(Event(What.MISS, key))
        return None

    def put(self, key: str, value: bytes) -> None:
        """Stores an executable unless there is one of its key.

        Raises:
            ValueError: the key is empty.
        """
        if not key:
            raise ValueError("key cannot be empty")
        if not self._writes():
            self._refuse(key, Refusal.NOT_ALLOWED)
            return
        self._follow_bound()
        origin = "seen" if key in self._path_keys else "program"  # as of JAX's own where the key depends on a path
        self._put(key, self._name(key), value, build_seconds(value), origin)

    def clear(self) -> None:
        """Removes all executables of the root, softly."""
        self._gate.forget_all()
        try:
            self._desk.clear()
        except (OSError, JcacheError) as error:
            self._warn_once("clear", self.root, f"jcache cannot clear {self.path}: {error}")

    def __len__(self) -> int:
        """How many executables the root has."""
        try:
            return self._desk.count()
        except (OSError, JcacheError):
            return 0

    def __bool__(self) -> bool:
        return True

    # -- what programs ask

    def prepare(self) -> None:
        """Opens the ledgers now, so that the first lookup need not wait for them."""
        for gate in (self._gate, *(gate for _, gate in self._shared)):
            gate.prepare()

    def flush(self) -> None:
        """Writes what has been learnt to the ledger, softly, as happens every so often and at exit."""
        self._desk.flush()

    def close(self) -> None:
        """Flushes, and closes what this thread has open; the cache can be used on."""
        self._close()

    # -- inside

    def _name(self, key: str) -> str:
        return storable(key)

    def _writes(self) -> bool:
        return self._may_write() if callable(self._may_write) else self._may_write

    def _look(self, gate: Gate, root: Root, key: str, name: str) -> Sound | Finding | None:
        try:
            return gate.get(name)
        except OSError as error:
            if self._raises():
                raise
            reason = error.strerror or str(error)
            self._warn_once("read", root, f"jcache cannot read {name} in {root.directory(EXECUTABLES)}: {reason}.")
            return None

    def _served(self, key: str, name: str, found: Sound) -> None:
        if self._writes():
            self._desk.used(name)
        self._hit(key, found, shared=False)

    def _hit(self, key: str, found: Sound, *, shared: bool) -> bytes:
        self._tell(Event(What.HIT, key, len(found.data), found.seconds, shared=shared))
        return found.data

    def _remove_damaged(self, key: str, name: str, finding: Finding) -> None:
        self._tell(Event(What.DAMAGED, key, detail=finding.damage))
        about = f"{name} in {self.path} was damaged ({finding.evidence.rstrip('.')})"
        reason, text = "damaged", f"{about}: it is in quarantine now, and is compiled anew."
        try:
            if not self._writes():
                raise CannotWrite("this process only reads.")
            if not self._desk.quarantine(finding):
                return
            self._gate.forget(name)
        except (OSError, JcacheError) as error:
            reason, text = "quarantine", f"{about}, and stays there: {error}"
        self._fail(reason, self.root, text)

    def _put(self, key: str, name: str, value: bytes, seconds: float | None, origin: str) -> None:
        try:
            outcome, known = self._desk.put(name, value, seconds=seconds, origin=origin)
        except (OSError, JcacheError) as error:
            refusal = refusal_of(error)
            self._refuse(key, refusal)
            if self._raises():
                raise
            self._warn_once(refusal, self.root, f"jcache cannot store {key}: {error}")
            return
        if known is not None:
            self._gate.remember(known)
        if outcome is Outcome.TOO_LARGE:
            self._too_large(key, len(value))
        else:
            self._tell(Event(What.STORED if outcome is Outcome.STORED else What.PRESENT, key, len(value)))

    def _follow_bound(self) -> None:
        """Takes the bound that holds now."""
        if self._ask_bound is not None and (bound := self._ask_bound()) != self.max_size:
            self.max_size, self.eviction_enabled = bound, bound != -1
            self._desk.bound(bound if self.eviction_enabled else None)

    def _too_large(self, key: str, size: int) -> None:
        if size > self.max_size:
            self._refuse(key, Refusal.TOO_LARGE)
            self._warn(  # in JAX's words, and for each entry as in JAX
                f"Cache value for key {key!r} of size {size} bytes exceeds the maximum cache size of {self.max_size} "
                "bytes"
            )
            return
        self._refuse(key, Refusal.PINNED)
        pinned = f"What is pinned in {self.path} leaves no room for {key} under a bound of {self.max_size} bytes"
        self._warn_once(Refusal.PINNED, self.root, f"{pinned}: raise the bound, or unpin something.")

    def _refuse(self, key: str, refusal: Refusal) -> None:
        self._tell(Event(What.REFUSED, key, detail=refusal))

    def _tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _fail(self, reason: str, root: Root, text: str) -> None:
        """Says what is damaged, as an error where the program wants errors."""
        if self._raises():
            raise DamagedEntry(text)
        self._warn_once(reason, root, text)

    def _warn_once(self, reason: str, root: Root, text: str) -> None:
        if (reason, str(root.path)) not in self._warned:
            self._warned.add((reason, str(root.path)))
            self._warn(f"{text} (The program goes on; this is said once.)")

    def _after_fork(self) -> None:
        self._gate.change_ledger(self._desk.store.threads_ledger)


_CACHES: Final = TellInChild(ExecutableCache._after_fork)


def _close(desk: Desk, ledgers: Sequence[ThreadsLedger]) -> None:
    desk.close()
    for ledger in ledgers:
        ledger.close()
