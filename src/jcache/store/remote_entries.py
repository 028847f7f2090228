"""What a program's roots need of a store behind them; `jcache.runtime.remote_tier` has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from jcache.layout import Kind

VARIABLE: Final = "JCACHE_REMOTE"  # names the store where nothing else does
SIGNERS_VARIABLE: Final = "JCACHE_REMOTE_SIGNERS"  # names the file of those whose entries of it may be used


class RemoteEntries(Protocol):
    """A store behind the roots of a program, whose failures the program does not notice."""

    def get(self, kind: Kind, key: str) -> tuple[bytes, float | None] | None:
        """Return the checked bytes of an entry, and its build time if that is known; None if there is none."""

    def used_by(self, command: Sequence[str]) -> Sequence[str]:
        """Return the keys of the executables that the last run of a command used, as far as the store knows."""

    def offer(self, kind: Kind, key: str, data: bytes, seconds: float | None) -> None:
        """Store a new entry in the background, if this program stores entries there."""

    def compiled(self) -> None:
        """Note that the program that this thread has asked for is compiled, and offered if it is stored at all."""

    def flush(self) -> None:
        """Wait some seconds at most until the new entries are stored."""
