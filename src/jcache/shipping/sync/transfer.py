"""Run many small transfers at once, in order, with a bound on the bytes that are in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

CONNECTIONS: Final = 32  # at once; measured to be enough for a store in the same data centre
_MAX_BYTES: Final = 256 << 20
_MAX_AHEAD: Final = 4 * CONNECTIONS


def in_parallel(
    transfer: Callable[[T], R],
    jobs: Iterable[T],
    bytes_of: Callable[[T], int] = lambda job: 0,
    *,
    connections: int = CONNECTIONS,
    max_bytes: int = _MAX_BYTES,
) -> Iterator[tuple[T, R]]:
    """Yield each job with the result of its transfer, in the order of the jobs.

    The first transfer that raises ends all: those that have begun are waited for, and no other is begun.

    Args:
        transfer: called in other threads.
        jobs: arguments of the transfers.
        bytes_of: returns how much memory a transfer takes.
        connections: number of transfers at once.
        max_bytes: memory that transfers take together, until their results are taken; one of them may take more.
    """
    pool = ThreadPoolExecutor(connections, thread_name_prefix="jcache-transfer")
    under_way: deque[tuple[T, int, Future[R]]] = deque()
    taken = 0
    try:
        for job in jobs:
            size = bytes_of(job)
            while under_way and (taken + size > max_bytes or len(under_way) >= _MAX_AHEAD):
                done, its_size, future = under_way.popleft()
                yield done, future.result()
                taken -= its_size
            under_way.append((job, size, pool.submit(transfer, job)))
            taken += size
        for done, _, future in under_way:
            yield done, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
