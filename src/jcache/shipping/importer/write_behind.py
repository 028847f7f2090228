"""Write-behind: a second thread writes bytes while the first one reads and compares the next, if there are many.

Copying bytes into files takes half of an import's time, and the kernel does it without Python's lock. The thread that
reads the bytes also hashes them: hashing on another core than the one that has just read them takes twice the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, NamedTuple, TypeVar

_PAGE_BYTES: Final = 4 << 20  # bytes
_MAX_PAGES: Final = 3  # one that is being filled, one that is being written, and one between them
_MAX_JOBS: Final = 48  # of a page; each may keep a file open
_MIN_BEHIND_BYTES: Final = 2 << 20  # of a page; for less, waking a thread for every call costs more than it saves

Name = TypeVar("Name")
Result = TypeVar("Result")


class _Job(NamedTuple, Generic[Name, Result]):
    name: Name
    data: memoryview
    write: Callable[[memoryview], Result]


class WriteBehind(Generic[Name, Result]):
    """Takes bytes and functions that write them; returns the functions' results in the same order.

    The bytes are held in a few pages of memory. `reserve` blocks while all of it waits to be written.
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
        """Return memory for so many bytes, at most a page; it may be filled until the next call other than `add`."""
        size = min(size, _PAGE_BYTES)
        if self._used + size > _PAGE_BYTES or len(self._jobs) == _MAX_JOBS:
            self._hand_over()
        return self._page[self._used : self._used + size]

    def add(self, name: Name, data: memoryview, write: Callable[[memoryview], Result]) -> None:
        """Schedule the writing of memory that `reserve` returned and that has been filled."""
        self._jobs.append(_Job(name, data, write))
        self._used += len(data)

    def results(self, *, all_: bool = False) -> list[tuple[Name, Result | OSError]]:
        """Return the results since the last call, or the errors in their place.

        Args:
            all_: whether to wait for everything that was scheduled.
        """
        if all_:
            self._hand_over()
        while self._at_work and (all_ or self._at_work[0][0].done()):
            self._collect()
        made, self._made = self._made, []
        return made

    def close(self) -> None:
        """End the thread once everything that was scheduled is done."""
        self._hand_over()
        self._thread.shutdown()

    def _hand_over(self) -> None:
        """Give the page to the thread, and take another one; a page of small files is written at once."""
        if not self._jobs:
            return
        if self._used < _MIN_BEHIND_BYTES and not self._at_work:
            jobs, self._jobs, self._used = self._jobs, [], 0
            _run_jobs(jobs, self._made)  # each result is kept, even if an interrupt ends this
            return
        self._at_work.append((self._thread.submit(_run_jobs, self._jobs, []), self._page))
        self._jobs, self._used = [], 0
        if not self._free and len(self._at_work) == _MAX_PAGES:
            self._collect()
        self._page = self._free.pop() if self._free else memoryview(bytearray(_PAGE_BYTES))

    def _collect(self) -> None:
        """Wait for the page that has waited longest."""
        future, page = self._at_work[0]
        self._made += future.result()  # after an interrupt here, the same page is collected again
        self._at_work.popleft()
        self._free.append(page)


def _run_jobs(
    jobs: list[_Job[Name, Result]], made: list[tuple[Name, Result | OSError]]
) -> list[tuple[Name, Result | OSError]]:
    """Run the jobs; append the result of each, or the error in its place, to a list, and return that."""
    for job in jobs:
        try:
            made.append((job.name, job.write(job.data)))
        except OSError as error:
            made.append((job.name, error))
    return made
