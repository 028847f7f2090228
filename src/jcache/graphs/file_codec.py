"""`FileCodec`: graphs that the program's own functions write to a file and read from one.

The entry of such a graph is a sealed envelope like any other, and its payload is the file. Before the first load, the
payload is written to ``ROOT/.jcache/handed/<key>``. Each process compares that file with the entry, and again whenever
the file has changed (`jcache.store.verified_files`), and replaces it if it differs. Removing the entry removes the
file; a process that has mapped it keeps its mapping.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final
from weakref import finalize

from jcache import clock
from jcache.errors import InvalidValue, NotStorable
from jcache.formats.pytrees import Dumped
from jcache.layout import TEMPORARY_PREFIX, Root, check_key
from jcache.store import files
from jcache.store.directories import opened
from jcache.store.file_systems import is_local
from jcache.store.verified_files import Identity, identity_of, is_settled

_PIECE: Final = 1 << 20
_MOST_COMPARED: Final = 1_000


class FileCodec:
    """Two functions that keep graphs as files: one writes a file, the other reads it.

        cache = jcache.GraphCache(codec=jcache.FileCodec(save=write_mesh, load=map_mesh))

    Args:
        save: function of a value and the path of the file, a text, that it writes.
        load: function of the path of such a file that returns the value; it may map the file, but not change it.
        name: name of the format. It is stored with each graph, and only a codec of this name loads the graph. By
            default the module and qualified name of ``save``.

    Raises:
        InvalidValue: one of the two is no function, or no name is given and ``save`` has none.
    """

    def __init__(
        self, save: Callable[[Any, str], object], load: Callable[[str], Any], *, name: str | None = None
    ) -> None:
        if not callable(save) or not callable(load):
            raise InvalidValue("A FileCodec is made of two functions, `save(value, path)` and `load(path)`.")
        given = name or f"{getattr(save, '__module__', '')}:{getattr(save, '__qualname__', '')}"
        if given.startswith(":") or given.endswith((":", "<lambda>")) or not given.isprintable():
            raise InvalidValue("A FileCodec needs a `name`: its function `save` has none of its own.")
        self.save = save
        self.load = load
        self.name = f"file:{given}"

    def __repr__(self) -> str:
        return f"FileCodec({self.name.removeprefix('file:')!r})"

    def dump(self, value: object, directory: Path | None = None) -> Dumped:
        """Return the bytes that ``save`` writes for a value.

        Args:
            value: the value.
            directory: directory of the temporary file; by default the system's.

        Raises:
            NotStorable: ``save`` raised an exception or wrote no file.
        """
        path = Path(directory or tempfile.gettempdir()) / f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"
        try:
            if directory is not None:
                directory.mkdir(parents=True, exist_ok=True)
            self.save(value, str(path))
            return Dumped((files.read(path),), self.name)
        except FileNotFoundError as error:
            raise NotStorable(
                f"{self!r} cannot store the value: its `save` has written no file at its path."
            ) from error
        except Exception as error:
            raise NotStorable(f"{self!r} cannot store the value: its `save` raised {error!r}.") from error
        finally:
            with suppress(OSError):
                os.unlink(path)


def hand_over(root: Root, key: str, payload: memoryview, content: str | None = None) -> Path:
    """Return a file at a stable path with a verified payload.

    Args:
        root: root of the file; if it cannot be written, the file is in a temporary directory of this process.
        key: key of the entry, which may be in another root.
        payload: the file's bytes.
        content: their digest in the entry, under which the comparison is remembered; None to forget it.

    Raises:
        OSError: the file cannot be written in either place.
    """
    place = root.handed / check_key(key)
    if _is_compared(place, content):
        return place
    try:
        with opened(root, root.handed, make=True) as directory:
            if not _holds(key, payload, directory=directory, place=place, content=content):
                files.publish(key, payload, directory=directory)
    except OSError:
        place = _of_process() / key
        if not _is_compared(place, content) and not _holds(place, payload, place=place, content=content):
            files.publish(place, payload)
    return place


def _is_compared(place: Path, content: str | None) -> bool:
    """Return whether a file is unchanged since this process compared it with an entry."""
    known = _compared.get(place)
    try:
        return known is not None and known == (content, identity_of(os.lstat(place)))
    except OSError:
        return False


def _holds(
    path: str | Path, data: memoryview, *, place: Path, content: str | None, directory: int | None = None
) -> bool:
    """Return whether a path is a regular file of exactly these bytes.

    Args:
        path: the path, relative to `directory` if that is given.
        data: the bytes.
        place: the absolute path.
        content: digest under which the comparison is remembered; None to forget it.
        directory: descriptor of an open directory.
    """
    at_ns = clock.now_ns()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return False
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != len(data):
            return False
        start = 0
        while piece := file.read(_PIECE):
            if piece != bytes(data[start : start + len(piece)]):  # views are compared item by item
                return False
            start += len(piece)
        if start == len(data) and content is not None and is_settled(status, at_ns) and is_local(descriptor):
            if len(_compared) >= _MOST_COMPARED:
                _compared.clear()
            _compared[place] = content, identity_of(status)
        return start == len(data)


_compared: Final[dict[Path, tuple[str, Identity]]] = {}  # by path, digest of the content, and what the file is


@cache
def _of_process() -> Path:
    """Return a temporary directory that is removed when this process ends."""
    path = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX))
    finalize(_of_process, _remove, path, os.getpid())
    return path


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a forked child
        shutil.rmtree(path, ignore_errors=True)
