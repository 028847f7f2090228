"""Effects of what a block reads or does: a part, a reason not to store the result, or nothing.

A *note* is a function that is called with the thread's blocks, the frame that acts, and the arguments of its action.
"""

# ruff: noqa: ANN401 - the arguments of audit events are of any type

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from jcache.attribution import Reader, looks_for_code, package_of, reader
from jcache.fingerprint.io import libraries
from jcache.fingerprint.io.digests import Look
from jcache.input_files import WRITING

if TYPE_CHECKING:
    from jcache.fingerprint.io.reads import Reads

_LISTS: Final = frozenset({"os.listdir", "os.scandir"})
_MOVES: Final = frozenset({"os.rename", "os.link"})
_PATHS: Final = frozenset({"genericpath", "posixpath", "ntpath", "pathlib", "shutil"})
_KINDS: Final = frozenset({"exists", "isfile", "isdir", "is_file", "is_dir", "copyfile", "copystat", "copymode"})
_LINKS: Final = frozenset({"islink", "lexists", "is_symlink", "realpath", "_joinrealpath", "resolve"})
_ACTIONS: Final = {
    **dict.fromkeys(("os.listdir", "os.scandir", "glob.glob"), "listed {}"),
    **dict.fromkeys(("os.remove", "os.rename", "os.rmdir"), "removed {}"),
    **dict.fromkeys(("os.mkdir", "os.link", "os.symlink"), "made {}"),
    **dict.fromkeys(("os.truncate", "os.chmod", "os.chown", "os.utime"), "changed {}"),
    **dict.fromkeys(("os.putenv", "os.unsetenv"), "set the environment variable {}"),
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.spawn", "os.posix_spawn", "os.exec"), "started {}"),
    **dict.fromkeys(("os.fork", "os.forkpty"), "forked the process"),
    "os.chdir": "changed the working directory to {}",
    "builtins.input": "asked for input",
    "ctypes.dlopen": "loaded the library {}",
}
_KNOWN: Final = frozenset(_ACTIONS) | {"sqlite3.connect"}


def opened(blocks: list[Reads], frame: FrameType, given: Any, mode: str | None, flags: int) -> None:
    if type(given) is int:
        if not flags & WRITING:
            read_by_number(blocks, frame, given)
        return
    path = os.fsdecode(given)
    who = reader(frame, blocks[-1].frame, path)
    if who is Reader.NOBODY or path == os.devnull:
        return
    whole = os.path.join(os.getcwd(), path)
    for block in blocks:
        if flags & WRITING:
            block.wrote(whole, who)
        elif mode is None and not os.path.isabs(path):  # os.open may have been given another directory
            block.refuse(f"read the file {path!a} of an unknown directory", who)
        elif flags & os.O_RDWR:
            block.opened_for_update(path, who)
        else:
            block.add_file(path, who)


def read_by_number(blocks: list[Reads], frame: FrameType, descriptor: Any, *_others: Any, **_named: Any) -> None:
    """Record the file of a descriptor, which the program may have opened before the block."""
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return
    who = reader(frame, blocks[-1].frame, path)
    for block in blocks:
        if who is not Reader.NOBODY:
            block.add_opened(path, who)


def is_action(event: str) -> bool:
    return event in _KNOWN or event.startswith("socket.")


def happened(blocks: list[Reads], frame: FrameType, event: str, what: Any = "", *others: Any) -> None:
    if event == "sqlite3.connect":
        libraries.connected(blocks, frame, what)
        return
    if event == "socket.__new__" and others and others[0] == getattr(socket, "AF_UNIX", None):
        return  # not connected yet; each event loop has a pair
    if isinstance(what or ".", str | bytes | os.PathLike):
        _record_paths(blocks, frame, event, os.fsdecode(what or "."), others)
    shown = ascii(os.fsdecode(what) if isinstance(what, bytes) else what)
    record_action(blocks, frame, _ACTIONS.get(event, "used the network").format(shown))


def _record_paths(blocks: list[Reads], frame: FrameType, event: str, path: str, others: tuple[Any, ...]) -> None:
    """Record, in blocks that are not strict, what is listed, moved or given to a process, and what the block makes."""
    if reader(frame, blocks[-1].frame) is not Reader.PROGRAM:
        return
    for block in blocks:
        if not block.strict and event in _LISTS:
            block.add_directory(path)
            if event == "os.scandir" and package_of(frame) not in sys.stdlib_module_names:
                _record_statuses(block, path)
        elif not block.strict and event == "subprocess.Popen":
            _record_arguments(block, *others)
        elif not block.strict and event == "os.mkdir":
            block.made(path)
        elif not block.strict and event in _MOVES:
            block.moved(path, os.fsdecode(others[0]))


def _record_statuses(block: Reads, directory: str) -> None:
    """Record the status of all files in a directory, because no event reports what ``os.scandir`` says of them."""
    with suppress(OSError):  # the program meets it itself
        for name in sorted(os.listdir(directory)):
            block.add_look(os.path.join(directory, name), Look.STATUS)


def _record_arguments(block: Reads, arguments: Any, directory: Any, _environ: Any) -> None:
    """Record the files that are named in a process's arguments, because the process may read them."""
    listed = arguments if isinstance(arguments, list | tuple) else [arguments]
    for each in listed:
        if not isinstance(each, str | bytes | os.PathLike):
            continue
        path = os.path.join(os.fsdecode(directory or ""), os.fsdecode(each))
        if "\0" not in path and os.path.isfile(path):
            block.add_file(path, Reader.PROGRAM)


def record_action(blocks: list[Reads], frame: FrameType, what: str) -> None:
    who = reader(frame, blocks[-1].frame)
    for block in blocks:
        block.record_action(what, who)


def at_exit(blocks: list[Reads], frame: FrameType, *_given: Any, **_named: Any) -> None:
    record_action(blocks, frame, "registered what is to run at the end")


def asked_of(blocks: list[Reads], frame: FrameType, given: Any, *_others: Any, look: Look, **named: Any) -> None:
    """Record that the program asked what there is at a path, by ``os.stat`` and the like."""
    if type(given) is int or looks_for_code(frame):
        return
    path = os.fsdecode(given)
    if reader(frame, blocks[-1].frame, path) is not Reader.PROGRAM:
        return
    if not named.get("follow_symlinks", True):
        look = Look.LINK
    asking = _asking(frame)
    looks = {Look.KIND} if asking & _KINDS else {look} if asking & _LINKS else {look, Look.STATUS}
    for block in blocks:
        if named.get("dir_fd") is not None:
            block.record_action(f"asked for {path!a} in an unknown directory", Reader.PROGRAM)
        else:
            for each in looks:
                block.add_look(path, each)


def _asking(frame: FrameType | None) -> set[str]:
    """Return the names of the functions of Python's path modules at the top of the stack."""
    names = set()
    while frame is not None and package_of(frame) in _PATHS:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


def variable(blocks: list[Reads], frame: FrameType, _environ: Any, name: Any) -> None:
    if isinstance(name, str | bytes) and reader(frame, blocks[-1].frame) is not Reader.NOBODY:
        for block in blocks:
            block.add_variable(os.fsdecode(name))


def environment(blocks: list[Reads], frame: FrameType, _environ: Any) -> None:
    record_action(blocks, frame, "read the whole environment")
