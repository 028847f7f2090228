"""Bytes that a second thread writes, while the first one reads and compares the next.

Copying bytes into files is half of what receiving takes, and the kernel does it without Python's lock. Who reads them
compares them: what is hashed by another core than has just read it takes twice the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, NamedTuple, TypeVar

_PAGE_BYTES: Final = 4 << 20  # bytes
_MAX_PAGES: Final = 3  # one that is filled, one that is written, and one between them
_MAX_JOBS: Final = 48  # of a page, each of which may be a file that is open

Name = TypeVar("Name")
Result = TypeVar("Result")


class _Job(NamedTuple, Generic[Name, Result]):
    name: Name
    data: memoryview
    write: Callable[[memoryview], Result]


class WriteBehind(Generic[Name, Result]):
    """Takes bytes and what writes them, and gives what that made, in the same order.

    The bytes are held in a few pages of memory, and who wants room while all of it waits to be written, waits.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._page = memoryview(bytearray(_PAGE_BYTES))
        self._free: list[memoryview] = []
        self._used = 0  # of the page
        self._jobs: list[_Job[Name, Result]] = []  # of the page
        self._at_work: deque[tuple[Future[list[tuple[Name, Result | OSError]]], memoryview]] = deque()
        self._made: list[tuple[Name, Result | OSError]] = []

    def reserve(self, size: int) -> memoryview:
        """Memory for so many bytes, or a page if that is less; it is lent until the next call but `add`."""
        size = min(size, _PAGE_BYTES)
        if self._used + size > _PAGE_BYTES or len(self._jobs) == _MAX_JOBS:
            self._hand_over()
        return self._page[self._used : self._used + size]

    def add(self, name: Name, data: memoryview, write: Callable[[memoryview], Result]) -> None:
        """Has what `reserve` gave, and has been filled, written."""
        self._jobs.append(_Job(name, data, write))
        self._used += len(data)

    def results(self, *, all_: bool = False) -> list[tuple[Name, Result | OSError]]:
        """What writing has made since the last call, or why it has failed; all that was asked for, or what is ready."""
        if all_:
            self._hand_over()
        while self._at_work and (all_ or self._at_work[0][0].done()):
            self._collect()
        made, self._made = self._made, []
        return made

    def close(self) -> None:
        """Ends the thread, after all that it is to do."""
        self._hand_over()
        self._thread.shutdown()

    def _hand_over(self) -> None:
        """Gives the page to the thread if there is anything to do, and takes another one."""
        if not self._jobs:
            return
        self._at_work.append((self._thread.submit(_run_jobs, self._jobs), self._page))
        self._jobs, self._used = [], 0
        if not self._free and len(self._at_work) == _MAX_PAGES:
            self._collect()
        self._page = self._free.pop() if self._free else memoryview(bytearray(_PAGE_BYTES))

    def _collect(self) -> None:
        """Waits for the page that has waited longest."""
        future, page = self._at_work[0]
        self._made += future.result()  # who is interrupted while he waits comes here again
        self._at_work.popleft()
        self._free.append(page)


def _run_jobs(jobs: list[_Job[Name, Result]]) -> list[tuple[Name, Result | OSError]]:
    made: list[tuple[Name, Result | OSError]] = []
    for job in jobs:
        try:
            made.append((job.name, job.write(job.data)))
        except OSError as error:
            made.append((job.name, error))
    return made
