"""Symbolic links at paths that keys of executables contain.

JAX up to 0.10.2 hashes the string that ``jax_compilation_cache_dir`` is set to, and not the directory that it leads to:
with a link at the old path and that path as the setting, the old keys hit in the new place.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from jcache.errors import CannotWrite
from jcache.store.files import refusal
from jcache.text import shown


def make_link(old_path: str | Path, directory: Path) -> bool:
    """Make the old path a link to a directory; make missing parent directories.

    Args:
        old_path: the path in the keys.
        directory: directory that the executables are in, or will be.

    Returns:
        Whether a link was made; False if the path leads there already.

    Raises:
        CannotWrite: something else is at the path, the path is not absolute, or the link cannot be made.
    """
    if not needs_link(old_path, directory):
        return False
    old, target = Path(old_path), Path(os.path.abspath(directory))
    with refusal(f"link {shown(str(old))} to {shown(str(target))}"):
        made = _make_parents(old.parent)
        try:
            os.symlink(target, old)
        except FileExistsError:  # another process was faster, and may have made the same link
            if os.path.realpath(old) != os.path.realpath(target):
                raise
            return False
        except OSError:
            for path in made:
                with suppress(OSError):
                    os.rmdir(path)
            raise
    return True


def needs_link(old_path: str | Path, directory: Path) -> bool:
    """Return whether a link must still be made; change nothing.

    Raises:
        CannotWrite: the link cannot be made, as far as can be seen.
    """
    old, target = Path(old_path), Path(os.path.abspath(directory))
    what = f"Cannot link {shown(str(old_path))} to {shown(str(target))}"
    if not old.is_absolute() or "\0" in str(old):
        raise CannotWrite(f"{what}: only an absolute path can be a link for every program.")
    if os.path.realpath(old) == os.path.realpath(target):
        return False
    if os.path.realpath(target).startswith(os.path.join(os.path.realpath(old), "")):
        raise CannotWrite(f"{what}, which lies in it.")
    if (there := blocking_path(old)) is not None:
        found = f"{_describe(old)} is there" if there == old else f"{shown(str(there))} is {_describe(there)}"
        raise CannotWrite(f"{what}: {found}; move it away first.")
    if (above := unwritable_directory(old)) is not None:
        raise CannotWrite(f"{what}: {shown(str(above))} is read-only, or you may not write in it.")
    return True


def unwritable_directory(path: Path) -> Path | None:
    """Return the existing directory in which a path would have to be made, if it cannot be written; None if it can."""
    above = path.parent
    while not os.path.lexists(above):
        above = above.parent
    return above if above.is_dir() and not os.access(above, os.W_OK | os.X_OK) else None


def blocking_path(path: Path) -> Path | None:
    """Return what prevents a link: something at the path, or a file in place of a directory above; None for nothing."""
    if os.path.lexists(path):
        return path
    above = path.parent
    while not os.path.lexists(above):
        above = above.parent
    return None if os.path.isdir(above) else above


def _make_parents(path: Path) -> list[Path]:
    """Make a directory and its parents; return those that were made, the deepest first."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    made: list[Path] = []
    for directory in reversed(missing):
        with suppress(FileExistsError):
            directory.mkdir()
            made.insert(0, directory)
    return made


def _describe(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"a link to {shown(os.readlink(path))}"
    if not stat.S_ISDIR(mode):
        return "a file"
    try:
        return "an empty directory" if not os.listdir(path) else "a directory with something in it"
    except OSError:
        return "a directory"
