"""Imports of files of XLA's sub-caches, which lie in directories beside the executables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from jcache.shipping.archive.manifest import XlaFile
from jcache.shipping.importer.outcome import ImportOutcome
from jcache.shipping.importer.staging import ByteSource, stage_file
from jcache.store import files


def publish_neighbour(
    neighbour: XlaFile, content: ByteSource, executables: int, *, written_ns: int, replace: bool
) -> ImportOutcome:
    """Write a file of XLA's sub-caches, and publish it if it has the size and digest of the manifest.

    Args:
        neighbour: the file.
        content: bytes of the entry or file.
        executables: descriptor of the executables' directory.
        written_ns: modification time of the file, nanoseconds since 1970.
        replace: whether it replaces a file that is there.

    Raises:
        CannotWrite: the root is read-only or full, or something else has the name of one of its directories.
        ContentMismatch: size or digest differ.
    """
    *parents, name = neighbour.path.split("/")
    with files.refusal(f"store {neighbour.path}"), _open_subdirectory(executables, parents) as directory:
        file = stage_file(content, neighbour, directory, written_ns).file
        try:
            file.publish(name, replace=replace)
        except FileExistsError:
            return ImportOutcome.DIFFERENT
        finally:
            file.discard()
    return ImportOutcome.REPLACED if replace else ImportOutcome.NEW


@contextmanager
def _open_subdirectory(directory: int, names: list[str]) -> Iterator[int]:
    """Open a directory below another, and make it if it is missing; follow no symbolic link."""
    current = os.dup(directory)
    try:
        for name in names:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=current)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            below = os.open(name, flags, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)
