"""Check the bytes of one entry against its format and against the ledger.

The checks run in this order; the first one that fails names the damage:

1. The entry is a regular file that can be read and that no process is writing.
2. Its digest is the recorded one, if there is one. Bytes that passed all checks before are not checked again.
3. An executable has a known codec, one complete frame of the declared size, well-formed content, valid hashes in a
   Riegeli body, and the module's name in its key. An envelope has a valid seal and payload, and its kind and key.

A recorded digest belongs to one *file*. If that file was removed and JAX wrote the entry again, different bytes are no
damage, since compilation is not deterministic. A file created after the digest was recorded is such a new file. In a
copied root every file was created late; there, a new file is one created after the copy and written at once.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jcache.findings import Damage, Fault, Finding, Stamp
from jcache.formats.digest import digest, shown
from jcache.layout import Kind, file_name_of
from jcache.store import birth_time, files, unmoved_reads
from jcache.text import quoted
from jcache.verify.faults import NO_MEMORY, examine
from jcache.verify.permissions import Exposure

if TYPE_CHECKING:
    from jcache.formats.inspection import Inspection
    from jcache.store.foreign import Adapter

CHECKS_VERSION: Final = 1  # incremented when a check is added, so that known bytes are checked again
_MAX_WRITE_NS: Final = 10_000_000_000  # from creation to last write; an edit in place comes later
_MAX_FOREIGN_WRITE_NS: Final = 600_000_000_000  # from the time of writing in the content to the last write
_TICK_NS: Final = 20_000_000  # of the clock by which file systems write times, which is behind by up to a tick
_COPY_TOLERANCE_NS: Final = 2_000_000_000  # between the copy of an entry and that of the ledger


class Claim(NamedTuple):
    """An entry to check, with what the ledger claims about it.

    Attributes:
        kind, key: identify the entry.
        digest: recorded digest; None if there is none.
        digest_ns: time for which the digest was recorded, in nanoseconds since 1970.
        copied_ns: time at which the root was copied together with its ledger; None if it was not copied.
        passed: whether bytes with this digest have passed all checks of this version.
        adapter: adapter of the other program whose entry this is; None for entries of JAX and jcache.
        platforms: JAX platforms of the process that will load the entry; None if no process will.
    """

    kind: Kind
    key: str
    digest: str | None = None
    digest_ns: int = 0
    copied_ns: int | None = None
    passed: bool = False
    adapter: Adapter | None = None
    platforms: frozenset[str] | None = None

    @property
    def file_name(self) -> str:
        return file_name_of(self.kind, self.key, adapter=self.adapter)


class CheckResult(NamedTuple):
    """The result of checking an entry.

    Attributes:
        claim: the entry that was checked.
        stamp: stamp of the file; None if it is gone or no regular file.
        digest: digest of the bytes; None if they were not read.
        finding: the damage; None for a sound entry.
        gone: whether the entry had been removed.
        being_written: whether the entry changed while it was read.
        passed: whether these bytes have passed all checks.
        rewritten: whether the file is newer than the recorded digest.
        exposure: owner and mode of the file.
        taken_ns: time for which the digest holds, by the file system's clock.
        moved: access time before and after the read; None if the read did not change it.
        opaque: reason why the content was not checked; None if it was.
    """

    claim: Claim
    stamp: Stamp | None = None
    digest: str | None = None
    finding: Finding | None = None
    gone: bool = False
    being_written: bool = False
    passed: bool = False
    rewritten: bool = False
    exposure: Exposure | None = None
    taken_ns: int | None = None
    moved: unmoved_reads.Moved | None = None
    opaque: str | None = None

    def packed(self) -> tuple[Any, ...]:
        """Return all but the claim for another process, in plain tuples: named ones take 2 µs each to pickle."""
        return self.stamp and tuple(self.stamp), *self[2:8], self.exposure and tuple(self.exposure), *self[9:]

    @classmethod
    def unpacked(cls, claim: Claim, packed: tuple[Any, ...]) -> CheckResult:
        """Return the result on a claim that another process has packed."""
        stamp, exposure = packed[0], packed[7]
        of_file = stamp and Stamp(*stamp), *packed[1:7], exposure and Exposure(*exposure), *packed[8:]
        return cls._make((claim, *of_file))


def moved_access_times(some: Iterable[CheckResult]) -> dict[int, unmoved_reads.Moved]:
    """Return the access times that checks changed, by inode."""
    return {one.stamp.inode: one.moved for one in some if one.stamp is not None and one.moved is not None}


def check_all(directory: Path, claims: Sequence[Claim], *, quick: bool = False) -> list[CheckResult]:
    """Check entries of a directory."""
    return [check(directory, claim, quick=quick) for claim in claims]


def check(directory: Path, claim: Claim, *, quick: bool = False) -> CheckResult:
    """Check an entry of a directory; ``quick`` omits the checks that decompress it."""
    return check_and_read(directory, claim, quick=quick).result


class CheckedEntry(NamedTuple):
    """The result of checking an entry, with the bytes that were checked and, where they were opened, their facts."""

    result: CheckResult
    data: bytes = b""
    inspection: Inspection | None = None


def check_and_read(directory: Path, claim: Claim, *, quick: bool = False) -> CheckedEntry:
    """Check an entry as `check` does, in one reading."""
    name = os.path.join(directory, claim.file_name)  # making a `Path` costs a tenth of checking a small entry
    try:
        before = os.lstat(name)
        if not stat.S_ISREG(before.st_mode):
            finding = not_a_file(Path(name), claim.kind, claim.key, before.st_mode)
            return CheckedEntry(CheckResult(claim, finding=finding))
        data = files.read(name)
        after = os.lstat(name)
    except FileNotFoundError:
        return CheckedEntry(CheckResult(claim, gone=True))
    except (OSError, MemoryError) as error:
        return CheckedEntry(CheckResult(claim, finding=_unreadable(Path(name), claim, error)))
    stamp = Stamp.of(after)
    if stamp != Stamp.of(before) or len(data) != stamp.bytes:
        return CheckedEntry(CheckResult(claim, stamp, being_written=True))
    return _check_bytes(name, claim, data, after, stamp, quick=quick)


def _check_bytes(
    name: str, claim: Claim, data: bytes, after: os.stat_result, stamp: Stamp, *, quick: bool
) -> CheckedEntry:
    found = digest(data)
    is_other = claim.digest is not None and claim.digest != found
    is_known = claim.digest is not None and claim.passed and not is_other
    rewritten = is_other and _is_new_file(Path(name), claim, data)
    fault, inspection = (None, None) if is_known else _examine_claim(claim, data, quick=quick)
    opaque, fault = (fault.evidence, None) if fault and fault.damage is Damage.OPAQUE else (None, fault)
    checked = CheckResult(
        claim,
        stamp,
        found,
        passed=is_known or (fault is None and opaque is None and not quick),
        opaque=opaque,
        rewritten=rewritten,
        exposure=Exposure.of(after),
        taken_ns=after.st_ctime_ns,
        moved=unmoved_reads.moved_of(name, after.st_ino),
    )
    if is_other and not rewritten:
        other = f"Its digest is {shown(found)}, but {shown(claim.digest)} is on record."
        changed = Fault(Damage.CHANGED, other) if fault is None else Fault(fault.damage, f"{fault.evidence} {other}")
        checked = _damaged(checked._replace(passed=False), Path(name), changed, expected=claim.digest)
    elif fault is not None:
        checked = _damaged(checked, Path(name), fault)
    return CheckedEntry(checked, data, inspection)


def _damaged(checked: CheckResult, path: Path, fault: Fault, expected: str | None = None) -> CheckResult:
    finding = Finding(
        damage=fault.damage,
        path=path,
        evidence=fault.evidence,
        kind=checked.claim.kind,
        key=checked.claim.key,
        stamp=checked.stamp,
        digest=checked.digest,
        expected=expected,
    )
    return checked._replace(finding=finding)


def not_a_file(path: Path, kind: Kind, key: str, mode: int) -> Finding:
    """Return the finding for a directory, link or special file that has an entry's name."""
    what = {stat.S_IFDIR: "directory", stat.S_IFLNK: "symbolic link"}.get(stat.S_IFMT(mode), "special file")
    evidence = f"A {what} with the name of an entry."
    return Finding(damage=Damage.NOT_A_FILE, path=path, evidence=evidence, kind=kind, key=key)


def _is_ours(path: Path) -> bool:
    """Return whether this user owns a file."""
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return True


def _unreadable(path: Path, claim: Claim, error: OSError | MemoryError) -> Finding:
    if isinstance(error, MemoryError):
        evidence, advice = NO_MEMORY, "verify on a machine with more memory"
    else:
        evidence = f"It cannot be read: {error.strerror or error}."
        advice = "check the health of the disk first"
        if error.errno in (errno.EACCES, errno.EPERM):
            name = quoted(str(path))
            advice = f"chmod u+r {name}" if _is_ours(path) else f"ask its owner to run: chmod a+r {name}"
    return Finding(
        damage=Damage.UNREADABLE, path=path, evidence=evidence, kind=claim.kind, key=claim.key, advice=advice
    )


def _is_new_file(path: Path, claim: Claim, data: bytes) -> bool:
    """Return whether the file was written after the recorded digest was taken."""
    written_ns = None if claim.adapter is None else claim.adapter.written_ns(claim.kind, claim.key, data)
    if written_ns is not None:  # an edit in place leaves this time in the content as it was
        took_ns = os.lstat(path).st_mtime_ns - written_ns
        return claim.digest_ns < written_ns and -_TICK_NS <= took_ns < _MAX_FOREIGN_WRITE_NS
    born = birth_time.born_ns(path)
    if born is None:
        return False
    if claim.copied_ns is None or claim.digest_ns > claim.copied_ns:
        return claim.digest_ns < born
    in_one_go = 0 <= os.lstat(path).st_mtime_ns - born < _MAX_WRITE_NS
    return in_one_go and born > claim.copied_ns + _COPY_TOLERANCE_NS


def fault_of_claim(claim: Claim, data: bytes, *, quick: bool = False) -> Fault | None:
    """Return the fault in an entry's bytes, without looking at the ledger; None if there is none."""
    return _examine_claim(claim, data, quick=quick)[0]


def _examine_claim(claim: Claim, data: bytes, *, quick: bool) -> tuple[Fault | None, Inspection | None]:
    if claim.adapter is None:
        return examine(data, claim.kind, claim.key, quick=quick, platforms=claim.platforms)
    try:
        return claim.adapter.fault(claim.kind, claim.key, data, quick=quick), None
    except MemoryError:
        return Fault(Damage.UNREADABLE, NO_MEMORY), None
