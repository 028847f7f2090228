"""Check the files beside the entries: sidecars, temporary files, legacy entries, and names that make JAX's put fail."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from jcache.entry import NO_SIDECAR, Neighbour
from jcache.findings import Damage, Finding, Stamp
from jcache.layout import ASIDE_PREFIX, ENTRY_SUFFIX, LOCK_NAME, SIDECAR_SUFFIX, FileKind, Root, member
from jcache.store.listing import Listing
from jcache.store.roots import root_path
from jcache.store.sidecar import RECENCY_BYTES, read_recency
from jcache.text import command, quoted, shown
from jcache.units import format_age
from jcache.verify.checks import not_a_file

_MIN_AHEAD: Final = 10
CLOCK_TOLERANCE_NS: Final = 300_000_000_000  # clocks of machines that share a directory differ by seconds


def check_neighbours(
    listing: Listing, now_ns: int, grace_ns: int, *, unbounded: bool = False, behind: bool = False
) -> Iterator[Finding]:
    """Yield the findings on the files beside a directory's entries.

    Args:
        listing: listing of the directory.
        now_ns: current time in nanoseconds since 1970.
        grace_ns: age in nanoseconds below which a temporary file may still be in use.
        unbounded: whether the directory has no size limit, so that a missing sidecar is only a note.
        behind: whether this machine's clock is behind (see `is_clock_behind`), so that times in the future are right.
    """
    if listing.layout.has_sidecars:
        yield from _sidecar_findings(listing, now_ns, unbounded=unbounded, behind=behind)
    for neighbour in listing.neighbours:
        finding = _neighbour_finding(listing, neighbour, now_ns - grace_ns)
        if finding is not None:
            yield finding
    for entry in listing.legacy:
        yield Finding(
            damage=Damage.LEGACY,
            path=listing.directory / entry.file_name,
            evidence="Written by jax <= 0.4.30; no later JAX reads it.",
            kind=listing.kind,
            key=entry.key,
            advice=command("prune --legacy", root_path(listing.directory)),
            is_note=True,
        )


def describe_unlisted(root: Root, names: Iterable[str]) -> str | None:
    """Return a sentence on executables beside those of a jcache root, in its directory itself; None for none.

    JAX without jcache stores them there where that directory is its cache directory.

    Args:
        root: the root.
        names: names of the files in its directory.
    """
    number = 0 if root.plain else sum(member(name)[0] is FileKind.ENTRY for name in names)
    if not number:
        return None
    some = "1 executable lies" if number == 1 else f"{number:,} executables lie"
    return (
        f"{some} in {shown(str(root.path))} itself, which JAX without jcache uses as its cache directory: jcache does "
        f'not look there; with `eval "$({command("env", root.path)})"` JAX uses what jcache looks after'
    )


def is_clock_behind(times: Sequence[int], now_ns: int) -> bool:
    """Return whether this machine's clock is behind, given the times of use on record.

    It is if it shows a time before jcache was installed, or if most of the times, and at least ten, are in the future.
    """
    ahead = sum(time_ns > now_ns + CLOCK_TOLERANCE_NS for time_ns in times)
    installed_ns = os.stat(__file__).st_mtime_ns
    return ahead > 0 and (
        now_ns < installed_ns - CLOCK_TOLERANCE_NS or (ahead >= _MIN_AHEAD and 2 * ahead > len(times))
    )


def _sidecar_findings(listing: Listing, now_ns: int, *, unbounded: bool, behind: bool) -> Iterator[Finding]:
    columns = listing.columns
    locked = os.path.lexists(listing.directory / LOCK_NAME)
    for key, created, recency, changed in zip(
        columns.keys, columns.created, columns.recency, columns.sidecars, strict=True
    ):
        fault = None
        if changed == NO_SIDECAR:
            if locked:
                fault = Damage.MISSING_SIDECAR, "Every bounded put of jax <= 0.11.1 fails without it."
        elif recency > now_ns + CLOCK_TOLERANCE_NS and not behind:
            ahead = format_age(recency - now_ns)
            fault = (Damage.SIDECAR_FUTURE, f"Last used {ahead} from now, so it would never be evicted.")
        elif recency == created:  # a sidecar that cannot be read counts as this time
            fault = _sidecar_damage(listing.directory / (key + SIDECAR_SUFFIX))
        if fault is not None:
            path = listing.directory / (key + SIDECAR_SUFFIX)
            note = fault[0] is Damage.MISSING_SIDECAR and unbounded
            yield Finding(damage=fault[0], path=path, evidence=fault[1], kind=listing.kind, key=key, is_note=note)


def _sidecar_damage(path: Path) -> tuple[Damage, str] | None:
    """Return the damage of a sidecar; None if there is none, or if JAX has removed the sidecar meanwhile."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return Damage.NOT_A_FILE, "It has the name of a sidecar, but is no regular file."
    if status.st_size != RECENCY_BYTES:
        return Damage.SIDECAR_SIZE, f"It has {status.st_size} bytes, not the {RECENCY_BYTES} of a time."
    if read_recency(path) is None:
        return Damage.SIDECAR_FUTURE, "Its time is after the year 2262."
    return None


def _neighbour_finding(listing: Listing, neighbour: Neighbour, before_ns: int) -> Finding | None:
    path = listing.directory / neighbour.name
    try:
        status = os.lstat(path)
    except OSError:
        return None
    what, key = listing.member(neighbour.name)
    regular = stat.S_ISREG(status.st_mode)
    ours = regular or neighbour.name.startswith(ASIDE_PREFIX)
    if what is FileKind.ENTRY and not regular:
        return not_a_file(path, listing.kind, key, status.st_mode)
    if neighbour.member is FileKind.SIDECAR and regular:
        damage, evidence = Damage.ORPHANED_SIDECAR, "It has no entry."
    elif neighbour.member is FileKind.TEMPORARY and ours and status.st_mtime_ns < before_ns:
        damage, evidence = Damage.TEMPORARY, f"Left by a writer that ended too early, {neighbour.bytes:,} bytes."
    elif neighbour.name.endswith(ENTRY_SUFFIX) and what is not FileKind.ENTRY and listing.layout.follows_jax:
        damage, evidence = (
            Damage.BLOCKING,
            "It is no entry, but every bounded put of jax <= 0.11.1 fails because of it.",
        )
    else:
        return None
    advice = f"mv {quoted(str(path))} to another place" if damage is Damage.BLOCKING else None
    stamp = Stamp.of(status)
    return Finding(
        damage=damage, path=path, evidence=evidence, kind=listing.kind, key=key or None, advice=advice, stamp=stamp
    )
