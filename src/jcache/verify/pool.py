"""Check many entries in as many processes as there are cores.

Threads would not do: decompression releases Python's lock, but parsing the decompressed content holds it.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from jcache.errors import JcacheError
from jcache.store.unmoved_reads import note_moved_in
from jcache.verify.checks import CheckResult, Claim, check_all, moved_access_times

_MIN_POOL_BYTES: Final = 32 << 20  # starting processes takes as long as checking this much
_MIN_QUICK_BYTES: Final = 16 << 10  # hashing this much takes as long as sending an entry to a process, and its result
_BATCHES_AHEAD: Final = 2  # for each process


class Batch(NamedTuple):
    """Entries of one directory, and the sum of their sizes."""

    directory: Path
    claims: list[Claim]
    bytes: int


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_batches(
    batches: Iterator[Batch], *, bytes_: int, quick: bool, processes: int | None = None, entries: int = 1
) -> Iterator[tuple[Batch, list[CheckResult]]]:
    """Check batches and yield the results of each as soon as they are complete.

    Args:
        batches: batches to check; each is taken only when a process will soon need it.
        bytes_: size of all batches; less than 32 MiB are checked in this process.
        quick: whether to omit the checks that decompress entries.
        processes: number of processes; None for one on each usable core.
        entries: number of entries; many small ones are checked in this process, if they are not decompressed.

    Raises:
        JcacheError: a process was killed.
    """
    wanted = usable_cores() if processes is None else processes
    if wanted <= 1 or bytes_ < _MIN_POOL_BYTES or (quick and bytes_ < _MIN_QUICK_BYTES * entries):
        for batch in batches:
            yield batch, check_all(batch.directory, batch.claims, quick=quick)
    else:
        yield from _in_processes(batches, wanted, quick=quick)


def _in_processes(
    batches: Iterator[Batch], processes: int, *, quick: bool
) -> Iterator[tuple[Batch, list[CheckResult]]]:
    from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool
    from itertools import islice
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(processes, get_context("spawn"), gc.disable)
    running: dict[Future[list[tuple[Any, ...]]], Batch] = {}
    try:
        while True:
            for batch in islice(batches, _BATCHES_AHEAD * processes - len(running)):
                with ignoring_interrupts():
                    running[pool.submit(_check_packed, batch.directory, batch.claims, quick=quick)] = batch
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                batch = running.pop(future)
                checked = list(map(CheckResult.unpacked, batch.claims, future.result()))
                note_moved_in(batch.directory, moved_access_times(checked))
                yield batch, checked
    except BrokenProcessPool:
        raise JcacheError(
            "A process that checked entries was killed, perhaps because memory ran out: see `dmesg`. The same command "
            "again begins with the entries that were not verified yet."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _check_packed(directory: Path, claims: list[Claim], *, quick: bool) -> list[tuple[Any, ...]]:
    return [checked.packed() for checked in check_all(directory, claims, quick=quick)]


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Make processes that the block starts ignore Ctrl-C: this process receives it, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # starting it inside the block would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # child processes inherit this
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # a Ctrl-C during the block is delivered now
