"""Scan entries for an archive: check, hash and inspect each in one reading, in as many processes as there are cores.

Entries that the ledger records as sound, and whose content it knows, are only hashed, in pieces. No file is changed.
"""

from __future__ import annotations

import gc
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from jcache.errors import JcacheError
from jcache.findings import Stamp
from jcache.formats.digest import digest_of_file
from jcache.formats.envelope import read_header
from jcache.formats.inspection import inspect
from jcache.layout import Kind, is_key
from jcache.shipping.forecast.provenance import content_of
from jcache.store import unmoved_reads
from jcache.store.ledger_contents import Content
from jcache.verify.checks import CheckResult, Claim, check_and_read, moved_access_times
from jcache.verify.pool import ignoring_interrupts, usable_cores

_MIN_PARALLEL_BYTES: Final = 32 << 20  # bytes; starting processes takes as long as reading so much
_BATCH_BYTES: Final = 8 << 20
_BATCH_ENTRIES: Final = 128


class ScanRequest(NamedTuple):
    """An entry to scan.

    Attributes:
        claim: the entry, and what is known of its bytes.
        bytes: size of the entry, as far as it is known.
        understood: whether the ledger knows the content of the bytes on record.
    """

    claim: Claim
    bytes: int
    understood: bool


class ScanResult(NamedTuple):
    """The result of scanning an entry.

    Attributes:
        checked: the result of checking it.
        content: the content of an executable; None where the ledger knows it.
        seconds: build time of a trace or graph in seconds, from its header.
        parents: the keys that its header names.
    """

    checked: CheckResult
    content: Content | None = None
    seconds: float | None = None
    parents: tuple[str, ...] = ()


class FileState(NamedTuple):
    """The state of a file by which a later reading recognizes it: inode, size and times."""

    stamp: Stamp
    changed_ns: int

    @classmethod
    def of(cls, file: FileIO | int) -> FileState:
        status = os.fstat(file if isinstance(file, int) else file.fileno())
        return cls(Stamp.of(status), status.st_ctime_ns)


def open_regular(path: str | Path) -> FileIO:
    """Open a regular file, unbuffered.

    Raises:
        OSError: the path is absent, or is no regular file, such as a symbolic link.
    """
    descriptor = unmoved_reads.open_to_look(path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return FileIO(descriptor)


def hash_file(path: str | Path) -> tuple[FileState, str] | None:
    """Return a file's state and the digest of its bytes, in constant memory; None if the file changed meanwhile.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        before = FileState.of(file)
        found = digest_of_file(file)
        return (before, found) if FileState.of(file) == before else None


def scan_entries(
    directories: dict[Kind, Path], wanted: Sequence[ScanRequest], *, processes: int | None = None
) -> Iterator[tuple[int, list[ScanResult]]]:
    """Scan entries; yield the results of each batch, in order, with the batch's bytes.

    Args:
        directories: the directory of each kind.
        wanted: the entries to scan.
        processes: number of processes that read at once; None for one for each available core.

    Raises:
        JcacheError: a process was killed.
    """
    batches = list(_split_batches(wanted))
    sizes = [sum(one.bytes for one in batch) for batch in batches]
    count = usable_cores() if processes is None else processes
    if count <= 1 or sum(sizes) < _MIN_PARALLEL_BYTES:
        yield from zip(sizes, (_scan_batch(directories, batch) for batch in batches), strict=True)
        return
    from concurrent.futures.process import BrokenProcessPool

    pool = _start_pool(count, wanted)
    try:
        with ignoring_interrupts():
            results = pool.map(partial(_scan_packed, directories), batches)
        for size, batch, packed in zip(sizes, batches, results, strict=True):
            scanned = list(map(_unpacked, batch, packed))
            for kind, directory in directories.items():
                of_kind = (result.checked for result in scanned if result.checked.claim.kind is kind)
                unmoved_reads.note_moved_in(directory, moved_access_times(of_kind))
            yield size, scanned
    except BrokenProcessPool:
        raise JcacheError(
            "A process that read entries was killed, perhaps because memory ran out: see `dmesg`, and run "
            "the same command again."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start_pool(count: int, wanted: Sequence[ScanRequest]) -> Executor:
    """Start threads if all entries need only hashing, which releases Python's lock; otherwise start processes."""
    if all(_needs_only_digest(one) for one in wanted):
        return ThreadPoolExecutor(count)
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(count, get_context("spawn"), gc.disable)


def _split_batches(wanted: Sequence[ScanRequest]) -> Iterator[list[ScanRequest]]:
    batch: list[ScanRequest] = []
    size = 0
    for one in wanted:
        if batch and (size + one.bytes > _BATCH_BYTES or len(batch) >= _BATCH_ENTRIES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += one.bytes
    if batch:
        yield batch


def _scan_batch(directories: dict[Kind, Path], batch: Sequence[ScanRequest]) -> list[ScanResult]:
    return [scan_entry(directories[one.claim.kind], one) for one in batch]


def _scan_packed(directories: dict[Kind, Path], batch: Sequence[ScanRequest]) -> list[tuple[Any, ...]]:
    """Scan a batch for another process (see `CheckResult.packed`)."""
    scanned = _scan_batch(directories, batch)
    return [(one.checked.packed(), one.content and tuple(one.content), *one[2:]) for one in scanned]


def _unpacked(wanted: ScanRequest, packed: tuple[Any, ...]) -> ScanResult:
    checked, content, *rest = packed
    return ScanResult(CheckResult.unpacked(wanted.claim, checked), content and Content(*content), *rest)


def scan_entry(directory: Path, wanted: ScanRequest) -> ScanResult:
    """Scan an entry of a directory."""
    claim = wanted.claim
    path = os.path.join(directory, claim.file_name)
    if _needs_only_digest(wanted) and (same := _check_digest_on_record(path, claim)):
        return ScanResult(same)
    checked, data, inspection = check_and_read(directory, claim)
    if checked.finding is not None or checked.digest is None or claim.adapter is not None:
        return ScanResult(checked)
    if claim.kind is Kind.EXECUTABLES:
        return ScanResult(checked, content_of(inspection or inspect(data), checked.digest))
    header = read_header(data)
    return ScanResult(checked, seconds=header.build_seconds or None, parents=tuple(filter(is_key, header.parents)))


def _needs_only_digest(wanted: ScanRequest) -> bool:
    return wanted.claim.kind is Kind.EXECUTABLES and wanted.claim.passed and wanted.understood


def state_on_record(path: str, wanted: ScanRequest) -> FileState | None:
    """Return the state of a file that is unchanged since it was recorded; None for a file that must be read.

    The bytes must still be compared with the digest: a disk may lose bits without an error.
    """
    claim = wanted.claim
    if not _needs_only_digest(wanted) or (claim.copied_ns is not None and claim.digest_ns <= claim.copied_ns):
        return None
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_ctime_ns > claim.digest_ns:
        return None
    return FileState(Stamp.of(status), status.st_ctime_ns)


def _check_digest_on_record(path: str, claim: Claim) -> CheckResult | None:
    """Return the result for a file whose digest is the one on record; None for a file that must be checked."""
    try:
        hashed = hash_file(path)
    except OSError:
        return None
    if hashed is None or hashed[1] != claim.digest:
        return None
    state, found = hashed
    return CheckResult(claim, state.stamp, found, passed=True, taken_ns=state.changed_ns)
