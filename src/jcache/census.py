"""What a root holds, in numbers: what `jcache info` shows."""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from jcache.entry import Neighbour
from jcache.files import RECENCY_BYTES, refusal, tree_size
from jcache.frozen import Frozen
from jcache.keying import NOTHING, Elsewhere, elsewhere
from jcache.layout import ENTRY_SUFFIX, Kind, Member, Root, member
from jcache.listing import Listing
from jcache.roots import is_bounded
from jcache.shell import shown
from jcache.store import Store

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
        pinned: how many of them prune must keep.
        cap: the bound that ``JAX_COMPILATION_CACHE_MAX_SIZE`` sets, in bytes; None for none.
    """

    entries: int
    bytes: int
    sidecars: int
    oldest_ns: int | None
    newest_ns: int | None
    pinned: int
    cap: int | None


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
    """

    root: Root
    kinds: Mapping[Kind, KindCensus]
    neighbours: Mapping[str, Group]
    total_bytes: int
    disk_bytes: int
    disk_free_bytes: int
    notices: tuple[str, ...] = ()
    elsewhere: Elsewhere = NOTHING

    @property
    def health(self) -> str:
        """One line: what deserves attention first, and the command for it; ``ok`` otherwise."""
        for kind, counted in self.kinds.items():
            ours = self.root.adapter is None
            bounded = ours and (counted.cap is not None or is_bounded(self.root, kind))
            if bounded and (missing := counted.entries - counted.sidecars):
                return (
                    f"{missing} of {counted.entries} {kind} have no -atime file, which stops every bounded put of "
                    "jax <= 0.11.1; `jcache verify --repair` makes them"
                )
        blocking = [name for name in self.neighbours["unknown"].names if name.endswith(ENTRY_SUFFIX)]
        if blocking and self.root.adapter is None:
            return f"{blocking[0]!r} is no entry, yet stops every bounded put of jax <= 0.11.1: move it away"
        if self.elsewhere.directories:
            return f"{self._elsewhere()}; `jcache info -v` names the ways out"
        if legacy := self.neighbours["legacy"].files:
            if not any(counted.entries for counted in self.kinds.values()):
                return f"all entries are of jax <= 0.4.30; `jcache ls --legacy` lists the {legacy}"
            return f"{legacy} legacy entries that no JAX after 0.4.30 reads; `jcache prune --legacy` removes them"
        return "ok"

    def _elsewhere(self) -> str:
        """How many executables cannot hit where they are, in words."""
        directories, looked_at, _ = self.elsewhere
        total, first = self.kinds[Kind.EXECUTABLES].entries, next(iter(directories))
        where = shown(first) + (f" and {len(directories) - 1} more" if len(directories) > 1 else "")
        some = f"{looked_at} looked at, of {total} executables," if looked_at < total else f"{total} executables"
        return f"{sum(directories.values())} of {some} cannot hit at this path (keyed for {where})"


def take_census(store: Store, environment: Mapping[str, str], *, sample: int = 1) -> Census:
    """Counts what a root holds.

    Args:
        store: of the root.
        environment: ``JAX_COMPILATION_CACHE_MAX_SIZE`` in it is the cap.
        sample: how many executables to read where the ledger knows of none what they are keyed for.

    Raises:
        CannotWrite: a directory of the root cannot be read.
    """
    listings = {kind: store.listing(kind) for kind in Kind}
    pins = store.softly(store.pins.known) or set()
    pinned = Counter(kind for kind, _ in pins)
    cap = None if store.root.adapter else cap_of(environment)
    kinds = {kind: _count(listing, pinned[kind], cap) for kind, listing in listings.items()}
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
    )


def _count(listing: Listing, pinned: int, cap: int | None) -> KindCensus:
    recency = listing.columns.recency
    return KindCensus(
        entries=len(listing),
        bytes=listing.bytes,
        sidecars=listing.sidecars,
        oldest_ns=min(recency, default=None),
        newest_ns=max(recency, default=None),
        pinned=pinned,
        cap=cap,
    )


def cap_of(environment: Mapping[str, str]) -> int | None:
    """The bytes that JAX is told to keep its executables within, None if it is told of no bound."""
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
    files, size = (kept, kept_size) if root.adapter else tree_size(root.state)  # elsewhere, then, and not of its bytes
    found["quarantine"].append(Neighbour("", Member.OURS, kept // 2, kept_size))  # each entry has its record
    found["state"].append(Neighbour("", Member.OURS, files - kept, size - kept_size))
    return {name: _sum(some) for name, some in found.items()}


def _beside(root: Root) -> Iterable[Neighbour]:
    """What is not ours in the top directory of a root that jcache made."""
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
