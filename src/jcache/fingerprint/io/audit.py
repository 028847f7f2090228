"""Audit hook of the process, and replacements of Python's functions while blocks are open: they report reads."""

# ruff: noqa: ANN401 - the arguments of audit events are of any type

from __future__ import annotations

import atexit
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import is_
from types import FrameType
from typing import Any, Final

from jcache import input_files
from jcache.fingerprint.io import chances, events, imports, libraries, memos, open_blocks, threads
from jcache.fingerprint.io.digests import Look
from jcache.fingerprint.io.open_blocks import Note, report
from jcache.jax_internals.registry import is_tracing
from jcache.patching import Patch

lock: Final = threading.Lock()
_MEMO_EVENTS: Final = frozenset({"open", "os.listdir", "os.scandir", "sqlite3.connect"})  # what `memos` records
_PROBE: Final = "jcache.fingerprint.io"
_HOMES: Final = (*threads.HOMES, *libraries.HOMES, *chances.HOMES)
_patches: Final[list[Patch]] = []
_last: tuple[list[Any], tuple[Patch, ...]] = [], ()  # the objects to patch at the last block, and the patches
_records_always = False  # whether `record_always` was called
_is_hooked: bool | None = None  # whether the hook is called; None before it is there


def record_always() -> None:
    """Record from now on, in the whole process, what is read while memoized results are made; see `memos`."""
    global _records_always
    with lock:
        if not _records_always and type(os.environ) is os._Environ:
            _add_hook()
            _records_always = True
            Patch(os._Environ, "__getitem__", _recording_variables)


def watch() -> str | None:
    """Begin to report reads to the open blocks. Return None, or the reason why that is impossible."""
    _add_hook()
    if type(os.environ) is not os._Environ:
        return "cannot be watched: `os.environ` is not Python's own"
    if not _patches:
        _replace()
        imports.watch()
    return None if _is_hooked else "cannot be watched: another audit hook forbids it"


def unwatch() -> None:
    """Undo the replacements of `watch`, unless a block is still open."""
    if open_blocks.are_none() and _patches:
        imports.unwatch()
        while _patches:
            _patches.pop().undo()


def _replace() -> None:
    """Make all replacements: redo those of the last block, which takes a tenth of the time, or make new ones."""
    global _last
    there = [sys.modules.get(name) for name in _HOMES]
    there += [value for name in chances.SHARED for value in vars(sys.modules.get(name, sys)).copy().values()]
    before, patches = _last
    if len(before) == len(there) and all(map(is_, before, there)):
        for patch in patches:
            if not patch.redo():
                break
            _patches.append(patch)
        else:
            return
        while _patches:
            _patches.pop().undo()
    replaced: list[tuple[Any, str, Note]] = [(os._Environ, "__getitem__", events.variable)]
    replaced += [(os._Environ, name, events.environment) for name in ("__iter__", "__len__", "__repr__")]
    for look, names in ((Look.STATUS, ("stat", "access")), (Look.LINK, ("lstat", "readlink"))):
        replaced += [(os, name, partial(events.asked_of, look=look)) for name in names]
    replaced += [(os, name, events.read_by_number) for name in ("read", "pread", "readv", "preadv")]
    replaced += [(atexit, "register", events.at_exit), (weakref.finalize, "__init__", events.at_exit)]
    _patches.extend(Patch(cls, name, _recorded_by(note)) for cls, name, note in replaced)
    _patches.extend(threads.patches())
    _patches.extend(libraries.patches(_recorded_by))
    _patches.extend(chances.patches(_recorded_by))
    _last = there, tuple(_patches)


def _add_hook() -> None:
    global _is_hooked
    if _is_hooked is None:
        _is_hooked = False
        input_files.next_hook = _hook
        input_files.is_recorded_otherwise = lambda: is_tracing() or open_blocks.of_this_thread()
        input_files.record()
        sys.audit(_PROBE)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Handle an audit event of the frame that called the caller: quickly if there is nothing to report."""
    global _is_hooked
    if not _MEMO_EVENTS:  # the interpreter is ending, and has emptied this module
        return
    if event in _MEMO_EVENTS and _records_always:
        with suppress(ValueError):  # no Python code runs, as when Python opens a source to print a traceback
            memos.note(sys._getframe(2), event, arguments)
    if not open_blocks.are_none() and (blocks := open_blocks.of_this_thread()):
        if event == "open":
            report(blocks, events.opened, arguments, depth=2)
        elif event == "exec":
            report(blocks, imports.executed, arguments, depth=2)
        elif event == "mmap.__new__":
            report(blocks, events.read_by_number, arguments, depth=2)
        elif event == "import" and libraries.is_to_be_patched(arguments[0]):
            report(blocks, _import, arguments, depth=2)
        elif events.is_action(event):
            report(blocks, events.happened, (event, *arguments), depth=2)
    elif _is_hooked is False and event == _PROBE:
        _is_hooked = True


def _import(_blocks: object, _frame: FrameType, name: str, *_others: Any) -> None:
    """Import a library that the program is about to import, and replace its functions that open files."""
    with suppress(Exception):  # the program's own import raises it again
        importlib.import_module(name)
        with lock:
            if _patches:
                _patches.extend(libraries.patches(_recorded_by, name))


def _recorded_by(note: Note) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: the decorated function reports each call to `note`, and then runs as before."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if blocks := open_blocks.of_this_thread():
                report(blocks, partial(note, **named) if named else note, arguments, depth=2)
            return original(*arguments, **named)

        return call

    return replace


def _recording_variables(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the replacement of a method that looks up a variable; it records the variable for memoized results."""

    def get(environ: Any, name: Any) -> Any:
        memos.note(sys._getframe(2), "environment", (name,))
        return original(environ, name)

    return get
