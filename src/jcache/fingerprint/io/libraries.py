"""Record the files that libraries open in C code, through the calls that open them.

- `sqlite3` reports which database it opens, but not which ones are attached. The statements contain these.
- HDF5 and netCDF report nothing. The constructors of the classes in `_CLASSES` are replaced.
"""

# ruff: noqa: ANN401 - what libraries take and return is anything

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from jcache.attribution import Reader, reader
from jcache.fingerprint.io import open_blocks
from jcache.fingerprint.io.open_blocks import Note
from jcache.patching import Patch

if TYPE_CHECKING:
    from jcache.fingerprint.io.reads import Reads

_CLASSES: Final = {"h5py": "File", "netCDF4": "Dataset"}  # called with a path and a mode
HOMES: Final = ("sqlite3", "sqlite3.dbapi2", *_CLASSES)
_NEW_FILE: Final = ("w", "x")  # first letters of modes that read nothing
_ATTACH: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*attach\b", re.I | re.S)
_NAME: Final = re.compile(r"\s*(?:database\b\s*)?(?P<name>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")\s*as\b", re.I)
_UNNAMED: Final = frozenset({"", ":memory:"})
_connecting: Final = threading.local()


def patches(recorded_by: Callable[[Note], Callable[..., Any]], *only: str) -> Iterator[Patch]:
    """Replace what opens files in libraries that are loaded, and yield the patches.

    Args:
        recorded_by: returns a decorator that reports each call of a function to a note.
        only: the names of the libraries; none for all.
    """
    for module in only or HOMES:
        if module not in _CLASSES and hasattr(sys.modules.get(module), "connect"):
            yield Patch(sys.modules[module], "connect", _recording_statements)
        name = _CLASSES.get(module, "")
        if (cls := getattr(sys.modules.get(module), name, None)) is not None:
            with suppress(TypeError):  # a class in C code cannot be changed
                yield Patch(cls, "__init__", recorded_by(opened))


def is_to_be_patched(module: object) -> bool:
    """Return whether a module has functions to replace, and is not loaded yet."""
    return module in HOMES and module not in sys.modules


def opened(
    blocks: list[Reads], frame: FrameType, _self: Any, given: Any, mode: Any = "r", *_args: Any, **_: Any
) -> None:
    if not isinstance(given, str | bytes | os.PathLike):
        return  # a file that Python has opened
    path, who = os.fsdecode(given), reader(frame, blocks[-1].frame)
    for block in blocks:
        if who is Reader.NOBODY:
            return
        if "://" in path:
            block.record_action("used the network", who)
        elif str(mode).startswith(_NEW_FILE):
            block.wrote(os.path.join(os.getcwd(), path), who)
        elif str(mode).startswith("r") and "+" not in str(mode):
            block.add_file(path, who)
        else:
            block.opened_for_update(path, who)


def connected(blocks: list[Reads], frame: FrameType, given: Any) -> None:
    """Record a database that is opened, as two files: the database and its write-ahead log."""
    if not isinstance(given, str | bytes | os.PathLike):
        return
    who = reader(frame, blocks[-1].frame)
    if not getattr(_connecting, "now", False):
        for block in blocks:
            block.record_action(f"opened the database {os.fsdecode(given)!a} past `sqlite3.connect`", who)
    _add_database(blocks, os.fsdecode(given), who)


def _add_database(blocks: list[Reads], path: str, who: Reader) -> None:
    if path.startswith("file:"):
        path = unquote(path.removeprefix("file:").partition("?")[0])
    for block in blocks:
        if who is not Reader.NOBODY and path not in _UNNAMED:
            block.add_file(path, who)
            block.add_file(f"{path}-wal", who)


def _recording_statements(original: Callable[..., Any]) -> Callable[..., Any]:
    def connect(*args: Any, **kwargs: Any) -> Any:
        if not open_blocks.of_this_thread():
            return original(*args, **kwargs)
        _connecting.now = True
        try:
            connection = original(*args, **kwargs)
        finally:
            _connecting.now = False
        connection.set_trace_callback(_on_statement)
        return connection

    return connect


def _on_statement(statement: str) -> None:
    """Handle an SQL statement before it runs; its parameters have been filled in."""
    blocks = open_blocks.of_this_thread()
    if blocks and (found := _ATTACH.match(statement)):
        open_blocks.report(blocks, _attached, (statement[found.end() :],))


def _attached(blocks: list[Reads], frame: FrameType, rest: str) -> None:
    """Record the database that a statement attaches; `rest` is the statement behind its first word."""
    who = reader(frame, blocks[-1].frame)
    if found := _NAME.match(rest):
        quote = found["name"][0]
        _add_database(blocks, found["name"][1:-1].replace(quote * 2, quote), who)
        return
    for block in blocks:
        block.refuse("attached a database by a name that only SQLite knows", who)
