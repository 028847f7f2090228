"""Who compiles what several hosts lack: the first one claims it in the store, and the others wait for its entry.

    v1/claims/<namespace>/<key>    a number of the host, and a count that grows every two seconds while it compiles

A claim is advice. It is removed when the entry is there. Where JAX did not store what it compiled, "not stored" stays
in its place, and nobody waits for that executable again. A text that has not changed for some seconds is nobody's.
Where a server creates without asking whether something is there, two hosts may compile the same.
"""

from __future__ import annotations

import os
import re
import threading
from typing import Final

from jcache.errors import JcacheError
from jcache.jax_internals.gc_pause import start_thread
from jcache.remote.client import Remote
from jcache.remote.names import claim_name

_BEAT_S: Final = 2.0
SILENCE_S: Final = 3 * _BEAT_S
_DONE: Final = b"done"
_NOT_STORED: Final = b"not stored"
_TEXT: Final = re.compile(rb"[0-9a-f]{16} \d{1,9}")


class Claims:
    """The claims of this process; several threads may use it.

    Args:
        remote: the store.
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._holder = os.urandom(8).hex()
        self._count = 0
        self._lock = threading.Lock()
        self._held: dict[str, int] = {}  # names of claims, with the thread that compiles; -1 while the entry is sent
        self._released: dict[str, bool] = {}  # names of claims that were removed, and whether the entry is stored
        self._is_beating = False

    def take(self, namespace: str, key: str, thread: int, *, over: bool = False) -> bool:
        """Claim an executable, if it is worth it; return False if another process has done so. Raise as `Remote.put`.

        Args:
            namespace: its namespace.
            key: its key.
            thread: identifier of the thread that compiles it.
            over: whether the claim that is there is nobody's any more.
        """
        name = claim_name(namespace, key)
        if not self._remote.transport.put(name, self._text(), {}, replace=over):
            found = self._remote.transport.get(name)
            if found is not None and (found.data == _NOT_STORED or _TEXT.fullmatch(found.data)):
                return found.data == _NOT_STORED
            self._remote.transport.put(name, self._text(), {}, replace=True)
        with self._lock:
            self._held[name] = thread
        self._begin_to_beat()
        return True

    def text(self, namespace: str, key: str) -> bytes | None:
        """Return the text of the claim on an executable; None if nobody compiles it. Raise as `Remote.get`."""
        found = self._remote.transport.get(claim_name(namespace, key))
        return None if found is None or not _TEXT.fullmatch(found.data) else found.data

    def begin_to_send(self, namespace: str, key: str) -> str:
        """Keep the claim on an executable while it is uploaded; return the claim's name, empty if there is none."""
        name = claim_name(namespace, key)
        with self._lock:
            if name in self._held:
                self._held[name] = -1
                return name
        return ""

    def of_thread(self) -> list[str]:
        """Return the names of this thread's claims on executables that have been compiled and will not be stored."""
        with self._lock:
            return [name for name, thread in self._held.items() if thread == threading.get_ident()]

    def forget(self, name: str) -> None:
        """Keep a claim no longer: the others see that its text does not change."""
        with self._lock:
            self._held.pop(name, None)

    def release(self, name: str, *, is_stored: bool) -> None:
        """Remove a claim, so that nobody waits for it; raise as `Remote.put`.

        Args:
            name: its name.
            is_stored: whether the executable is in the store now.
        """
        with self._lock:
            self._held.pop(name, None)
            self._released[name] = is_stored
        self._remove(name)

    def _remove(self, name: str) -> None:
        if not self._released[name]:
            self._remote.transport.put(name, _NOT_STORED, {}, replace=True)
        elif self._remote.can_list:
            self._remote.transport.delete([name])
        else:
            self._remote.transport.put(name, _DONE, {}, replace=True)

    def _text(self) -> bytes:
        self._count += 1
        return f"{self._holder} {self._count}".encode()

    def _begin_to_beat(self) -> None:
        with self._lock:
            if self._is_beating:
                return
            self._is_beating = True
        self._beat_later()

    def _beat_later(self) -> None:
        try:
            start_thread(self._beat, after=_BEAT_S)  # which waits without a pause of Python's collector
        except RuntimeError:  # the interpreter is ending, or there are no threads left
            self._is_beating = False

    def _beat(self) -> None:
        with self._lock:
            names = list(self._held)
            self._is_beating = bool(names)
        for name in names:
            try:
                self._remote.transport.put(name, self._text(), {}, replace=True)
                if name not in self._held and name in self._released:  # it was removed meanwhile
                    self._remove(name)
            except JcacheError:
                self.forget(name)
        if names:
            self._beat_later()
