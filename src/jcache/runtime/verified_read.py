"""What stands between an entry's bytes and XLA: not one that is damaged passes.

- The digest on record is compared first. If there is none, the bytes must pass all checks that `jcache verify` makes of
  an entry by itself; then their digest is recorded, so that a later change is found.
- A digest that has come from elsewhere, with an import or with a copied root, says nothing of what the bytes are: they
  must pass those checks once, which compare the key with the name inside.
- Other bytes than on record are damage, unless the file is another one than the digest was taken of
(`jcache.verify.checks`).
- What was written within the last minute may still be in the making: JAX writes in place. Then it is no entry yet.

Nothing here writes, and nothing takes a lock.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from jcache import clock
from jcache.entry import is_young
from jcache.errors import LedgerUnavailable
from jcache.formats.digest import digest
from jcache.formats.envelope import HEAD_BYTES, executable_seconds
from jcache.layout import ENTRY_SUFFIX, Kind, Root, is_key
from jcache.runtime.program_store import ThreadsLedger
from jcache.store import files
from jcache.store.ledger import UNVERIFIED, Known, holds_from

if TYPE_CHECKING:  # what is sound, as nearly all is, needs no checks
    from jcache.findings import Finding

EXECUTABLES: Final = Kind.EXECUTABLES
_PREFETCH: Final = 2 << 20  # bytes of a ledger that is read in one go, some 8,000 entries


class OnRecord(NamedTuple):
    """What is known of an entry's bytes; whether this root has made sure of it, or has it from elsewhere."""

    digest: str
    digest_ns: int
    seconds: float | None
    trusted: bool = True


class Sound(NamedTuple):
    """The bytes of an entry that may be served, and the seconds that building it took, where known."""

    data: bytes
    seconds: float | None


class Gate:
    """The gate before one root's executables; several threads may use it.

    Args:
        root: which root.
        ledger: of that root.
        learn: is told of entries that are new to the ledger.
        platforms: tells which ones the process has that is to load what is served; None where nobody knows.
    """

    def __init__(
        self,
        root: Root,
        ledger: ThreadsLedger,
        learn: Callable[[Known], None] | None,
        platforms: Callable[[], frozenset[str] | None] = lambda: None,
    ) -> None:
        self._platforms = platforms
        self._directory = root.directory(EXECUTABLES)
        self._prefix = f"{self._directory}{os.sep}"
        self._ledger_path = root.ledger
        self._ledger = ledger
        self._learn = learn
        self._records: dict[str, OnRecord] = {}
        self._prefetched = False
        self._silent = False  # the ledger cannot be read; asking it again could mean waiting again

    def get(self, key: str, *, as_use: bool = True) -> Sound | Finding | None:
        """An entry that may be served, what is wrong with it, or None if there is none (yet).

        Args:
            key: which.
            as_use: whether a program wants it now, so that its access time may move.

        Raises:
            OSError: it is there and cannot be read.
        """
        path = self._prefix + key + ENTRY_SUFFIX
        try:
            data = files.read(path, as_use=as_use)
            record = self._records.get(key) or self._look_up(key)
            if record is None:
                return self._at_first_sight(key, path)
            if digest(data) != record.digest:
                return self._suspect(key, path, data, record)
            if not record.trusted:
                return self._at_first_sight(key, path)
            return Sound(data, _seconds(data, record))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            if stat.S_ISREG(os.lstat(path).st_mode):
                raise
            return self._examine(key, path, None)

    def prepare(self) -> None:
        """Opens the ledger now, so that the first entry need not wait for it."""
        self._look_up("")

    def remember(self, known: Known) -> None:
        """Keeps what a put has told."""
        if known.digest is not None:
            here = self._copied_ns is None or (known.digest_ns or 0) > self._copied_ns
            trusted = here and known.checks != UNVERIFIED
            self._records[known.key] = OnRecord(known.digest, known.digest_ns or 0, known.seconds, trusted)

    def forget(self, key: str) -> None:
        self._records.pop(key, None)

    def change_ledger(self, ledger: ThreadsLedger) -> None:
        """Asks another one from now on, as a forked child must."""
        self._ledger = ledger

    def forget_all(self) -> None:
        self._records.clear()

    def _look_up(self, key: str) -> OnRecord | None:
        """What the ledger says of an entry; the first time a small ledger is read as a whole."""
        if self._silent:
            return None
        try:
            if not self._prefetched:
                self._prefetched = True
                self._prefetch()
                if key in self._records:
                    return self._records[key]
            known = self._ledger.known(EXECUTABLES, [key]).get(key)
        except LedgerUnavailable:
            self._silent = True
            return None
        if known is None or known.digest is None:
            return None
        self.remember(known)
        return self._records[key]

    def _prefetch(self) -> None:
        try:
            if os.stat(self._ledger_path).st_size > _PREFETCH:
                return
        except OSError:
            return
        for key, known in self._ledger.known(EXECUTABLES).items():
            if known.digest is not None and key not in self._records:
                self.remember(known)

    def _at_first_sight(self, key: str, path: str) -> Sound | Finding | None:
        status = os.lstat(path)  # before it is read, so that the digest holds as of then
        data = files.read(path)
        if len(data) != status.st_size:
            return None
        if is_key(key):  # what else a program puts need not be an executable
            from jcache.verify.faults import fault_of

            if fault_of(data, EXECUTABLES, key, platforms=self._platforms()) is not None:
                return self._examine(key, path, None)
        return self._admit(key, data, digest(data), status.st_ctime_ns)

    def _suspect(self, key: str, path: str, data: bytes, record: OnRecord) -> Sound | Finding | None:
        """Bytes that are not the ones on record: perhaps another process has recorded others meanwhile."""
        fresh = self._look_up(key) or record
        if digest(data) == fresh.digest and fresh.trusted:
            return Sound(data, _seconds(data, fresh))
        latest = max(fresh, record, key=lambda known: known.digest_ns)
        self._records[key] = latest
        return self._examine(key, path, latest)

    def _examine(self, key: str, path: str, record: OnRecord | None) -> Sound | Finding | None:
        """Looks at an entry as `jcache verify` does."""
        from jcache.findings import Damage
        from jcache.layout import kept_of
        from jcache.verify.checks import Claim, check

        known = (record.digest, record.digest_ns) if record else (None, 0)
        claim = Claim(EXECUTABLES, key, digest=known[0], digest_ns=known[1], copied_ns=self._copied_ns)
        claim = claim._replace(platforms=self._platforms())
        checked = check(self._directory, claim)
        finding = checked.finding
        if checked.gone or checked.being_written:
            return None
        if finding is not None and not (
            finding.damage is Damage.NAME and kept_of(key) is not None and not finding.expected
        ):
            return None if self._in_the_making(finding, path) else finding
        data = files.read(path)
        if checked.digest is None or digest(data) != checked.digest:
            return None
        return self._admit(key, data, checked.digest, checked.taken_ns or 0, is_read=checked.opaque is None)

    def _in_the_making(self, finding: Finding, path: str) -> bool:
        if finding.expected is not None and files.born_ns(finding.path) is not None:
            return False  # it is the file that was whole once
        status = os.lstat(path)
        return stat.S_ISREG(status.st_mode) and is_young(status.st_mtime_ns, clock.now_ns())

    @cached_property
    def _copied_ns(self) -> int | None:
        try:
            return None if self._silent else self._ledger.copied_ns()
        except LedgerUnavailable:
            return None

    def _admit(self, key: str, data: bytes, found: str, taken_ns: int, *, is_read: bool = True) -> Sound:
        from jcache.verify.checks import CHECKS_VERSION

        seconds = _seconds(data, None)
        known = Known(
            EXECUTABLES,
            key,
            found,
            len(data),
            seconds,
            None if key in self._records else "seen",
            digest_ns=holds_from(taken_ns, self._copied_ns),
            checks=CHECKS_VERSION if is_key(key) and is_read else None,
        )
        self.remember(known)
        if self._learn is not None:
            self._learn(known)
        return Sound(data, seconds)


def build_seconds(data: bytes) -> float | None:
    """The whole seconds that an entry says it took to build; None where they do not tell, as below one."""
    return executable_seconds(data[:HEAD_BYTES]) or None


def _seconds(data: bytes, record: OnRecord | None) -> float | None:
    return record.seconds if record and record.seconds is not None else build_seconds(data)
