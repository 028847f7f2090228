"""A lease on a store: one process at a time prunes it. Two at once would do no harm, and remove more than they plan.

The lease is an object that says who holds it and until when, by the holder's clock. It is created where there is none.
One that has expired is overwritten; of two that do so at once, the one whose text is there a second later has it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from jcache import clock
from jcache.errors import Locked
from jcache.remote.client import Remote
from jcache.remote.names import LEASE

_SECOND_NS: Final = 1_000_000_000
LEASE_S: Final = 600
_SETTLING_S: Final = 1.0


class Lease:
    """A lease that this process holds.

    Args:
        remote: the store.
        holder: who holds it; no other process has the same text.
    """

    def __init__(self, remote: Remote, holder: str) -> None:
        self._remote = remote
        self._holder = holder
        self._until_ns = 0

    def renew(self) -> None:
        """Hold the lease for longer, if it would end soon."""
        if self._until_ns - clock.now_ns() < LEASE_S * _SECOND_NS // 2:
            self._write(replace=True)

    def _write(self, *, replace: bool) -> bool:
        self._until_ns = clock.now_ns() + LEASE_S * _SECOND_NS
        text = f"{self._until_ns} {self._holder}\n".encode()
        return self._remote.transport.put(LEASE, text, {}, replace=replace)

    def take(self) -> None:
        """Take the lease; raise Locked if somebody else holds it."""
        if self._write(replace=False):
            return
        until_ns, holder = _read(self._remote)
        if until_ns > clock.now_ns():
            seconds = (until_ns - clock.now_ns()) // _SECOND_NS + 1
            who = holder or "Another process"
            raise Locked(f"{who} is pruning {self._remote}: try again in at most {seconds:,} s.")
        self._write(replace=True)
        clock.sleep(_SETTLING_S)
        if _read(self._remote)[1] != self._holder:
            raise Locked(f"Another process is pruning {self._remote}: try again later.")

    def give_back(self) -> None:
        """Remove the lease if it is still this process's."""
        if _read(self._remote)[1] == self._holder:
            self._remote.transport.delete([LEASE])


def _read(remote: Remote) -> tuple[int, str]:
    """Return until when the lease of a store holds, and for whom; 0 for a text that is no lease."""
    found = remote.transport.get(LEASE)
    until, _, holder = ("" if found is None else found.data.decode(errors="replace")).strip().partition(" ")
    is_sane = until.isdecimal() and int(until) < clock.now_ns() + 2 * LEASE_S * _SECOND_NS
    return (int(until) if is_sane else 0), holder if holder.isprintable() else ""


@contextmanager
def holding(remote: Remote) -> Iterator[Lease]:
    """Hold the lease of a store for the block.

    Raises:
        Locked: somebody else holds it.
        RemoteUnavailable, RemoteDenied: the store fails, or does not allow that.
    """
    lease = Lease(remote, f"{socket.gethostname()}, process {os.getpid()}-{os.urandom(4).hex()}")
    lease.take()
    try:
        yield lease
    finally:
        lease.give_back()
