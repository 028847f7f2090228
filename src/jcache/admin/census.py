"""What a root holds, in numbers: what `jcache info` shows."""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from jcache import clock
from jcache.entry import Neighbour, is_young
from jcache.findings import Damage, Finding
from jcache.frozen import Frozen
from jcache.layout import ENTRY_SUFFIX, Kind, Member, Root, member
from jcache.store.file_tree import tree_size
from jcache.store.files import refusal
from jcache.store.listing import Listing
from jcache.store.roots import is_bounded
from jcache.store.sidecar import RECENCY_BYTES
from jcache.store.store import Store
from jcache.text import command, shown
from jcache.units import format_age
from jcache.verify import last_verification
from jcache.verify.last_verification import LastVerification
from jcache.verify.path_keys import NOTHING, Elsewhere, about_portable_keys, elsewhere
from jcache.verify.permissions import check_directories

CAP: Final = "JAX_COMPILATION_CACHE_MAX_SIZE"
_NAMES_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class KindCensus:
    """The entries of one kind.

    Attributes:
        entries: how many.
        bytes: of their files, without sidecars, as JAX counts against its bound.
        sidecars: how many have one.
        oldest_ns: the longest unused one's last use, nanoseconds since 1970; None without entries.
        newest_ns: the most recent use.
        pinned: how many of them prune must keep; None where that is not known.
        cap: the bound that ``JAX_COMPILATION_CACHE_MAX_SIZE`` sets, in bytes; None for none.
        empty: how many of them are empty files.
        unknown: of how many nobody knows the last use; theirs is counted from writing.
        accessed_ns: as of when the uses are known that no sidecar tells, nanoseconds since 1970; None for now.
    """

    entries: int
    bytes: int
    sidecars: int
    oldest_ns: int | None
    newest_ns: int | None
    pinned: int | None
    cap: int | None
    empty: int = 0
    unknown: int = 0
    accessed_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """What lies beside the entries, of one sort: so many files, so many bytes, the first names."""

    files: int = 0
    bytes: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Census:
    """A root in numbers.

    Attributes:
        root: which.
        kinds: its entries.
        neighbours: what lies beside them: ``autotune``, ``kernels``, ``legacy``, ``sidecars`` (of entries),
            ``orphans`` (sidecars without an entry), ``temporary``, ``unknown``, ``quarantine`` (damaged entries) and
            ``state`` (jcache's own).
        total_bytes: of all kinds and neighbours; unknown directories are not entered and count nothing.
        disk_bytes: size of the file system, as far as it is used or free for the user.
        disk_free_bytes: what is free on it.
        notices: what was gone on without, such as a ledger that cannot be read; sentences.
        elsewhere: executables that are keyed for another directory than the one that they lie in, as far as is known.
        taken_ns: when they were counted, nanoseconds since 1970.
        verified: what the last `jcache verify` has found; None if there was none.
        exposed: a directory of the root that belongs to somebody else.
        unfinished: how many temporary files are older than a minute.
        pins_known: whether it is known what is pinned; else nothing is removed.
        note: what to know of the keys of executables here, as a sentence; None for nothing.
    """

    root: Root
    kinds: Mapping[Kind, KindCensus]
    neighbours: Mapping[str, Group]
    total_bytes: int
    disk_bytes: int
    disk_free_bytes: int
    notices: tuple[str, ...] = ()
    elsewhere: Elsewhere = NOTHING
    taken_ns: int = 0
    verified: LastVerification | None = None
    exposed: Finding | None = None
    unfinished: int = 0
    pins_known: bool = True
    note: str | None = None

    @property
    def health(self) -> str:
        """One line: what deserves attention first, and the command for it; else ``ok``, and since when."""
        if (damage := self._damage()) is not None:
            return damage
        for kind, counted in self.kinds.items():
            bounded = self.root.layout.has_sidecars and (counted.cap is not None or is_bounded(self.root, kind))
            if bounded and (missing := counted.entries - counted.sidecars):
                return (
                    f"{missing} of {counted.entries} {kind} have no -atime file, which stops every bounded put of "
                    f"jax <= 0.11.1; `{self._command('verify --repair')}` makes them"
                )
        blocking = [name for name in self.neighbours["unknown"].names if name.endswith(ENTRY_SUFFIX)]
        if blocking and self.root.layout.follows_jax:
            return f"{blocking[0]!r} is no entry, yet stops every bounded put of jax <= 0.11.1: move it away"
        if self.elsewhere.directories:
            return f"{self._elsewhere()}; `{self._command('info -v')}` names the ways out"
        if legacy := self.neighbours["legacy"].files:
            if not any(counted.entries for counted in self.kinds.values()):
                return f"all entries are of jax <= 0.4.30; `{self._command('ls --legacy')}` lists the {legacy}"
            prune = self._command("prune --legacy")
            return f"{legacy} legacy entries that no JAX after 0.4.30 reads; `{prune}` removes them"
        return f"ok ({self._verified})"

    def _damage(self) -> str | None:
        """Return the known damage, without reading entries, and the command for it; None if there is none."""
        last = self.verified
        if last is not None and last.damaged:
            found = f"{last.damaged:,} findings" if last.damaged > 1 else "1 finding"
            found = f"at least {found}" if last.changed else found
            when = f" of the last verify, {self._age} ago" if last.ended_ns else ", put back from quarantine"
            return f"{found}{when}; `{self._command('verify --repair')}` mends what can be mended"
        if empty := sum(counted.empty for counted in self.kinds.values()):
            entries = f"{empty:,} entries are empty files" if empty > 1 else "1 entry is an empty file"
            return f"{entries}; `{self._command('verify --repair')}` takes out what is damaged"
        if last is not None and last.changed:
            files = f"{last.changed:,} files" if last.changed > 1 else "1 file"
            when = f", {self._age} ago" if last.ended_ns else ""
            again = self._command("verify")
            return f"{files} with findings of the last verify{when}, may have changed since; `{again}` looks again"
        if self.unfinished:
            files = f"{self.unfinished:,} files were" if self.unfinished > 1 else "1 file was"
            return f"{files} begun and never finished; `{self._command('verify --repair')}` removes what is left over"
        if not self.pins_known:
            return f"what is pinned is not known, so that nothing is removed; `{self._command('verify')}` says why"
        if self.exposed is not None:
            return f"{shown(str(self.exposed.path))}: {self.exposed.evidence} See `{self._command('verify')}`"
        return None

    def _command(self, words: str) -> str:
        return command(words, self.root.path)

    @property
    def _age(self) -> str:
        return format_age(max(self.taken_ns - (self.verified.ended_ns if self.verified else 0), 0))

    @property
    def _verified(self) -> str:
        """How much of the root was verified, and when."""
        if self.verified is None or not self.verified.ended_ns:
            return "never verified"
        checked, entries = self.verified.checked, self.verified.entries
        some = "verified" if checked == entries else f"{checked:,} of {entries:,} entries verified"
        return f"{some} {self._age} ago"

    def _elsewhere(self) -> str:
        """Return how many executables cannot hit at this path, in words."""
        directories, looked_at, _ = self.elsewhere
        total, first = self.kinds[Kind.EXECUTABLES].entries, next(iter(directories))
        where = shown(first) + (f" and {len(directories) - 1} more" if len(directories) > 1 else "")
        some = f"{looked_at} looked at, of {total} executables," if looked_at < total else f"{total} executables"
        return f"{sum(directories.values())} of {some} cannot hit at this path (keyed for {where})"


def take_census(store: Store, environment: Mapping[str, str], *, sample: int = 1) -> Census:
    """Count what a root holds.

    Args:
        store: of the root.
        environment: ``JAX_COMPILATION_CACHE_MAX_SIZE`` in it is the cap.
        sample: how many executables to read where the ledger knows of none what they are keyed for.

    Raises:
        CannotWrite: a directory of the root cannot be read.
    """
    listings = {kind: store.listing(kind) for kind in Kind}
    pins = store.queue.attempt(store.pins.known)
    cap = cap_of(environment) if store.root.layout.follows_jax else None
    kinds = {kind: _count(listing, pins, cap) for kind, listing in listings.items()}
    with refusal(f"read {store.root.path}"):
        neighbours = _group(listings.values(), store.root)
        disk = shutil.disk_usage(store.root.path)
    return Census(
        root=store.root,
        kinds=Frozen(kinds),
        neighbours=Frozen(neighbours),
        total_bytes=sum(kind.bytes for kind in kinds.values()) + sum(group.bytes for group in neighbours.values()),
        disk_bytes=disk.used + disk.free,
        disk_free_bytes=disk.free,
        notices=tuple(store.notices),
        elsewhere=elsewhere(store, listings[Kind.EXECUTABLES], sample=sample),
        taken_ns=clock.now_ns(),
        verified=last_verification.read(store.root),
        unfinished=sum(map(_unfinished, listings.values())),
        pins_known=pins is not None,
        note=about_portable_keys(store) if len(listings[Kind.EXECUTABLES]) else None,
        exposed=next((one for one in check_directories(store.root) if one.damage is Damage.OWNER), None),
    )


def _unfinished(listing: Listing) -> int:
    """Return the number of files that a writer has not finished within a minute."""
    count = 0
    for neighbour in listing.neighbours:
        with suppress(OSError):
            if neighbour.member is Member.TEMPORARY:
                count += not is_young(os.lstat(listing.directory / neighbour.name).st_mtime_ns, clock.now_ns())
    return count


def _count(listing: Listing, pins: Collection[tuple[Kind, str]] | None, cap: int | None) -> KindCensus:
    used = list(listing.used())
    ours = {key for kind, key in pins or () if kind is listing.kind}
    there = (*listing.columns.keys, *(entry.key for entry in listing.legacy)) if ours else ()
    return KindCensus(
        entries=len(listing),
        bytes=listing.bytes,
        sidecars=listing.sidecars,
        oldest_ns=min(used, default=None),
        newest_ns=max(used, default=None),
        pinned=None if pins is None else sum(key in ours for key in there),
        empty=listing.columns.sizes.count(0),
        unknown=listing.unknown,
        accessed_ns=listing.accessed_ns,
        cap=cap,
    )


def cap_of(environment: Mapping[str, str]) -> int | None:
    """Return the bytes that JAX is told to keep its executables within, None if it is told of no bound."""
    text = environment.get(CAP, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None  # JAX's -1, no bound, is no cap


def _group(listings: Iterable[Listing], root: Root) -> dict[str, Group]:
    found: dict[str, list[Neighbour]] = {
        name: []
        for name in (
            "autotune",
            "kernels",
            "legacy",
            "sidecars",
            "orphans",
            "temporary",
            "unknown",
            "quarantine",
            "state",
        )
    }
    for listing in listings:
        found["sidecars"].append(Neighbour("", Member.SIDECAR, listing.sidecars, listing.sidecars * RECENCY_BYTES))
        found["legacy"] += (Neighbour(e.key, Member.LEGACY, 1, e.bytes) for e in listing.legacy)
        for neighbour in listing.neighbours:
            found["orphans" if neighbour.member is Member.SIDECAR else neighbour.member].append(neighbour)
    if not root.plain:
        found["unknown"] += _beside(root)
    kept, kept_size = tree_size(root.quarantine)
    files, size = (kept, kept_size) if root.state_path else tree_size(root.state)  # outside, it is not of its bytes
    found["quarantine"].append(Neighbour("", Member.OURS, kept // 2, kept_size))  # each entry has its record
    found["state"].append(Neighbour("", Member.OURS, files - kept, size - kept_size))
    return {name: _sum(some) for name, some in found.items()}


def _beside(root: Root) -> Iterable[Neighbour]:
    """Yield the files of others in the top directory of a root that jcache made."""
    with os.scandir(root.path) as listing:
        for item in listing:
            if member(item.name)[0] is not Member.OURS:
                with suppress(OSError):  # vanished between the listing and here
                    regular = item.is_file(follow_symlinks=False)
                    yield Neighbour(item.name, Member.UNKNOWN, 1, item.stat(follow_symlinks=False).st_size * regular)


def _sum(some: list[Neighbour]) -> Group:
    blocking_first = sorted((not n.name.endswith(ENTRY_SUFFIX), n.name) for n in some if n.name)
    names = [name for _, name in blocking_first[:_NAMES_SHOWN]]
    return Group(sum(n.files for n in some), sum(n.bytes for n in some), tuple(names))
