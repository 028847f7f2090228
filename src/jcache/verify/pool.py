"""Runs the checks of many entries in as many processes as there are cores, a few batches ahead and no more.

Processes and not threads: decompression lets other threads run, the grammar of what comes out does not.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from jcache.errors import JcacheError
from jcache.store.unmoved_reads import note_moved_in
from jcache.verify.checks import Checked, Claim, check_all, moved_of

_ALONE_BELOW: Final = 8 << 20  # bytes; starting processes takes as long as checking so much
_AHEAD: Final = 2  # batches waiting for each process


class Batch(NamedTuple):
    """Some entries of one directory, and their bytes together."""

    directory: Path
    claims: list[Claim]
    bytes: int


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_batches(
    batches: Iterator[Batch], *, bytes_: int, quick: bool, processes: int | None = None
) -> Iterator[tuple[Batch, list[Checked]]]:
    """Check batches and yield what came out of each, as it comes.

    Args:
        batches: what to check; the next one is asked for only when a process is about to want it.
        bytes_: of all of them; so little that it is not worth a process is checked in this one.
        quick: whether to do without decompression.
        processes: how many at once; None for as many as there are cores for us.

    Raises:
        JcacheError: a process was killed.
    """
    wanted = cores() if processes is None else processes
    if wanted <= 1 or bytes_ < _ALONE_BELOW:
        for batch in batches:
            yield batch, check_all(batch.directory, batch.claims, quick=quick)
    else:
        yield from _in_processes(batches, wanted, quick=quick)


def _in_processes(batches: Iterator[Batch], processes: int, *, quick: bool) -> Iterator[tuple[Batch, list[Checked]]]:
    from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool
    from itertools import islice
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(processes, get_context("spawn"))
    running: dict[Future[list[Checked]], Batch] = {}
    try:
        while True:
            for batch in islice(batches, _AHEAD * processes - len(running)):
                with uninterrupted():
                    running[pool.submit(check_all, batch.directory, batch.claims, quick=quick)] = batch
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                batch, checked = running.pop(future), future.result()
                note_moved_in(batch.directory, moved_of(checked))
                yield batch, checked
    except BrokenProcessPool:
        raise JcacheError(
            "A process that checked entries was killed, perhaps for want of memory: look with `dmesg`; the same "
            "command once more begins with what was not verified yet."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Make processes that the block starts ignore Ctrl-C: this process receives it, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # where it has yet to start, it lets signals through in the middle
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which they inherit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # and what has come meanwhile comes now
