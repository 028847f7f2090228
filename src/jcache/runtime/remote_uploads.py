"""Entries on their way to a store: a bounded queue, and threads that live while there is something in it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final, NamedTuple

from jcache import clock
from jcache.errors import JcacheError, RemoteDenied
from jcache.jax_internals.gc_pause import collector, start_thread
from jcache.layout import Kind
from jcache.remote.client import Remote
from jcache.remote.usage import RemoteId, record_uses
from jcache.runtime.circuit_breaker import CircuitBreaker
from jcache.runtime.remote_claims import Claims

_MAX_ENTRIES: Final = 1000
_MAX_BYTES: Final = 256 << 20
_MAX_THREADS: Final = 4


class Upload(NamedTuple):
    """An entry to be stored.

    Attributes:
        kind, namespace, key: the entry.
        data: its bytes.
        seconds: what building it took; None if that is not known.
        replaces: whether the one that is there was found damaged.
        claim: this process's claim on it.
    """

    kind: Kind
    namespace: str
    key: str
    data: bytes
    seconds: float | None
    replaces: bool
    claim: ReleasedClaim | None = None

    def send(self, remote: Remote) -> None:
        """Store it; raise as `Remote.put`."""
        entry = self.kind, self.namespace, self.key
        remote.put(*entry, self.data, seconds=self.seconds, replace=self.replaces)

    def end(self) -> None:
        """Note that it has been stored or never will be."""
        if self.claim is not None:
            self.claim.end()


class ReleasedClaim(NamedTuple):
    """A claim to be removed; `is_stored` is true if its entry is in the store."""

    claims: Claims
    name: str
    is_stored: bool = True
    data: bytes = b""

    def send(self, remote: Remote) -> None:
        """Remove it; raise as `Claims.release`."""
        del remote
        self.claims.release(self.name, is_stored=self.is_stored)

    def end(self) -> None:
        """Note that it has been removed or never will be."""
        self.claims.forget(self.name)


class Uses(NamedTuple):
    """Entries that a program has got from the store, of which `jcache prune --root URL` is to know."""

    entries: frozenset[RemoteId]
    data: bytes = b""

    def send(self, remote: Remote) -> None:
        """Store a batch of uses; raise as `record_uses`."""
        record_uses(remote, self.entries)

    def end(self) -> None:
        """Note that it has been stored or never will be."""


Job = Upload | ReleasedClaim | Uses


class Trouble:
    """The first trouble with a store, which any thread notes and the thread of the program tells.

    Attributes:
        text: the sentences about it; None if there was none.
    """

    text: str | None = None

    def note(self, text: str) -> None:
        """Note some trouble, unless there was some before."""
        self.text = self.text or text


class Uploads:
    """Stores entries in the background; several threads may use it.

    Args:
        remote: the store.
        breaker: counts the store's failures.
        on_trouble: receives why entries are not stored, in the thread that uploads.
    """

    def __init__(self, remote: Remote, breaker: CircuitBreaker, on_trouble: Callable[[str], object]) -> None:
        self._remote = remote
        self._breaker = breaker
        self._on_trouble = on_trouble
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._bytes = 0  # of what waits or is under way
        self._threads = 0
        self._is_denied = False

    def offer(self, upload: Job) -> bool:
        """Store an entry some time; return False if it never will be, since too many wait or the store fails."""
        is_taken = self._take(upload)
        if not is_taken:
            upload.end()
        return is_taken

    def _take(self, upload: Job) -> bool:
        size = len(upload.data)
        with self._changed:
            is_full = len(self._waiting) >= _MAX_ENTRIES or self._bytes + size > _MAX_BYTES
            if is_full or self._is_denied or self._breaker.is_open:
                return False
            self._waiting.append(upload)
            self._bytes += size
            if self._threads < _MAX_THREADS:
                try:
                    start_thread(self._work)
                except RuntimeError:  # the interpreter is ending, or there are no threads left
                    if not self._threads:
                        self._drop()
                        return False
                else:
                    self._threads += 1
        return True

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is stored or given up; return False if that takes longer than allowed."""
        end = clock.monotonic() + timeout_s
        with self._changed:
            while self._threads:
                left = end - clock.monotonic()
                if left <= 0:
                    self._drop()
                    return False
                self._changed.wait(left)
        return True

    def _work(self) -> None:
        while (upload := self._next()) is not None:
            try:
                self._store(upload)
            finally:
                upload.end()
                with self._changed:
                    self._bytes -= len(upload.data)

    def _next(self) -> Job | None:
        """Return the next entry; end the thread if there is none."""
        with self._changed:
            if self._waiting and not self._breaker.allows():
                self._drop()
            if self._waiting:
                return self._waiting.popleft()
            self._threads -= 1
            self._changed.notify_all()
            return None

    def _store(self, upload: Job) -> None:
        try:
            # obstore makes no objects of Python's while it sends, so that a collection would not run in this thread
            is_quick = self._remote.address.is_web or isinstance(upload, ReleasedClaim)
            with nullcontext() if is_quick else collector.resumes():
                upload.send(self._remote)
            if isinstance(upload, Upload) and upload.claim is not None:
                upload.claim.send(self._remote)
        except RemoteDenied as error:
            with self._changed:
                self._is_denied = True
                self._drop()
            self._on_trouble(f"{error} This program stores nothing there.")
        except JcacheError as error:
            self._breaker.failed()
            if self._breaker.is_open:
                self._on_trouble(f"{error} The program goes on without the store.")
        except Exception as error:  # noqa: BLE001  whatever it is, the program goes on
            self._breaker.open()
            self._on_trouble(f"Uploading to {self._remote} failed ({type(error).__name__}). The program goes on.")
        else:
            self._breaker.succeeded()

    def _drop(self) -> None:
        """Give up what waits."""
        self._bytes -= sum(len(upload.data) for upload in self._waiting)
        for upload in self._waiting:
            upload.end()
        self._waiting.clear()
