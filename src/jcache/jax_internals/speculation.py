"""What is done later, if at all: an entry may be read before it is known whether anybody wants it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Here(threading.local):
    put_off: list[Callable[[], object]] | None = None


_here = _Here()


def is_deferring() -> bool:
    """Whether this thread reads ahead."""
    return _here.put_off is not None


def do(action: Callable[[], object]) -> None:
    """Does something that is to be told or written of an entry: now, or once it is wanted."""
    if _here.put_off is None:
        action()
    else:
        _here.put_off.append(action)


@contextmanager
def deferring() -> Iterator[list[Callable[[], object]]]:
    """Has this thread read ahead meanwhile, and gives what is to be done once what it has read is wanted."""
    before, _here.put_off = _here.put_off, []
    try:
        yield _here.put_off
    finally:
        _here.put_off = before
