"""Open blocks, by the threads that work for them.

A thread works for the block that it is in, and for the block from which its work was handed to it (`threads`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jcache.fingerprint.io.reads import Reads

_open: Final[list[Reads]] = []
_of_thread: Final[dict[int, list[Reads]]] = {}  # the outermost first
_reporting: Final[set[int]] = set()  # threads that are inside of `report`

Note = Callable[..., None]


def are_none() -> bool:
    return not _open


def of_this_thread() -> list[Reads]:
    """Return the blocks that this thread works for, the outermost first."""
    return _of_thread.get(threading.get_ident(), [])


def enter(block: Reads) -> None:
    _open.append(block)
    _of_thread.setdefault(threading.get_ident(), []).append(block)


def leave(block: Reads) -> None:
    """Close a block, for all threads that work for it."""
    _open.remove(block)
    for thread, blocks in _of_thread.copy().items():
        if block in blocks:
            blocks.remove(block)
            if not blocks:
                _of_thread.pop(thread, None)


@contextmanager
def working_for(blocks: Sequence[Reads]) -> Iterator[None]:
    """Let this thread work for some blocks, if they are still open, and for no others, within the ``with`` block."""
    me = threading.get_ident()
    before = _of_thread.pop(me, [])
    if still := [block for block in blocks if block in _open]:
        _of_thread[me] = still
    try:
        yield
    finally:
        _of_thread.pop(me, None)
        if still := [block for block in before if block in _open]:
            _of_thread[me] = still


def report(blocks: list[Reads], note: Note, arguments: tuple[Any, ...], depth: int = 1) -> None:
    """Report to blocks what a frame has read or done.

    An exception in the note is a reason not to store. What the note itself reads is not reported.

    Args:
        blocks: the blocks that the thread works for.
        note: the function that records it, see `jcache.fingerprint.io.events`.
        arguments: the further arguments of the note.
        depth: how many frames the frame that has read is above the caller of `report`.
    """
    me = threading.get_ident()
    if me in _reporting:
        return
    _reporting.add(me)
    try:
        note(blocks, sys._getframe(depth + 1), *arguments)
    except Exception as error:  # noqa: BLE001  the program goes on
        for block in blocks:
            block.is_temporary = block.is_temporary or block.reason is None
            block.refuse(f"could not be watched ({error!r})")
    finally:
        _reporting.discard(me)
