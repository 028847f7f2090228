"""Let work in other threads count for the blocks from which it was handed over.

A new thread works for the blocks of the thread that starts it. A work item of an executor or of a pool of threads works
for the blocks of the thread that submits it, whichever thread runs it, and for no block if it was submitted outside.
"""

# ruff: noqa: ANN401 - what is handed over takes and returns anything

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from jcache.fingerprint.io import open_blocks
from jcache.patching import Patch

_BLOCKS: Final = "_jcache_blocks"
_FIRST_CALLBACK: Final = 2  # index of a callback among the arguments after the function
_SUBMITTING: Final = ("apply_async", "_map_async", "imap", "imap_unordered")
HOMES: Final = ("threading", "_thread", "concurrent.futures.thread", "multiprocessing.pool")
_Function = Callable[..., Any]


def patches() -> Iterator[Patch]:
    """Replace the functions of loaded modules that hand over work, and yield the patches."""
    yield Patch(threading.Thread, "start", _remembering)
    yield Patch(threading.Thread, "_bootstrap_inner", _running)
    yield Patch(_thread, "start_new_thread", _starting)
    if (futures := sys.modules.get("concurrent.futures.thread")) is not None:
        yield Patch(vars(futures)["_WorkItem"], "__init__", _remembering)
        yield Patch(vars(futures)["_WorkItem"], "run", _running)
    if (pools := sys.modules.get("multiprocessing.pool")) is not None:
        of_threads = vars(pools)["ThreadPool"]
        for name in _SUBMITTING:
            yield Patch(vars(pools)["Pool"], name, partial(_submitting, of_threads))


def _remembering(original: _Function) -> _Function:
    """Return the replacement of a method that stores in its object the blocks for which the object is to work."""

    def remember(work: Any, *args: Any, **kwargs: Any) -> Any:
        vars(work)[_BLOCKS] = tuple(open_blocks.of_this_thread())
        return original(work, *args, **kwargs)

    return remember


def _running(original: _Function) -> _Function:
    """Return the replacement of a method that works for the blocks stored in its object."""

    def run(work: Any, *args: Any, **kwargs: Any) -> Any:
        with open_blocks.working_for(vars(work).pop(_BLOCKS, ())):
            return original(work, *args, **kwargs)

    return run


def _starting(original: _Function) -> _Function:
    """Return the replacement of a function that starts a thread, which then works for the blocks of the caller."""

    def start(function: _Function, *args: Any) -> Any:
        return original(partial(_work_for, tuple(open_blocks.of_this_thread()), function), *args)

    return start


def _submitting(of_threads: type, original: _Function) -> _Function:
    """Return the replacement of a pool's method: if it is a pool of threads, the work is for the caller's blocks."""

    def submit(pool: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(pool, of_threads):
            return original(pool, function, *args, **kwargs)
        blocks = tuple(open_blocks.of_this_thread())

        def handed(given: Any) -> Any:
            return partial(_work_for, blocks, given) if callable(given) else given

        given = args[:_FIRST_CALLBACK] + tuple(map(handed, args[_FIRST_CALLBACK:]))
        named = {name: handed(each) if name.endswith("callback") else each for name, each in kwargs.items()}
        return original(pool, handed(function), *given, **named)

    return submit


def _work_for(blocks: tuple[Any, ...], function: _Function, *args: Any, **kwargs: Any) -> Any:
    with open_blocks.working_for(blocks):
        return function(*args, **kwargs)
