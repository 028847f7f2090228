"""Whether a file's access time tells when it was last used: plain JAX records no use where its cache has no bound.

On Linux the options of the mount say so. A local file system with ``relatime``, as is usual, moves the access time with
the first reading after a writing, and then at most once a day; with ``strictatime`` at each reading; with ``noatime``
never. What other machines read through a network file system need not move it, nor what is read below an overlay. Other
systems are taken to keep none.

Our own reading leaves the access time where the system allows it (`jcache.store.files.open_to_look`). Where it does
not, since the files belong to somebody else, a mark in the root says until when access times may be ours.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final, NamedTuple

from jcache import clock
from jcache.layout import Kind, Root
from jcache.store.directories import opened
from jcache.store.files import LATEST_NS, moved_in

UNKNOWN: Final = -1  # in place of an access time: nobody knows when the file was last read
NEVER: Final = 0  # nobody has read it since it was written
DAY_NS: Final = 86_400_000_000_000
_AHEAD_NS: Final = 300_000_000_000
_LOCAL: Final = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "ramfs", "zfs", "bcachefs", "jfs", "reiserfs", "nilfs2")
)
_MOUNTS: Final = "/proc/self/mountinfo"


class AccessTimes(NamedTuple):
    """What access times in a directory tell.

    Attributes:
        within_ns: how much later than its access time a file may have been read; None where the time tells nothing.
        moved_ns: until when jcache itself may have moved them, nanoseconds since 1970.
        latest_ns: later ones are wrong.
        reason: why they tell nothing, as the end of a sentence; empty where they do.
    """

    within_ns: int | None
    moved_ns: int = 0
    latest_ns: int = LATEST_NS
    reason: str = ""

    def used_ns(self, status: os.stat_result) -> int:
        """When a file was last read, nanoseconds since 1970, `NEVER` since it was written, or `UNKNOWN`."""
        accessed = status.st_atime_ns
        if self.within_ns is None:
            return UNKNOWN
        if accessed <= status.st_mtime_ns:
            return NEVER
        return accessed if self.moved_ns < accessed <= self.latest_ns else UNKNOWN

    @property
    def why_unknown(self) -> str:
        """Why a last use is unknown, as the end of a sentence."""
        return self.reason or "jcache had to move access times here, since it read files that belong to others"


NOT_KEPT: Final = AccessTimes(None, reason="access times are not looked at on this system")


def access_times(descriptor: int, root: Root | None = None) -> AccessTimes:
    """What the access times of files in an open directory tell.

    Args:
        descriptor: of the directory.
        root: that it is of, where jcache may have left its mark.
    """
    mount = _mount_of(descriptor)
    if mount is None:
        return NOT_KEPT
    options, kind, of_all = mount
    if "noatime" in options:
        return AccessTimes(None, reason="the file system is mounted with noatime")
    if kind not in _LOCAL:
        return AccessTimes(None, reason=f"access times tell nothing on this kind of file system ({kind})")
    if "ro" in options or "ro" in of_all:
        return AccessTimes(None, reason="the file system is mounted read-only")
    moved_ns = 0
    if root is not None:
        with suppress(OSError):
            moved_ns = os.lstat(root.moved_mark).st_mtime_ns
    within_ns = DAY_NS if "relatime" in options else 0
    return AccessTimes(within_ns, moved_ns, clock.now_ns() + _AHEAD_NS)


def _mount_of(descriptor: int) -> tuple[frozenset[str], str, frozenset[str]] | None:
    """The options of the mount that a file lies in, its type, and the options of its file system."""
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as lines:
            number = next(line.split()[1] for line in lines if line.startswith(b"mnt_id:"))
        with open(_MOUNTS, "rb") as lines:
            line = next(line for line in lines if line.startswith(number + b" "))
    except (OSError, StopIteration, IndexError):
        return None
    before, _, behind = os.fsdecode(line).partition(" - ")
    fields, rest = before.split(), behind.split()
    if len(fields) < 6 or not rest:
        return None
    return frozenset(fields[5].split(",")), rest[0], frozenset(rest[-1].split(","))


def note_moved(root: Root) -> str | None:
    """Leaves a mark in a root where this process has moved access times; a sentence if that cannot be done."""
    below = root.adapter.directories if root.adapter else ()
    if not any(map(moved_in, [*map(root.directory, Kind), *(root.path / name for name in below)])):
        return None
    mark = root.moved_mark
    try:
        with opened(root, root.path) as directory:
            if access_times(directory).within_ns is None:
                return None
        with opened(root, mark.parent, make=True) as state:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(mark.name, flags, 0o666, dir_fd=state)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.utime(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        return (
            f"Files in {root.path} belong to others, so that reading them has moved their access times, by which "
            f"jcache prune tells their last use, and {root.state} cannot say so ({error.strerror}): let their owner "
            "run this command."
        )
    return None
