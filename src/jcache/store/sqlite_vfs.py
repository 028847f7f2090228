"""An SQLite file system that opens the path it is given, and not what the path leads to at that moment.

SQLite resolves all symbolic links of a database's path when it opens it, ``/proc/self/fd/N`` included, and finds the
journal by the resolved path later: who puts a link in the place of the directory meanwhile has SQLite write elsewhere.
So SQLite's own ``unix`` file system is registered once more under another name, with an ``xFullPathname`` that changes
nothing (sqlite.org/c3ref/vfs.html). Only connections that ask for it by name use it.

A process may have another SQLite as well: TensorFlow's library shows its own to all that is loaded later. Then Python's
module may use either, and a call of the other one ends the process; no file system is registered.
"""

from __future__ import annotations

import sqlite3
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ctypes

_VERSION: Final = 3  # of the structure; older ones are shorter
_OK, _CANNOT_OPEN = 0, 14  # SQLITE_OK, SQLITE_CANTOPEN
_POINTERS_BEFORE: Final = ("xOpen", "xDelete", "xAccess")
_POINTERS_AFTER: Final = (
    "xDlOpen",
    "xDlError",
    "xDlSym",
    "xDlClose",
    "xRandomness",
    "xSleep",
    "xCurrentTime",
    "xGetLastError",
    "xCurrentTimeInt64",
    "xSetSystemCall",
    "xGetSystemCall",
    "xNextSystemCall",
)
_registered: Final[list[object]] = []  # SQLite refers to them for good


@cache
def verbatim(name: str) -> str | None:
    """Return the name of a VFS like the named one that takes paths as they are; None if it cannot be made.

    Args:
        name: of one of SQLite's, ``unix`` or ``unix-dotfile``.
    """
    if sys.platform != "linux":  # elsewhere no path leads to an open directory
        return None
    try:
        return _register(name)
    except (
        ImportError,
        OSError,
        AttributeError,
        ValueError,
        sqlite3.Error,
    ):  # out of this Python's reach
        return None


def _register(name: str) -> str | None:
    import _sqlite3
    import ctypes

    structure, function = _types()
    library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
    if _has_another(library):
        return None
    library.sqlite3_vfs_find.restype = ctypes.POINTER(structure)
    library.sqlite3_vfs_find.argtypes = [ctypes.c_char_p]
    library.sqlite3_vfs_register.argtypes = [ctypes.POINTER(structure), ctypes.c_int]
    theirs: Any = library.sqlite3_vfs_find(name.encode()).contents
    if theirs.iVersion < _VERSION:
        return None
    ours: Any = structure()
    ctypes.memmove(ctypes.byref(ours), ctypes.byref(theirs), ctypes.sizeof(structure))
    ours.xFullPathname, ours.zName, ours.pNext = function(_full_pathname), f"jcache-{name}".encode(), None
    if library.sqlite3_vfs_register(ctypes.byref(ours), 0) != _OK:
        return None
    _registered.append(ours)
    sqlite3.connect(f"file::memory:?vfs=jcache-{name}", uri=True).close()  # the very SQLite that Python uses has it
    return f"jcache-{name}"


def _has_another(library: ctypes.CDLL) -> bool:
    """Return whether the process has another SQLite than a library's, for all to see."""
    import ctypes

    shown = ctypes.CDLL(None)
    if not hasattr(shown, "sqlite3_vfs_find"):
        return False
    one, other = (ctypes.cast(each.sqlite3_vfs_find, ctypes.c_void_p).value for each in (shown, library))
    return one != other


def _full_pathname(_: object, path: bytes, size: int, out: int) -> int:
    import ctypes

    if len(path) >= size:
        return _CANNOT_OPEN
    ctypes.memmove(out, path + b"\0", len(path) + 1)
    return _OK


def _types() -> tuple[type[ctypes.Structure], Any]:
    """Return the structure ``sqlite3_vfs`` of version 3, and the type of its ``xFullPathname``."""
    import ctypes

    class Structure(ctypes.Structure):
        pass

    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Structure), ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p)
    fields: list[Any] = [(name, ctypes.c_int) for name in ("iVersion", "szOsFile", "mxPathname")]
    fields += [("pNext", ctypes.c_void_p), ("zName", ctypes.c_char_p), ("pAppData", ctypes.c_void_p)]
    fields += [(name, ctypes.c_void_p) for name in _POINTERS_BEFORE]
    fields += [("xFullPathname", function)]
    fields += [(name, ctypes.c_void_p) for name in _POINTERS_AFTER]
    Structure._fields_ = fields
    return Structure, function
