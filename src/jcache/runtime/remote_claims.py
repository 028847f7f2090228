"""Who compiles what several hosts lack: the first one claims it in the store, and the others wait for its entry.

    v1/claims/<namespace>/<key>    a number of the host, and a count that grows every two seconds while it compiles

A claim is advice. It is removed when the entry is there, or will not be; a text that has not changed for some seconds
is nobody's. Where a server creates without asking whether something is there, two hosts may compile the same.
"""

from __future__ import annotations

import os
import re
import threading
from typing import Final

from jcache import clock
from jcache.errors import JcacheError
from jcache.jax_internals.gc_pause import start_thread
from jcache.remote.client import Remote
from jcache.remote.names import claim_name

_BEAT_S: Final = 2.0
SILENCE_S: Final = 3 * _BEAT_S
_DONE: Final = b"done"
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
        self._changed = threading.Condition()
        self._held: dict[str, int] = {}  # names of claims, with the thread that compiles; -1 while the entry is sent
        self._is_beating = False

    def take(self, namespace: str, key: str, thread: int, *, over: bool = False) -> bool:
        """Claim an executable; return False if another process has done so. Raise as `Remote.put`.

        Args:
            namespace: its namespace.
            key: its key.
            thread: identifier of the thread that compiles it.
            over: whether the claim that is there is nobody's any more.
        """
        name = claim_name(namespace, key)
        if not self._remote.transport.put(name, self._text(), {}, replace=over):
            if self.text(namespace, key) is not None:
                return False
            self._remote.transport.put(name, self._text(), {}, replace=True)
        with self._changed:
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
        with self._changed:
            if name in self._held:
                self._held[name] = -1
                return name
        return ""

    def of_thread(self) -> list[str]:
        """Return the names of this thread's claims on executables that have been compiled and will not be stored."""
        with self._changed:
            return [name for name, thread in self._held.items() if thread == threading.get_ident()]

    def forget(self, name: str) -> None:
        """Keep a claim no longer: the others see that its text does not change."""
        with self._changed:
            self._held.pop(name, None)
            self._changed.notify_all()

    def release(self, name: str) -> None:
        """Remove a claim, so that nobody waits for it; raise as `Remote.put`."""
        self.forget(name)
        self._remove(name)

    def _remove(self, name: str) -> None:
        if self._remote.can_list:
            self._remote.transport.delete([name])
        else:
            self._remote.transport.put(name, _DONE, {}, replace=True)

    def _text(self) -> bytes:
        self._count += 1
        return f"{self._holder} {self._count}".encode()

    def _begin_to_beat(self) -> None:
        with self._changed:
            if self._is_beating:
                return
            self._is_beating = True
        try:
            start_thread(self._beat)
        except RuntimeError:  # the interpreter is ending, or there are no threads left
            self._is_beating = False

    def _beat(self) -> None:
        while True:
            with self._changed:
                end = clock.monotonic() + _BEAT_S
                while self._held and (left := end - clock.monotonic()) > 0:
                    self._changed.wait(left)
                names = list(self._held)
                if not names:
                    self._is_beating = False
                    return
            for name in names:
                try:
                    self._remote.transport.put(name, self._text(), {}, replace=True)
                    if name not in self._held:  # it was removed meanwhile
                        self._remove(name)
                except JcacheError:
                    self.forget(name)
