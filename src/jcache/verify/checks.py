"""Check one entry's bytes, in this process or in others: everything that its format and the ledger can reveal.

In order, and the first that fails says what the damage is:

1. a regular file that can be read, and that nobody is writing meanwhile;
2. the digest on record, if there is one. Bytes that have that digest and have passed all checks before have passed;
3. executables: codec, one whole frame of the declared size, the grammar of its inside, the hashes of a Riegeli body,
   and the module's name in the key; envelopes: the seal, the payload, kind and key.

The digest on record is that of a *file*. If it was removed and JAX wrote the entry anew, other bytes are no damage:
compilation is not deterministic. A file that was born after the digest was taken is such a new one. In a copied root
all files were born late, and the digests count; there a new file is one that was born later still, and written at once.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from jcache.findings import Damage, Fault, Finding, Stamp
from jcache.formats.digest import digest, shown
from jcache.layout import Kind, file_name_of
from jcache.store import birth_time, files, unmoved_reads
from jcache.text import quoted
from jcache.verify.faults import NO_MEMORY, fault_of
from jcache.verify.permissions import Exposure

if TYPE_CHECKING:
    from jcache.store.foreign import Adapter

CHECKS_VERSION: Final = 1  # goes up when a check is added, so that known bytes are looked at again
_WRITING_NS: Final = 10_000_000_000  # what is changed in place was born longer before
_LONG_WRITING_NS: Final = 600_000_000_000  # from when a file says that it was written to its last byte
_COPYING_NS: Final = 2_000_000_000  # files beside the ledger were copied shortly before or after it


class Claim(NamedTuple):
    """An entry to check, with its record.

    Attributes:
        kind, key: which entry.
        digest: the one on record, None where there is none.
        digest_ns: as of when that holds.
        copied_ns: when the root was copied, with the digest in its ledger; None if it was not.
        passed: whether bytes of that digest have passed all checks of this version.
        adapter: knows what the entries of another program's directory hold; None for JAX's and jcache's own.
        platforms: those of the process that is to load it, where one is.
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


class Checked(NamedTuple):
    """The result of checking an entry.

    Attributes:
        claim: what was checked.
        stamp: of the file, None if it is gone or no file.
        digest: of the bytes, None where they were not read.
        finding: the damage, None for a sound entry.
        gone: whether it had been removed by then.
        being_written: whether it changed while it was read.
        passed: whether these bytes have passed all checks.
        anew: whether the file is another one than the digest on record was taken of.
        exposure: who can change the file.
        taken_ns: as of when the digest holds, by the clock that tells when files are born.
        moved: what reading has done to the file's access time; None where it has left it.
        opaque: why its inside was not checked; None where it was.
    """

    claim: Claim
    stamp: Stamp | None = None
    digest: str | None = None
    finding: Finding | None = None
    gone: bool = False
    being_written: bool = False
    passed: bool = False
    anew: bool = False
    exposure: Exposure | None = None
    taken_ns: int | None = None
    moved: unmoved_reads.Moved | None = None
    opaque: str | None = None


def moved_of(some: Iterable[Checked]) -> dict[int, unmoved_reads.Moved]:
    """Return the access times that checking has moved, by the inodes of the files."""
    return {one.stamp.inode: one.moved for one in some if one.stamp is not None and one.moved is not None}


def check_all(directory: Path, claims: Sequence[Claim], *, quick: bool = False) -> list[Checked]:
    """Check some entries of a directory."""
    return [check(directory, claim, quick=quick) for claim in claims]


def check(directory: Path, claim: Claim, *, quick: bool = False) -> Checked:
    """Check an entry of a directory; with ``quick`` without decompressing it."""
    name = os.path.join(directory, claim.file_name)  # a `Path` takes a tenth of the time of a small entry
    try:
        before = os.lstat(name)
        if not stat.S_ISREG(before.st_mode):
            return Checked(claim, finding=not_a_file(Path(name), claim.kind, claim.key, before.st_mode))
        data = files.read(name)
        after = os.lstat(name)
    except FileNotFoundError:
        return Checked(claim, gone=True)
    except (OSError, MemoryError) as error:
        return Checked(claim, finding=_unreadable(Path(name), claim, error))
    stamp = Stamp.of(after)
    if stamp != Stamp.of(before) or len(data) != stamp.bytes:
        return Checked(claim, stamp, being_written=True)
    found = digest(data)
    is_other = claim.digest is not None and claim.digest != found
    is_known = claim.digest is not None and claim.passed and not is_other
    anew = is_other and _is_new(Path(name), claim, data)
    fault = None if is_known else fault_in(claim, data, quick=quick)
    opaque, fault = (fault.evidence, None) if fault and fault.damage is Damage.OPAQUE else (None, fault)
    checked = Checked(
        claim,
        stamp,
        found,
        passed=is_known or (fault is None and opaque is None and not quick),
        opaque=opaque,
        anew=anew,
        exposure=Exposure.of(after),
        taken_ns=after.st_ctime_ns,
        moved=unmoved_reads.moved_in(os.path.dirname(name)).get(after.st_ino),
    )
    if is_other and not anew:
        other = f"Its digest {shown(found)} is not {shown(claim.digest)} as on record."
        changed = Fault(Damage.CHANGED, other) if fault is None else Fault(fault.damage, f"{fault.evidence} {other}")
        return _damaged(checked._replace(passed=False), Path(name), changed, expected=claim.digest)
    return checked if fault is None else _damaged(checked, Path(name), fault)


def _damaged(checked: Checked, path: Path, fault: Fault, expected: str | None = None) -> Checked:
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
    """Return the finding of something that has an entry's name and is none."""
    what = {stat.S_IFDIR: "directory", stat.S_IFLNK: "symbolic link"}.get(stat.S_IFMT(mode), "special file")
    evidence = f"A {what} with the name of an entry."
    return Finding(damage=Damage.NOT_A_FILE, path=path, evidence=evidence, kind=kind, key=key)


def _is_ours(path: Path) -> bool:
    """Return whether a file is one of this user's."""
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except OSError:
        return True


def _unreadable(path: Path, claim: Claim, error: OSError | MemoryError) -> Finding:
    if isinstance(error, MemoryError):
        evidence, advice = NO_MEMORY, "verify where there is more memory"
    else:
        evidence = f"It cannot be read: {error.strerror or error}."
        advice = "look at the disk's own health first"
        if error.errno in (errno.EACCES, errno.EPERM):
            name = quoted(str(path))
            advice = f"chmod u+r {name}" if _is_ours(path) else f"let its owner run: chmod a+r {name}"
    return Finding(
        damage=Damage.UNREADABLE, path=path, evidence=evidence, kind=claim.kind, key=claim.key, advice=advice
    )


def _is_new(path: Path, claim: Claim, data: bytes) -> bool:
    """Return whether the file is another one than the digest on record was taken of."""
    written_ns = None if claim.adapter is None else claim.adapter.written_ns(claim.kind, claim.key, data)
    if written_ns is not None:  # what is edited still says when it was written
        return claim.digest_ns < written_ns and 0 <= os.lstat(path).st_mtime_ns - written_ns < _LONG_WRITING_NS
    born = birth_time.born_ns(path)
    if born is None:
        return False
    if claim.copied_ns is None or claim.digest_ns > claim.copied_ns:
        return claim.digest_ns < born
    in_one_go = 0 <= os.lstat(path).st_mtime_ns - born < _WRITING_NS
    return in_one_go and born > claim.copied_ns + _COPYING_NS


def fault_in(claim: Claim, data: bytes, *, quick: bool = False) -> Fault | None:
    """Return the fault of an entry's bytes by themselves, None if they have none."""
    if claim.adapter is None:
        return fault_of(data, claim.kind, claim.key, quick=quick, platforms=claim.platforms)
    try:
        return claim.adapter.fault(claim.kind, claim.key, data, quick=quick)
    except MemoryError:
        return Fault(Damage.UNREADABLE, NO_MEMORY)
