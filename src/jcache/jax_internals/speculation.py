"""What is done later, if at all: an entry may be read before it is known whether anybody wants it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _ThreadQueue(threading.local):
    deferred: list[Callable[[], object]] | None = None


_thread = _ThreadQueue()


def is_deferring() -> bool:
    """Whether this thread reads ahead."""
    return _thread.deferred is not None


def run_or_defer(action: Callable[[], object]) -> None:
    """Does something that is to be told or written of an entry: now, or once it is wanted."""
    if _thread.deferred is None:
        action()
    else:
        _thread.deferred.append(action)


@contextmanager
def deferring() -> Iterator[list[Callable[[], object]]]:
    """Has this thread read ahead meanwhile, and gives what is to be done once what it has read is wanted."""
    before, _thread.deferred = _thread.deferred, []
    try:
        yield _thread.deferred
    finally:
        _thread.deferred = before
