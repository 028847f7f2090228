"""Remove entries from a directory, one by one, under its lock.

The entry's file goes first and then its sidecar: a sidecar alone harms nobody, an entry without one stops every bounded
put of jax <= 0.11.1.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from jcache import clock
from jcache.entry import Entry, is_young
from jcache.frozen import Frozen
from jcache.layout import ASIDE_PREFIX, ENTRY_SUFFIX, SIDECAR_SUFFIX, XLA_NAMES, Kind, Root
from jcache.store import file_tree, files
from jcache.store.access_times import AccessTimes, access_times
from jcache.store.directories import Directories, is_there, opened
from jcache.store.policy import Plan, Reason, Verdict, Verdicts
from jcache.store.sidecar import RECENCY_BYTES, read_recency

_WHENEVER_USED: Final = (Reason.CLEARED, Reason.LEGACY, Reason.NAMED)  # these entries go even if used meanwhile
NOTHING: Final[Mapping[str, str]] = Frozen({})


@dataclass(frozen=True, slots=True)
class Failure:
    """An entry that could not be removed, and why."""

    entry: Entry
    reason: str


@dataclass(slots=True)
class Removal:
    """What a plan's execution has removed so far.

    Attributes:
        victims: the victims of the plan.
        removed_at: their places among the victims, of those that are gone.
        bytes: of all files unlinked, sidecars included.
        kept: victims of the plan that were used or pinned meanwhile, and so stayed.
        gone_at: places of the victims that somebody else had removed by then.
        failures: victims that could not be removed.
        adopted: sidecars that were made for entries that stayed.
    """

    victims: Verdicts
    removed_at: array[int] = field(default_factory=lambda: array("q"))
    bytes: int = 0
    kept: list[Verdict] = field(default_factory=list)
    gone_at: array[int] = field(default_factory=lambda: array("q"))
    failures: list[Failure] = field(default_factory=list)
    adopted: int = 0

    @property
    def removed(self) -> Sequence[Entry]:
        """The victims that are gone, in the order in which they went."""
        return self.victims.picked(self.removed_at)

    @property
    def gone(self) -> Sequence[Entry]:
        """The victims that somebody else had removed."""
        return self.victims.picked(self.gone_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was removed or, on a dry run, would be.

    Attributes:
        root: from where.
        dry_run: whether nothing was changed.
        removed: the entries that went, in this order, and why.
        kept: the entries that stayed, and why.
        failed: the entries that should have gone and could not be removed.
        freed_bytes: of all files removed: entries, their sidecars and XLA's sub-caches.
        xla_bytes: how many of them XLA's sub-caches had.
        sidecars_made: how many entries that stayed were given the sidecar they lacked.
        notices: what was gone on without, such as a ledger that cannot be read; sentences.
        because: by the keys of entries, the trace with which they went, or for which they stayed.
    """

    root: Root
    dry_run: bool
    removed: Sequence[Verdict]
    kept: Sequence[Verdict]
    failed: tuple[Failure, ...]
    freed_bytes: int
    xla_bytes: int
    sidecars_made: int
    notices: tuple[str, ...]
    because: Mapping[str, str] = NOTHING


def foresee(plan: Plan) -> Removal:
    """Return what executing a plan removes if nobody uses, pins or removes anything meanwhile."""
    sidecars = sum(entry.sidecar for entry, _ in plan.victims)
    places = array("q", range(len(plan.victims)))
    return Removal(plan.victims, removed_at=places, bytes=plan.victims.bytes + RECENCY_BYTES * sidecars)


def removing(
    root: Root,
    victims: Iterable[tuple[int, Verdict]],
    removal: Removal,
    pins: Collection[tuple[Kind, str]] = (),
    because: Mapping[str, str] = NOTHING,
) -> Iterator[None]:
    """Remove the victims, a step each, and write down in ``removal`` what became of them.

    Args:
        root: whose entries.
        victims: which of them, each with its place among the victims of the removal; programs after their traces.
        removal: what became of them.
        pins: what is pinned by now.
        because: by the keys of programs, the traces with which they go, or stay.
    """
    stayed: set[str] = set()
    with Directories(root) as directories:
        uses = _Uses(root, directories)
        for place, verdict in victims:
            entry = verdict.entry
            before = len(removal.kept) + len(removal.failures)
            if because.get(entry.key) in stayed:
                removal.kept.append(Verdict(entry, Reason.NEEDED))
            elif not entry.pinned and (entry.kind, entry.key) in pins:
                removal.kept.append(Verdict(entry._replace(pinned=True), Reason.PINNED))
            elif verdict.reason not in _WHENEVER_USED and uses.since(entry):
                removal.kept.append(Verdict(entry, Reason.USED_MEANWHILE))
            else:
                _remove(root, place, entry, directories, removal)
            if len(removal.kept) + len(removal.failures) > before:
                stayed.add(entry.key)
            yield


def _remove(root: Root, place: int, entry: Entry, directories: Directories, removal: Removal) -> None:
    try:
        size = unlink(root, entry, directories)
    except OSError as error:
        removal.failures.append(Failure(entry, error.strerror or str(error)))
        return
    (removal.gone_at if size is None else removal.removed_at).append(place)
    removal.bytes += size or 0


def unlink(root: Root, entry: Entry, directories: Directories) -> int | None:
    """Remove an entry's files and return their bytes, None if the entry is already gone.

    Raises:
        OSError: as the file system says, or because the name is no regular file.
    """
    name, directory = directories.of_entry(entry.kind, entry.key, legacy=entry.legacy)
    size = files.remove(name, directory=directory)
    if not entry.legacy and root.layout.has_sidecars:
        with suppress(OSError):  # a sidecar that cannot be removed harms nobody
            beside = files.remove(entry.key + SIDECAR_SUFFIX, directory=directory) or 0
            size = beside + size if size is not None else None
    take_back(root, entry.kind, entry.key, directories)
    return size


def take_back(root: Root, kind: Kind, key: str, directories: Directories) -> None:
    """Remove the file, if there is one, in which an entry's payload was handed to other code."""
    if kind is Kind.GRAPHS:
        with suppress(OSError):
            files.remove(key, directory=directories.descriptor(root.handed))


def sweeping(root: Root, kind: Kind, names: Iterable[str]) -> Iterator[None]:
    """Remove sidecars that are older than the grace period and have no entry, a step each, with the lock held."""
    with opened(root, root.directory(kind)) as directory:
        for name in names:
            entry = name.removesuffix(SIDECAR_SUFFIX) + ENTRY_SUFFIX
            with suppress(OSError):
                old = not is_young(os.lstat(name, dir_fd=directory).st_mtime_ns, clock.now_ns())
                if old and not is_there(entry, directory):
                    files.remove(name, directory=directory)
            yield


def set_aside_xla(directory: int) -> Iterator[str]:
    """Rename XLA's sub-caches in an open directory, under the lock; yield what is to be removed outside of it."""
    for name in _xla_in(directory):
        aside = f"{ASIDE_PREFIX}{os.urandom(8).hex()}"
        os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
        yield aside


def _xla_in(directory: int) -> Iterator[str]:
    """Yield the names of XLA's sub-caches that are in an open directory; links are none."""
    for name in XLA_NAMES:
        with suppress(FileNotFoundError):
            mode = os.lstat(name, dir_fd=directory).st_mode
            if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
                yield name


def xla_size(root: Root) -> int:
    """Return bytes of XLA's sub-caches, as far as `set_aside_xla` takes them."""
    if not root.layout.follows_jax:
        return 0
    try:
        with opened(root, root.directory(Kind.EXECUTABLES)) as directory:
            return sum(file_tree.tree_size(name, directory=directory)[1] for name in _xla_in(directory))
    except OSError:
        return 0


class _Uses:
    """Tells what has been used since a plan was made."""

    def __init__(self, root: Root, directories: Directories) -> None:
        self._root = root
        self._directories = directories
        self._times: dict[int, AccessTimes] = {}

    def since(self, entry: Entry) -> bool:
        root = self._root
        try:
            name, directory = self._directories.of_entry(entry.kind, entry.key, legacy=entry.legacy)
            status = os.lstat(name, dir_fd=directory)
        except OSError:
            return False
        if directory not in self._times:
            self._times[directory] = access_times(directory, root)
        if root.layout.has_sidecars:
            told_ns = read_recency(entry.key + SIDECAR_SUFFIX, directory=directory) or 0
        else:
            told_ns = status.st_mtime_ns
        return max(self._times[directory].used_ns(status), told_ns) > entry.recency_ns
