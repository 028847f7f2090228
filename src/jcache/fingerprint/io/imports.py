"""Record which modules a block looks for, also in vain, and which files it executes.

A module that is not there now may be there in another process, as with settings that a program imports if it finds
them. A file that is executed need not be a module that Python finds by a name, as with plugins that are loaded by path.
"""

# ruff: noqa: ANN401 - the arguments of audit events are of any type

from __future__ import annotations

import os
import sys
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from jcache.attribution import Reader, is_of_importing, reader
from jcache.fingerprint.io import open_blocks

if TYPE_CHECKING:
    from jcache.fingerprint.io.reads import Reads


class _Finder:
    """The first of the process's finders of modules while blocks are open; it finds nothing."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if blocks := open_blocks.of_this_thread():
            open_blocks.report(blocks, sought, (name,))


_FINDER: Final = _Finder()


def watch() -> None:
    """Begin to report modules that are looked for."""
    sys.meta_path.insert(0, _FINDER)


def unwatch() -> None:
    """Undo `watch`."""
    with suppress(ValueError):  # the program may have other finders by now
        sys.meta_path.remove(_FINDER)


def sought(blocks: list[Reads], frame: FrameType | None, name: str) -> None:
    """Record that a module is looked for that is not loaded."""
    while frame is not None and is_of_importing(frame):
        frame = frame.f_back
    if reader(frame, blocks[-1].frame) is Reader.PROGRAM:
        for block in blocks:
            block.add_sought(name)


def executed(blocks: list[Reads], _frame: FrameType, code: Any) -> None:
    """Record the file of code that is executed."""
    path = str(code.co_filename)
    if path[:1] != "<" and os.path.isfile(path):
        for block in blocks:
            block.add_executed(os.path.abspath(path))
