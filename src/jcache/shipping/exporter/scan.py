"""Reading entries for an archive: checked, digested and understood at once, in as many processes as there are cores.

What is on record as sound, and remembered inside, is only hashed, in pieces. Nothing here changes a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

from jcache.errors import JcacheError
from jcache.findings import Stamp
from jcache.formats.digest import digest_of_file
from jcache.formats.envelope import MAX_HEADER, read_header
from jcache.layout import Kind, is_key
from jcache.shipping.forecast.provenance import inspect_bytes
from jcache.store import files
from jcache.store.ledger import Content
from jcache.verify.checks import Checked, Claim, check
from jcache.verify.pool import cores, uninterrupted

_MIN_PARALLEL_BYTES: Final = 8 << 20  # bytes; starting processes takes as long as reading so much
_BATCH_BYTES: Final = 8 << 20
_BATCH_ENTRIES: Final = 128
_ENVELOPE_HEAD_BYTES: Final = MAX_HEADER + 64


class ScanRequest(NamedTuple):
    """An entry to read.

    Attributes:
        claim: which, and what is known of its bytes.
        bytes: how many it has, as far as is known.
        understood: whether what is inside the bytes on record is remembered.
    """

    claim: Claim
    bytes: int
    understood: bool


class ScanResult(NamedTuple):
    """What reading an entry gave.

    Attributes:
        checked: what checking it gave.
        content: what is inside of an executable; None where that is remembered.
        seconds: what building a trace or graph took, as its header says.
        parents: the keys that its header names.
    """

    checked: Checked
    content: Content | None = None
    seconds: float | None = None
    parents: tuple[str, ...] = ()


class FileState(NamedTuple):
    """By what a file is known to be the very one that was read before."""

    stamp: Stamp
    changed_ns: int

    @classmethod
    def of(cls, file: FileIO | int) -> FileState:
        status = os.fstat(file if isinstance(file, int) else file.fileno())
        return cls(Stamp.of(status), status.st_ctime_ns)


def open_regular(path: str | Path) -> FileIO:
    """A regular file, unbuffered.

    Raises:
        OSError: there is none, or something else, a symbolic link among it.
    """
    descriptor = files.open_to_look(path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no regular file")
    return FileIO(descriptor)


def hash_file(path: str | Path) -> tuple[FileState, str] | None:
    """A file and the digest of its bytes, in constant memory; None if it changed meanwhile.

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
    """Reads entries and yields what came out of each batch, in order, with the batch's bytes.

    Args:
        directories: where the entries of each kind lie.
        wanted: what to read.
        processes: how many at once; None for as many as there are cores for us.

    Raises:
        JcacheError: a process was killed.
    """
    batches = list(_split_batches(wanted))
    sizes = [sum(one.bytes for one in batch) for batch in batches]
    work = partial(_scan_batch, directories)
    count = cores() if processes is None else processes
    if count <= 1 or sum(sizes) < _MIN_PARALLEL_BYTES:
        yield from zip(sizes, map(work, batches), strict=True)
        return
    from concurrent.futures.process import BrokenProcessPool

    pool = _start_pool(count, wanted)
    try:
        with uninterrupted():
            results = pool.map(work, batches)
        for size, some in zip(sizes, results, strict=True):
            for kind in {seen.checked.claim.kind for seen in some if seen.checked.moved}:
                files.note_moved_in(directories[kind])
            yield size, some
    except BrokenProcessPool:
        raise JcacheError(
            "A process that read entries was killed, perhaps for want of memory: look with `dmesg`, and run "
            "the same command again."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _start_pool(count: int, wanted: Sequence[ScanRequest]) -> Executor:
    """Threads where there is only hashing to do, which lets other threads run; grammar does not."""
    if all(_needs_only_digest(one) for one in wanted):
        return ThreadPoolExecutor(count)
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    return ProcessPoolExecutor(count, get_context("spawn"))


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


def scan_entry(directory: Path, wanted: ScanRequest) -> ScanResult:
    """Reads an entry of a directory."""
    claim = wanted.claim
    path = os.path.join(directory, claim.file_name)
    if _needs_only_digest(wanted) and (same := _check_digest_on_record(path, claim)):
        return ScanResult(same)
    checked = check(directory, claim)
    if checked.finding is not None or checked.stamp is None or checked.being_written or claim.adapter is not None:
        return ScanResult(checked)
    try:
        data = files.read(path, None if claim.kind is Kind.EXECUTABLES else _ENVELOPE_HEAD_BYTES)
        if Stamp.of(os.lstat(path)) != checked.stamp:
            return ScanResult(checked._replace(being_written=True))
    except FileNotFoundError:
        return ScanResult(checked._replace(gone=True))
    if claim.kind is Kind.EXECUTABLES:
        return ScanResult(checked, inspect_bytes(data, checked.digest))
    header = read_header(data)
    return ScanResult(checked, seconds=header.build_seconds or None, parents=tuple(filter(is_key, header.parents)))


def _needs_only_digest(wanted: ScanRequest) -> bool:
    return wanted.claim.kind is Kind.EXECUTABLES and wanted.claim.passed and wanted.understood


def result_on_record(path: str | Path, wanted: ScanRequest) -> ScanResult | None:
    """What is on record of a file that nobody has changed since; None for any other, which is to be read.

    That the bytes still have the digest remains to be seen: a disk may lose bits without telling.
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
    return ScanResult(Checked(claim, Stamp.of(status), claim.digest, passed=True, taken_ns=status.st_ctime_ns))


def _check_digest_on_record(path: str, claim: Claim) -> Checked | None:
    """A file whose digest is the one on record; None for any other, which is looked at more closely."""
    try:
        hashed = hash_file(path)
    except OSError:
        return None
    if hashed is None or hashed[1] != claim.digest:
        return None
    mark, found = hashed
    return Checked(claim, mark.stamp, found, passed=True, taken_ns=mark.changed_ns)
