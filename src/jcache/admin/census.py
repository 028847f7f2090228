"""Count the entries and other files of a root, for `jcache info`."""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from jcache import clock
from jcache.admin.neighbour_groups import Group, beside_executables, grouped
from jcache.configuration.files import for_program
from jcache.entry import is_young
from jcache.findings import Damage, Finding
from jcache.frozen import Frozen
from jcache.layout import ENTRY_SUFFIX, FileKind, Kind, Root
from jcache.store.files import refusal
from jcache.store.listing import Listing
from jcache.store.roots import is_bounded
from jcache.store.store import Store
from jcache.text import command, shown
from jcache.units import format_age
from jcache.verify import last_verification
from jcache.verify.last_verification import LastVerification
from jcache.verify.neighbours import describe_unlisted
from jcache.verify.path_key_sentences import describe_portable_keys
from jcache.verify.path_keys import NONE_MISPLACED, MisplacedExecutables, find_misplaced
from jcache.verify.permissions import check_directories

CAP: Final = "JAX_COMPILATION_CACHE_MAX_SIZE"


@dataclass(frozen=True, slots=True)
class KindCensus:
    """The entries of one kind.

    Attributes:
        entries: number of entries.
        bytes: size of their files without sidecars, as JAX counts it against its bound.
        sidecars: number of entries that have a sidecar.
        oldest_ns: last use of the least recently used entry, in nanoseconds since 1970; None without entries.
        newest_ns: last use of the most recently used entry.
        pinned: number of pinned entries; None if it is unknown.
        cap: bound that the environment or the configuration sets, in bytes; None if neither sets one.
        empty: number of entries that are empty files.
        unknown: number of entries whose last use is unknown, and counted from writing.
        accessed_ns: time at which last uses without a sidecar were read, in nanoseconds since 1970; None for now.
        unverified: number of entries whose files are new or changed since the last verification began.
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
    unverified: int = 0


@dataclass(frozen=True, slots=True)
class Census:
    """A root in numbers.

    Attributes:
        root: the root.
        kinds: entries by kind.
        neighbours: other files by sort: ``autotune``, ``kernels``, ``legacy``, ``sidecars`` (of entries), ``orphans``
            (sidecars without an entry), ``temporary``, ``unknown``, ``quarantine`` (damaged entries) and ``state``
            (jcache's own files).
        total_bytes: size of all kinds and neighbours, without the content of unknown directories.
        disk_bytes: size of the file system, without the part reserved for the system.
        disk_free_bytes: free space on the file system.
        notices: sentences on parts that failed, such as a ledger that cannot be read.
        elsewhere: executables whose keys depend on another directory than this one, as far as they are known.
        taken_ns: time of the count, in nanoseconds since 1970.
        verified: result of the last `jcache verify`; None if there was none.
        exposed: finding on a directory of the root that belongs to another user; None if there is none.
        unfinished: number of temporary files that are older than a minute.
        pins_known: whether it is known which entries are pinned; if not, nothing can be removed.
        note: sentence on the keys of executables here; None if there is nothing to say.
        blocking: name of a file that is no entry and makes every bounded put of jax <= 0.11.1 fail; None without one.
        unlisted: sentence on executables in a directory in which jcache does not look; None without any.
    """

    root: Root
    kinds: Mapping[Kind, KindCensus]
    neighbours: Mapping[str, Group]
    total_bytes: int
    disk_bytes: int
    disk_free_bytes: int
    notices: tuple[str, ...] = ()
    elsewhere: MisplacedExecutables = NONE_MISPLACED
    taken_ns: int = 0
    verified: LastVerification | None = None
    exposed: Finding | None = None
    unfinished: int = 0
    pins_known: bool = True
    note: str | None = None
    blocking: str | None = None
    unlisted: str | None = None

    @property
    def health(self) -> str:
        """One line on the most important problem, with the command for it; or ``ok``, and the last verification."""
        if (damage := self._damage()) is not None:
            return damage
        for kind, counted in self.kinds.items():
            bounded = self.root.layout.has_sidecars and (counted.cap is not None or is_bounded(self.root, kind))
            if bounded and (missing := counted.entries - counted.sidecars):
                return (
                    f"{missing} of {counted.entries} {kind} have no -atime file, so every bounded put of jax <= 0.11.1 "
                    f"fails; `{self._command('verify --repair')}` makes them"
                )
        if self.blocking is not None and self.root.layout.follows_jax:
            return f"{self.blocking!r} is no entry, so every bounded put of jax <= 0.11.1 fails: move it away"
        if self.unlisted is not None:
            return self.unlisted
        if self.elsewhere.directories:
            return f"{self._elsewhere()}; `{self._command('info -v')}` shows the remedies"
        if legacy := self.neighbours["legacy"].files:
            if not any(counted.entries for counted in self.kinds.values()):
                return f"only jax <= 0.4.30 reads the entries here; `{self._command('ls --legacy')}` lists the {legacy}"
            prune = self._command("prune --legacy")
            return f"{legacy} legacy entries that no JAX after 0.4.30 reads; `{prune}` removes them"
        return f"ok ({self._verified})"

    def _damage(self) -> str | None:
        """Return a sentence on damage that is known without reading entries, with the command; None if none is."""
        last = self.verified
        if last is not None and last.damaged:
            found = f"{last.damaged:,} findings" if last.damaged > 1 else "1 finding"
            found = f"at least {found}" if last.changed else found
            when = f" of the last verify, {self._age} ago" if last.ended_ns else ", restored from quarantine"
            return f"{found}{when}; `{self._command('verify --repair')}` repairs what it can"
        if empty := sum(counted.empty for counted in self.kinds.values()):
            entries = f"{empty:,} entries are empty files" if empty > 1 else "1 entry is an empty file"
            return f"{entries}; `{self._command('verify --repair')}` moves damaged entries to quarantine"
        if last is not None and last.changed:
            files = f"{last.changed:,} files" if last.changed > 1 else "1 file"
            when = f" {self._age} ago" if last.ended_ns else ""
            again = self._command("verify")
            return f"{files} with findings in the last verify{when} may have changed since; `{again}` checks again"
        if self.unfinished:
            files = f"{self.unfinished:,} files were" if self.unfinished > 1 else "1 file was"
            return f"{files} never finished by a writer; `{self._command('verify --repair')}` removes such files"
        if not self.pins_known:
            return f"it is unknown which entries are pinned, so none is removed; `{self._command('verify')}` says why"
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
        """The part of the root that was verified, and the time since then."""
        if self.verified is None or not self.verified.ended_ns:
            return "never verified"
        checked, entries = self.verified.checked, self.verified.entries
        some = "verified" if checked == entries else f"{checked:,} of {entries:,} entries verified"
        later = sum(counted.unverified for counted in self.kinds.values())
        which = "" if not later else f", {later:,} {'entry' if later == 1 else 'entries'} new or changed since"
        return f"{some} {self._age} ago{which}"

    def _elsewhere(self) -> str:
        """Return a clause on the number of executables that cannot be hit at this path."""
        directories, looked_at, _ = self.elsewhere
        total, first = self.kinds[Kind.EXECUTABLES].entries, next(iter(directories))
        where = shown(first) + (f" and {len(directories) - 1} more" if len(directories) > 1 else "")
        some = f"{looked_at} executables read ({total} in all)" if looked_at < total else f"{total} executables"
        return f"{sum(directories.values())} of {some} cannot be hit at this path, since their keys contain {where}"


def take_census(store: Store, environment: Mapping[str, str], *, sample: int = 1) -> Census:
    """Count what a root holds.

    Args:
        store: store of the root.
        environment: environment, whose ``JAX_COMPILATION_CACHE_MAX_SIZE`` is the cap, else the configured one.
        sample: number of executables to read if the ledger knows the directory in the keys of none.

    Raises:
        CannotWrite: a directory of the root cannot be read.
    """
    listings = {kind: store.listing(kind) for kind in Kind}
    pins = store.queue.attempt(store.pins.known)
    found, faults = for_program(store.root, environment)
    for fault in faults:
        store.queue.notice(fault)
    cap = found.value("max_size") if store.root.layout.follows_jax else None
    verified = last_verification.read(store.root)
    kinds = {kind: _count(listing, pins, cap, verified) for kind, listing in listings.items()}
    with refusal(f"read {store.root.path}"):
        beside = [] if store.root.plain else list(beside_executables(store.root))
        neighbours = grouped(listings.values(), store.root, beside)
        disk = shutil.disk_usage(store.root.path)
    return Census(
        root=store.root,
        kinds=Frozen(kinds),
        neighbours=Frozen(neighbours),
        total_bytes=sum(kind.bytes for kind in kinds.values()) + sum(group.bytes for group in neighbours.values()),
        disk_bytes=disk.used + disk.free,
        disk_free_bytes=disk.free,
        notices=tuple(store.notices),
        elsewhere=find_misplaced(store, listings[Kind.EXECUTABLES], sample=sample),
        taken_ns=clock.now_ns(),
        verified=verified,
        unfinished=sum(map(_unfinished, listings.values())),
        pins_known=pins is not None,
        note=_note(store, listings[Kind.EXECUTABLES]),
        blocking=_blocking(listings.values()),
        unlisted=describe_unlisted(store.root, (neighbour.name for neighbour in beside)),
        exposed=next((one for one in check_directories(store.root) if one.damage is Damage.OWNER), None),
    )


def _blocking(listings: Iterable[Listing]) -> str | None:
    names = (neighbour.name for listing in listings for neighbour in listing.neighbours)
    return min((name for name in names if name.endswith(ENTRY_SUFFIX)), default=None)


def _unfinished(listing: Listing) -> int:
    """Return the number of temporary files that are older than a minute."""
    count = 0
    for neighbour in listing.neighbours:
        with suppress(OSError):
            if neighbour.member is FileKind.TEMPORARY:
                count += not is_young(os.lstat(listing.directory / neighbour.name).st_mtime_ns, clock.now_ns())
    return count


def _note(store: Store, executables: Listing) -> str | None:
    if not store.root.layout.follows_jax:
        return None
    if len(executables):
        return describe_portable_keys(store, executables)
    from jcache.admin.empty import explain_empty

    return explain_empty(store)


def _count(
    listing: Listing,
    pins: Collection[tuple[Kind, str]] | None,
    cap: int | None,
    verified: LastVerification | None,
) -> KindCensus:
    used = listing.used()
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
        unverified=0 if verified is None else listing.changed_since(verified.began_ns),
        cap=cap,
    )
