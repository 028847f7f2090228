"""Integrity check of an entry before XLA reads it.

- The bytes are compared with the digest on record. If there is none, they must pass all checks that `jcache verify`
  makes of a single entry; then their digest is recorded, so that a later change is found.
- A digest that came with an import or with a copied root is not trusted: the bytes must pass those checks once, which
  compare the key with the name inside the bytes.
- Bytes that differ from the digest on record are damaged, unless the file is not the one that the digest was taken of
  (`jcache.verify.checks`).
- A file that was written within the last minute may be incomplete, since JAX writes in place. If it fails the checks,
  it counts as absent.

This module writes nothing and takes no lock.
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
from jcache.formats.executable import HEAD_BYTES, executable_seconds
from jcache.layout import ENTRY_SUFFIX, Kind, Root, is_key
from jcache.runtime.threads_ledger import ThreadsLedger
from jcache.store import birth_time, files
from jcache.store.ledger import UNVERIFIED, Known, holds_from

if TYPE_CHECKING:  # a sound entry, as nearly every entry is, needs no checks
    from jcache.findings import Finding

EXECUTABLES: Final = Kind.EXECUTABLES
_PREFETCH_LIMIT_BYTES: Final = 2 << 20  # a ledger up to this size, some 8,000 entries, is read as a whole


class RecordedDigest(NamedTuple):
    """The ledger's record of an entry's bytes.

    Attributes:
        digest: the digest of the bytes.
        digest_ns: the time when it was taken, nanoseconds since 1970.
        seconds: the build time of the entry; None if it is not known.
        trusted: whether this root has checked the bytes itself; False for a digest that was imported or copied.
    """

    digest: str
    digest_ns: int
    seconds: float | None
    trusted: bool = True


class VerifiedEntry(NamedTuple):
    """The bytes of an entry that passed the check, and its build time in seconds, if that is known."""

    data: bytes
    seconds: float | None


class VerifiedReader:
    """Reads executables of one root and checks them; several threads may use it.

    Args:
        root: the root.
        ledger: the root's ledger.
        learn: receives a record of each entry that is new to the ledger.
        platforms: returns JAX's platforms in the process that loads the entries; None if they are not known.
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
        self._records: dict[str, RecordedDigest] = {}
        self._prefetched = False
        self._is_ledger_unavailable = False  # it could not be read once; a second try might wait again

    def get(self, key: str, *, as_use: bool = True) -> VerifiedEntry | Finding | None:
        """Return a verified entry, the finding if it is damaged, or None if there is none (yet).

        Args:
            key: key of the entry.
            as_use: whether this read is a use by a program, so that the access time may move.

        Raises:
            OSError: the entry exists and cannot be read.
        """
        path = self._prefix + key + ENTRY_SUFFIX
        try:
            data = files.read(path, as_use=as_use)
            record = self._records.get(key) or self._look_up(key)
            if record is None:
                return self._check_unrecorded(key, path)
            if digest(data) != record.digest:
                return self._check_changed(key, path, data, record)
            if not record.trusted:
                return self._check_unrecorded(key, path)
            return VerifiedEntry(data, _seconds(data, record))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            if stat.S_ISREG(os.lstat(path).st_mode):
                raise
            return self._examine(key, path, None)

    def prepare(self) -> None:
        """Open the ledger now, so that the first read need not wait for it."""
        self._look_up("")

    def remember(self, known: Known) -> None:
        """Keep the record of an entry."""
        if known.digest is not None:
            here = self._copied_ns is None or (known.digest_ns or 0) > self._copied_ns
            trusted = here and known.checks != UNVERIFIED
            self._records[known.key] = RecordedDigest(known.digest, known.digest_ns or 0, known.seconds, trusted)

    def forget(self, key: str) -> None:
        """Drop the record of an entry."""
        self._records.pop(key, None)

    def change_ledger(self, ledger: ThreadsLedger) -> None:
        """Use another ledger from now on, as a forked child must."""
        self._ledger = ledger

    def forget_all(self) -> None:
        """Drop all records."""
        self._records.clear()

    def _look_up(self, key: str) -> RecordedDigest | None:
        """Return the ledger's record of an entry; the first call reads a small ledger as a whole."""
        if self._is_ledger_unavailable:
            return None
        try:
            if not self._prefetched:
                self._prefetched = True
                self._prefetch()
                if key in self._records:
                    return self._records[key]
            known = self._ledger.known(EXECUTABLES, [key]).get(key)
        except LedgerUnavailable:
            self._is_ledger_unavailable = True
            return None
        if known is None or known.digest is None:
            return None
        self.remember(known)
        return self._records[key]

    def _prefetch(self) -> None:
        try:
            if os.stat(self._ledger_path).st_size > _PREFETCH_LIMIT_BYTES:
                return
        except OSError:
            return
        for key, known in self._ledger.known(EXECUTABLES).items():
            if known.digest is not None and key not in self._records:
                self.remember(known)

    def _check_unrecorded(self, key: str, path: str) -> VerifiedEntry | Finding | None:
        status = os.lstat(path)  # before the read, so that the digest is not dated too late
        data = files.read(path)
        if len(data) != status.st_size:
            return None
        if is_key(key):  # under another name, a program may store bytes that are no executable
            from jcache.verify.faults import fault_of

            if fault_of(data, EXECUTABLES, key, platforms=self._platforms()) is not None:
                return self._examine(key, path, None)
        return self._accept(key, data, digest(data), status.st_ctime_ns)

    def _check_changed(
        self, key: str, path: str, data: bytes, record: RecordedDigest
    ) -> VerifiedEntry | Finding | None:
        """Check bytes that differ from the record: another process may have replaced both meanwhile."""
        fresh = self._look_up(key) or record
        if digest(data) == fresh.digest and fresh.trusted:
            return VerifiedEntry(data, _seconds(data, fresh))
        latest = max(fresh, record, key=lambda known: known.digest_ns)
        self._records[key] = latest
        return self._examine(key, path, latest)

    def _examine(self, key: str, path: str, record: RecordedDigest | None) -> VerifiedEntry | Finding | None:
        """Check an entry as `jcache verify` does."""
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
            return None if self._may_be_unfinished(finding, path) else finding
        data = files.read(path)
        if checked.digest is None or digest(data) != checked.digest:
            return None
        return self._accept(key, data, checked.digest, checked.taken_ns or 0, is_readable=checked.opaque is None)

    def _may_be_unfinished(self, finding: Finding, path: str) -> bool:
        if finding.expected is not None and birth_time.born_ns(finding.path) is not None:
            return False  # it is the same file that was complete before
        status = os.lstat(path)
        return stat.S_ISREG(status.st_mode) and is_young(status.st_mtime_ns, clock.now_ns())

    @cached_property
    def _copied_ns(self) -> int | None:
        try:
            return None if self._is_ledger_unavailable else self._ledger.copied_ns()
        except LedgerUnavailable:
            return None

    def _accept(self, key: str, data: bytes, found: str, taken_ns: int, *, is_readable: bool = True) -> VerifiedEntry:
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
            checks=CHECKS_VERSION if is_key(key) and is_readable else None,
        )
        self.remember(known)
        if self._learn is not None:
            self._learn(known)
        return VerifiedEntry(data, seconds)


def build_seconds(data: bytes) -> float | None:
    """Return the build time that an entry states, in whole seconds; None for less than one second."""
    return executable_seconds(data[:HEAD_BYTES]) or None


def _seconds(data: bytes, record: RecordedDigest | None) -> float | None:
    return record.seconds if record and record.seconds is not None else build_seconds(data)
