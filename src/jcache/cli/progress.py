"""Progress bar on stderr, if that is a terminal; it appears once the work has taken a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

from jcache import clock
from jcache.cli.output import console

T = TypeVar("T")

_APPEARS_AFTER_S: Final = 1.0
_locked_terminal: int | None = None  # descriptor by which this process has locked the terminal that it draws on


class Bar:
    """Progress bar that counts bytes or items.

    In `jcache export | jcache import -` two processes share one terminal: the first draws until it ends, and the other
    draws nothing.
    """

    def __init__(self, doing: str, *, items: bool = False) -> None:
        """Begin the work.

        Args:
            doing: the work, as a participle.
            items: whether numbers are of items; else they are of bytes.
        """
        self._doing = doing
        self._items = items
        self._start = clock.monotonic()
        _may_draw()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, total: int) -> None:
        """Show how much of the total is done."""
        if self._bar is None and clock.monotonic() - self._start > _APPEARS_AFTER_S and _may_draw():
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn as Remaining,
            )

            amount = MofNCompleteColumn() if self._items else DownloadColumn(binary_units=True)
            columns = TextColumn("{task.description}"), BarColumn(), amount, Remaining()
            self._bar = Progress(*columns, console=console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._doing, total=total)
            self._bar.start()
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)


def progress(items: Sequence[T], doing: str) -> Iterator[T]:
    """Yield the items, with a bar that counts them."""
    with Bar(doing, items=True) as bar:
        for done, item in enumerate(items):
            bar.show(done, len(items))
            yield item


def _may_draw() -> bool:
    """Return whether stderr is a terminal that no other process of jcache draws on, and lock it until this one ends."""
    global _locked_terminal
    if _locked_terminal is None and sys.stderr.isatty():
        import fcntl

        mine = sys.stderr.fileno()
        with suppress(OSError):  # some terminals cannot be locked
            mine = os.open(os.ttyname(mine), os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(mine)
                return False
        _locked_terminal = mine
    return _locked_terminal is not None
