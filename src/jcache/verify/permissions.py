"""Check who can replace the native code in a root, by owners and modes of its directories and entries."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from jcache.findings import Damage, Finding
from jcache.layout import Kind, Root
from jcache.text import quoted


class Exposure(NamedTuple):
    """Mode, owner and group of a file or directory, which decide who can change it."""

    mode: int
    owner: int
    group: int

    @classmethod
    def of(cls, status: os.stat_result) -> Exposure:
        return cls(status.st_mode, status.st_uid, status.st_gid)

    @property
    def writers(self) -> str | None:
        """Users other than the owner who may write, in words; None if nobody may."""
        if self.mode & stat.S_IWOTH:
            return "Everyone"
        if self.mode & stat.S_IWGRP and not _is_private_group(self.group, self.owner):
            return f"The group {_group_name(self.group)}"
        return None

    @property
    def shared(self) -> bool:
        """Whether a group of several users may write, so that each of them may own entries."""
        return bool(self.mode & stat.S_IWGRP) and not _is_private_group(self.group, self.owner)


def check_directories(root: Root) -> Iterator[Finding]:
    """Yield findings on directories of a root in which somebody else can replace entries."""
    below = [root.path / name for name in root.layout.directories]
    ours = _trusted_owners(root)
    of_jcache = [root.state, root.pins.parent, root.pins]
    for directory in dict.fromkeys([root.path, *map(root.directory, Kind), *below, *of_jcache]):
        yield from _check_path(directory, f"replace {root.layout.contents} in it", ours)
    yield from _check_path(root.ledger, "change what is on record in it", ours)
    yield from _check_path(root.settings, "change its limits", ours)


def _trusted_owners(root: Root) -> frozenset[int]:
    """Return the trusted owners: the system and the user; for the superuser, also the owner of the root."""
    if os.geteuid() != 0:
        return frozenset({0, os.geteuid()})
    try:
        return frozenset({0, os.stat(root.path).st_uid})
    except OSError:
        return frozenset({0})


def _check_path(path: Path, can: str, ours: frozenset[int]) -> Iterator[Finding]:
    """Yield findings on a directory or file that others can change."""
    try:
        exposure = Exposure.of(os.stat(path))
    except OSError:
        return
    if exposure.writers:
        yield Finding(
            damage=Damage.WRITABLE,
            path=path,
            evidence=f"{exposure.writers} can {can}, mode {stat.S_IMODE(exposure.mode):o}.",
            advice=f"chmod go-w {quoted(str(path))}",
        )
    if exposure.owner not in ours and not exposure.shared:
        yield Finding(
            damage=Damage.OWNER,
            path=path,
            evidence=f"{_user_name(exposure.owner)} owns it and can {can}.",
            advice=f"trust {_user_name(exposure.owner)} with what your programs run, or use a root of your own",
        )


def check_entries(
    directory: Path, kind: Kind, exposures: Mapping[Exposure, int], *, pattern: str = "*-cache"
) -> Iterator[Finding]:
    """Yield findings, summed up, on entries of a directory that others can change or own.

    Args:
        directory: directory of the entries.
        kind: kind of the entries.
        exposures: number of entries for each mode, owner and group.
        pattern: shell pattern that matches the entries' file names.
    """
    try:
        holder = Exposure.of(os.stat(directory))
    except OSError:
        return
    owner = holder.owner
    writable = sum(count for exposure, count in exposures.items() if exposure.writers)
    if writable:
        yield Finding(
            damage=Damage.WRITABLE,
            path=directory,
            evidence=f"{writable:,} of its entries can be changed by users other than their owner.",
            kind=kind,
            advice=f"chmod go-w {quoted(str(directory))}/{pattern}",
        )
    foreign: Counter[int] = Counter()
    for exposure, count in exposures.items():
        if exposure.owner not in (0, owner) and not (holder.shared and exposure.group == holder.group):
            foreign[exposure.owner] += count
    for uid, count in sorted(foreign.items()):
        yield Finding(
            damage=Damage.OWNER,
            path=directory,
            evidence=f"{count:,} of its entries belong to {_user_name(uid)}, the directory to {_user_name(owner)}.",
            kind=kind,
            advice=f"find {quoted(str(directory))} -user {_user_name(uid)} -path '{pattern}' -ls: chown or remove them",
        )


def _is_private_group(gid: int, uid: int) -> bool:
    """Return whether a user is the only member of a group; most Linux distributions make one group for each user."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
