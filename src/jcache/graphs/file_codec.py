"""Graphs that other code reads from a file: written to a temporary path, and handed over as a file at a stable one.

The entry of such a graph is a sealed envelope like any other, whose payload is the file. To be loaded, the payload is
laid out once as ``ROOT/.jcache/handed/<key>``. Each process compares that with the entry, again whenever it was changed
(`jcache.store.verified_files`), and writes it anew if it differs. Removing the entry removes this file too; who has
mapped it keeps what he has mapped.
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
    """How graphs are kept as files: two functions, one that writes a file and one that reads it.

        cache = jcache.GraphCache(codec=jcache.FileCodec(save=write_mesh, load=map_mesh))

    Args:
        save: is called with a value and the path of a file, as text, which it is to write.
        load: is called with the path of such a file and returns the value; it may map the file, not change it.
        name: of the format, stored with each graph, which is loaded only by a codec of this name; the module and
            qualified name of ``save`` unless given.

    Raises:
        InvalidValue: one of the two is no function, or ``save`` has no name of its own.
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
        """A value as bytes: what ``save`` writes.

        Args:
            value: which.
            directory: where the temporary file is to be; that of the system for such files, unless given.

        Raises:
            NotStorable: ``save`` failed, or has written no file.
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
    """A graph's payload, which is verified, as a file at a stable path.

    Args:
        root: where it is to lie; where that cannot be written, it lies in a directory of this process.
        key: of the entry, which may be in another root.
        payload: the file's bytes.
        content: their digest in the entry, by which the comparison is remembered; None if it is not to be.

    Raises:
        OSError: the file can be written nowhere.
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
    """Whether the file of a path is still the one that this process has compared with an entry."""
    known = _compared.get(place)
    try:
        return known is not None and known == (content, identity_of(os.lstat(place)))
    except OSError:
        return False


def _holds(
    path: str | Path, data: memoryview, *, place: Path, content: str | None, directory: int | None = None
) -> bool:
    """Whether a path, in an open directory if one is given, is a regular file of exactly these bytes.

    Args:
        path: the path.
        data: the bytes.
        place: the whole path.
        content: what the comparison is remembered by.
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
    """A directory that goes with this process."""
    path = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX))
    finalize(_of_process, _remove, path, os.getpid())
    return path


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not one that it has forked
        shutil.rmtree(path, ignore_errors=True)
