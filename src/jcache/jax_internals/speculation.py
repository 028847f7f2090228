"""Defer the side effects of reading an entry ahead until the entry is really used, if it ever is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _ThreadQueue(threading.local):
    deferred: list[Callable[[], object]] | None = None


_thread = _ThreadQueue()


def is_deferring() -> bool:
    """Return whether this thread reads ahead."""
    return _thread.deferred is not None


def run_or_defer(action: Callable[[], object]) -> None:
    """Do a side effect of reading an entry, such as noting its use: now, or once the entry is used."""
    if _thread.deferred is None:
        action()
    else:
        _thread.deferred.append(action)


@contextmanager
def deferring() -> Iterator[list[Callable[[], object]]]:
    """Defer side effects in this thread, and yield the list of them, to be done once the entry is used."""
    before, _thread.deferred = _thread.deferred, []
    try:
        yield _thread.deferred
    finally:
        _thread.deferred = before
