"""Run many small transfers at once, in order, with a bound on the bytes that are in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

CONNECTIONS: Final = 32  # at once; measured to be enough for a store in the same data centre
_MAX_BYTES: Final = 256 << 20
_MAX_AHEAD: Final = 4 * CONNECTIONS


class _Workers:
    """Threads that run transfers. They end with the process: an interrupted command waits for no server."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, transfer: Callable[[T], R], job: T) -> Future[R]:
        """Run a transfer in one of the threads; return its result to be."""
        future: Future[R] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(transfer(job))
                except BaseException as error:  # noqa: BLE001  raised where the result is wanted
                    future.set_exception(error)

        self._jobs.put(run)
        if self._count < self._limit:
            self._count += 1
            Thread(target=self._work, name="jcache-transfer", daemon=True).start()
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def close(self) -> None:
        """End the threads once they have nothing to do."""
        for _ in range(self._count):
            self._jobs.put(None)


def in_parallel(
    transfer: Callable[[T], R],
    jobs: Iterable[T],
    bytes_of: Callable[[T], int] = lambda job: 0,
    *,
    connections: int = CONNECTIONS,
    max_bytes: int = _MAX_BYTES,
    ahead: int = _MAX_AHEAD,
) -> Iterator[tuple[T, R]]:
    """Yield each job with the result of its transfer, in the order of the jobs.

    The first transfer that raises ends all: no other is begun, and those that have begun are not waited for.

    Args:
        transfer: called in other threads.
        jobs: arguments of the transfers.
        bytes_of: returns how much memory a transfer takes.
        connections: number of transfers at once.
        max_bytes: memory that transfers take together, until their results are taken; one of them may take more.
        ahead: number of transfers whose results are not taken yet.
    """
    workers = _Workers(connections)
    under_way: deque[tuple[T, int, Future[R]]] = deque()
    taken = 0
    try:
        for job in jobs:
            size = bytes_of(job)
            while under_way and (taken + size > max_bytes or len(under_way) >= ahead):
                done, its_size, future = under_way.popleft()
                yield done, future.result()
                taken -= its_size
            under_way.append((job, size, workers.submit(transfer, job)))
            taken += size
        while under_way:
            done, _, future = under_way.popleft()
            yield done, future.result()
    finally:
        for _, _, future in under_way:
            future.cancel()
        workers.close()
