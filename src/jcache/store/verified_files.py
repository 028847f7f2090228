"""Graphs that this process has verified, whose files it need not verify again while they are the same.

A program loads a trace once, and a graph at each call: only files of graphs are remembered.

A file is the same while its device, inode, size, modification time and change time are: every write moves the change
time, which no program can set. The system counts it in steps, of 10 ms at most where it has parts of a millisecond, and
of two seconds at most elsewhere. So a file is remembered only once its change time is older than that. Only files of
this machine are remembered, and for some minutes: then a disk that has lost bits is noticed, and the file's access time
moves as it does for others that are read.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import Final, NamedTuple, TypeAlias

from jcache import clock
from jcache.formats.envelope import EnvelopeHeader
from jcache.layout import Kind

MAX_KEPT_BYTES: Final = 64 << 10  # of a payload that is kept in memory
_MOST_FILES: Final = 128
_MILLISECOND_NS: Final = 1_000_000
_STEP_NS: Final = 50 * _MILLISECOND_NS
_LONG_STEP_NS: Final = 2_100 * _MILLISECOND_NS
_KEPT_NS: Final = 600_000_000_000

Identity: TypeAlias = tuple[int, int, int, int, int]


class VerifiedFile(NamedTuple):
    """A sealed file that was verified.

    Attributes:
        identity: what the file was.
        at_ns: when it was opened, nanoseconds since 1970.
        header: its header.
        payload: its payload, if that is small.
    """

    identity: Identity
    at_ns: int
    header: EnvelopeHeader
    payload: bytes | None


def identity_of(status: os.stat_result) -> Identity:
    """Return what a file is recognised by."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_settled(status: os.stat_result, at_ns: int) -> bool:
    """Return whether a change of a file after a time, in nanoseconds since 1970, is seen by its change time."""
    changed_ns = status.st_ctime_ns
    return 0 <= changed_ns <= at_ns - (_STEP_NS if changed_ns % _MILLISECOND_NS else _LONG_STEP_NS)


def recall(path: str, status: os.stat_result) -> VerifiedFile | None:
    """Return what was verified at a path, if the file there is still the same."""
    known = _files.get(path)
    if known is None or known.identity != identity_of(status):
        return None
    return known if 0 <= clock.now_ns() - known.at_ns < _KEPT_NS else None


def remember(
    path: str, status: os.stat_result, at_ns: int, header: EnvelopeHeader, payload: bytes | memoryview
) -> None:
    """Remember that the file of a path is verified.

    Args:
        path: the path.
        status: the status of the file when it was opened.
        at_ns: when it was opened, nanoseconds since 1970.
        header: its header.
        payload: its payload.
    """
    if header.kind != Kind.GRAPHS or not is_settled(status, at_ns):
        return
    kept = bytes(payload) if len(payload) <= MAX_KEPT_BYTES else None
    _files[path] = VerifiedFile(identity_of(status), at_ns, header, kept)
    while len(_files) > _MOST_FILES:
        try:
            _files.popitem(last=False)
        except KeyError:  # another thread has removed them
            break


def forget_all() -> None:
    """Forget all files, so that each is verified when it is opened next."""
    _files.clear()


_files: Final[OrderedDict[str, VerifiedFile]] = OrderedDict()
