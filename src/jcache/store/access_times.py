"""Whether a file's access time tells when it was last used: plain JAX records no use where its cache has no bound.

On Linux the options of the mount say so. A local file system with ``relatime``, as is usual, moves the access time with
the first reading after a writing, and then at most once a day; with ``strictatime`` at each reading; with ``noatime``
never. What other machines read through a network file system need not move it, nor what is read below an overlay. Other
systems are taken to keep none.

Our own reading leaves the access time where the system allows it (`jcache.store.unmoved_reads`). Where it does not,
since the files belong to somebody else, a file in the root says which access times are ours::

    ROOT/.jcache/moved       a line for each file: its inode, the access time that our reading has given it, and the one
                             before; after many files, or under strictatime, inode 0 and until when all may be ours
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from jcache import clock
from jcache.frozen import Frozen
from jcache.layout import Kind, Root
from jcache.store.directories import opened
from jcache.store.files import publish, read
from jcache.store.sidecar import LATEST_NS
from jcache.store.unmoved_reads import Moved, add_moved, moved_in

UNKNOWN: Final = -1  # in place of an access time: nobody knows when the file was last read
AHEAD: Final = -2  # the same, since the access time lies in the future
NEVER: Final = 0  # nobody has read it since it was written
DAY_NS: Final = 86_400_000_000_000
_AHEAD_NS: Final = 300_000_000_000
_ALL: Final = 0  # in place of an inode
_MOST: Final = 4096  # files that are named
_LARGEST: Final = 1 << 19
_GET_FLAGS: Final = 0x80086601  # FS_IOC_GETFLAGS of linux/fs.h, on most machines
_NO_ATIME_FLAG: Final = 0x80  # FS_NOATIME_FL
_LOCAL: Final = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "ramfs", "zfs", "bcachefs", "jfs", "reiserfs", "nilfs2")
)
_MOUNTS: Final = "/proc/self/mountinfo"


class AccessTimes(NamedTuple):
    """What access times in a directory tell.

    Attributes:
        within_ns: how much later than its access time a file may have been read; None where the time tells nothing.
        moved: which of them jcache itself has moved, by inodes; `_ALL` says until when it may have moved all.
        latest_ns: later ones are wrong.
        reason: why they tell nothing, as the end of a sentence; empty where they do.
    """

    within_ns: int | None
    moved: Mapping[int, Moved] = Frozen({})
    latest_ns: int = LATEST_NS
    reason: str = ""

    def used_ns(self, status: os.stat_result) -> int:
        """Return when a file was last read, in ns since 1970, `NEVER` since it was written, or `UNKNOWN` or `AHEAD`."""
        accessed = status.st_atime_ns
        if self.within_ns is None:
            return UNKNOWN
        if accessed <= status.st_mtime_ns:
            return NEVER
        if accessed > self.latest_ns:
            return AHEAD
        if self.moved:
            if accessed <= self.moved[_ALL].to_ns:
                return UNKNOWN
            moved = self.moved.get(status.st_ino)
            if moved is not None and moved.to_ns == accessed:
                return moved.from_ns if moved.from_ns > status.st_mtime_ns else UNKNOWN
        return accessed

    def why_unknown(self, used: Collection[int]) -> str:
        """Return why `used_ns` could not tell last uses, as the end of a sentence."""
        if self.reason:
            return self.reason
        ahead = "access times lie in the future of this machine's clock" if AHEAD in used else ""
        moved = "jcache has read files of other users here, which changed their access times"
        return "; ".join(filter(None, (moved if UNKNOWN in used else "", ahead)))


NOT_KEPT: Final = AccessTimes(None, reason="jcache does not use access times on this system")


def access_times(descriptor: int, root: Root | None = None) -> AccessTimes:
    """Return what the access times of files in an open directory tell.

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
        return AccessTimes(None, reason=f"this kind of file system ({kind}) keeps no reliable access times")
    if "ro" in options or "ro" in of_all:
        return AccessTimes(None, reason="the file system is mounted read-only")
    if _has_attribute(descriptor):
        return AccessTimes(None, reason="the directory has the attribute A (chattr), so its files get no access times")
    moved = {} if root is None else _moved(root)
    within_ns = DAY_NS if "relatime" in options else 0
    return AccessTimes(within_ns, moved, clock.now_ns() + _AHEAD_NS)


def _has_attribute(descriptor: int) -> bool:
    """Return whether new files in an open directory keep no access times, as chattr(1) can set on Linux."""
    try:
        import fcntl

        answer = fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8))
    except (ImportError, OSError):  # not on this system, or not on this file system
        return False
    return bool(int.from_bytes(answer[:4], sys.byteorder) & _NO_ATIME_FLAG)


def _moved(root: Root) -> dict[int, Moved]:
    """Return the moved access times on record in a root; an unreadable record counts as empty."""
    try:
        with opened(root, root.moved_mark.parent) as state:
            lines = read(root.moved_mark.name, _LARGEST, directory=state).splitlines()
        numbers = [tuple(min(int(number), LATEST_NS) for number in line.split()) for line in lines]
        told = {inode: Moved(to_ns, from_ns) for inode, to_ns, from_ns in numbers}
    except (OSError, ValueError):
        return {}
    return {_ALL: Moved(0, 0), **told} if told else {}


def _mount_of(descriptor: int) -> tuple[frozenset[str], str, frozenset[str]] | None:
    """Return the options of the mount that a file lies in, its type, and the options of its file system."""
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
    """Record in a root which access times this process has moved; return a sentence if that fails."""
    moved: dict[int, Moved] = {}
    for place in (*map(root.directory, Kind), *(root.path / name for name in root.layout.directories)):
        moved |= moved_in(place)
    if not moved:
        return None
    mark = root.moved_mark
    try:
        with opened(root, root.path) as directory:
            within_ns = access_times(directory).within_ns
        if within_ns is None:
            return None
        known = _moved(root)
        if all(inode in known and known[inode].to_ns == one.to_ns for inode, one in moved.items()):
            return None
        add_moved(known, moved)
        if within_ns == 0 or len(known) > _MOST:
            known = {_ALL: Moved(max(clock.now_ns(), *(one.to_ns for one in known.values())), 0)}
        text = "".join(f"{inode} {to_ns} {from_ns}\n" for inode, (to_ns, from_ns) in known.items())
        with opened(root, mark.parent, make=True) as state:
            publish(mark.name, text.encode(), directory=state)
    except OSError as error:
        return (
            f"jcache has read files of other users in {root.path}, which changed the access times that tell jcache "
            f"prune their last use, and it cannot record this in {root.state} ({error.strerror}): let the owner of the "
            "files run this command."
        )
    return None
