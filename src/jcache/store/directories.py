"""Opens the directories of a root so that no symbolic link below the root is ever followed.

Each component below the root is opened relative to the one above it, with ``O_NOFOLLOW`` and ``O_DIRECTORY``. What is
then done by ``dir_fd`` stays in the directory that was opened, whatever its name leads to by now. The root's own path
may be a link, which a command follows once.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

from jcache.errors import CannotWrite
from jcache.layout import Kind, Root

_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_HELD: Final = "/proc/self/fd"


@contextmanager
def opened(root: Root, directory: Path, *, make: bool = False) -> Iterator[int]:
    """Return the descriptor of a directory of a root, for the block.

    Args:
        root: whose.
        directory: the root's path, the directory of its state, or one below either.
        make: whether to make it, and what is missing above it.

    Raises:
        OSError: it cannot be opened or made; `NotADirectoryError` if a symbolic link is in the way.
    """
    above, names = _way(root.path, root.state_path, directory)
    if make and above != root.path:
        above.mkdir(parents=True, exist_ok=True)
    descriptor = open_below(above, *names, make=make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@lru_cache(64)
def _way(path: Path, state_path: Path | None, directory: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the directory above the root or its state, and the names on the way from there to one of them."""
    is_state = state_path is not None and directory.is_relative_to(state_path)
    above = state_path.parent if state_path is not None and is_state else path
    return above, directory.relative_to(above).parts


def open_below(base: Path, *names: str, make: bool = False) -> int:
    """Open a directory below another one, without following links below that; to be closed by the caller.

    Args:
        base: the directory from which on no link is followed.
        names: of the directories on the way.
        make: whether to make what is missing of those.

    Raises:
        OSError: as of `opened`.
    """
    descriptor = os.open(_resolved_once(base), _FLAGS | os.O_NOFOLLOW) if _once else os.open(base, _FLAGS)
    for name in names:
        descriptor = _descend(descriptor, name, make=make)
    return descriptor


class Directories:
    """The directories of a root, each opened when it is first asked for and kept open until the end of a block.

    Args:
        root: whose.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._open = ExitStack()
        self._descriptors: dict[Path, int] = {}
        self._kinds: dict[Kind, Path] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close those that are open; what is asked for later is opened anew."""
        self._descriptors.clear()
        self._open.close()

    def descriptor(self, directory: Path, *, make: bool = False) -> int:
        """Return the descriptor of one of them.

        Raises:
            OSError: as of `opened`.
        """
        if directory not in self._descriptors:
            self._descriptors[directory] = self._open.enter_context(opened(self._root, directory, make=make))
        return self._descriptors[directory]

    def of_entry(self, kind: Kind, key: str, *, legacy: bool = False) -> tuple[str, int]:
        """Return the name of an entry's file, and the descriptor of its directory; raise the same."""
        if kind not in self._kinds:
            self._kinds[kind] = self._root.directory(kind)
        above, _, name = self._root.file_name(kind, key, legacy=legacy).rpartition("/")
        return name, self.descriptor(self._kinds[kind] / above if above else self._kinds[kind])

    def of(self, path: Path) -> tuple[str, int]:
        """Return the name of a file of the root, and the descriptor of its directory; raise the same."""
        return path.name, self.descriptor(path.parent)


def is_there(name: str, directory: int) -> bool:
    """Return whether an open directory has a name, whatever stands behind it."""
    try:
        os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


def is_link(root: Root, directory: Path) -> bool:
    """Return whether a symbolic link lies on the way from the root to one of its directories."""
    try:
        with opened(root, directory):
            return False
    except OSError as error:
        return error.errno == errno.ENOTDIR and directory.is_symlink()


def path_of(descriptor: int) -> Path | None:
    """Return a path of an open directory that holds even if it is renamed; None if the system has no such paths."""
    path = Path(_HELD, str(descriptor))
    return path if _is_same(path, descriptor) else None


def compare(path: Path, descriptor: int) -> None:
    """Raise CannotWrite unless a path leads to an open directory."""
    if not _is_same(path, descriptor):
        raise CannotWrite(f"{path} was replaced by another directory: nothing more is done there.")


def _is_same(path: Path, descriptor: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    return False


def follow_roots_once() -> None:
    """Resolve the path of each root once in this process, which runs a command; a program may outlive links."""
    global _once
    _once = True


_once = False


@lru_cache(64)
def _resolved_once(path: Path) -> str:
    return os.path.realpath(path)


def _descend(above: int, name: str, *, make: bool) -> int:
    """Open a directory in an open one, which is closed then, whatever comes of it."""
    try:
        if "/" in name or name in ("", ".", ".."):
            raise OSError(errno.EINVAL, "no name of a directory", name)
        try:
            return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=above)
        except FileNotFoundError:
            if not make:
                raise
        _make(above, name)
        return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        link = stat.S_ISLNK(os.lstat(name, dir_fd=above).st_mode)
        what = "a symbolic link, which is not followed" if link else "no directory"
        raise NotADirectoryError(errno.ENOTDIR, f"{name} is {what}", name) from None
    finally:
        os.close(above)


def _make(above: int, name: str) -> None:
    """Make a directory unless there is one, and leave the time of the one above: no entry has changed there."""
    before = os.fstat(above)
    try:
        os.mkdir(name, dir_fd=above)
    except FileExistsError:
        return
    with suppress(OSError):
        os.utime(above, ns=(before.st_atime_ns, before.st_mtime_ns))
